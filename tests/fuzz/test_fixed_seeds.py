"""A short run of the fuzzer on seeds that never change; fresh ones are `make fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.live_broker import attack
from tests.support.canary import Canary
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hostile_frames_hurt_nobody_else(tmp_path: Path, seed: int) -> None:
    broker = RunningBroker("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0").wait_until_ready()
    canary = Canary(broker.address)
    closed = attack(broker.address, seed, count=1_000)
    canary.finish()
    assert closed > 10
    assert broker.stop() == 0
    assert not [line for line in broker.output if "Traceback" in line]
