"""The example `rekey` while also the broker is killed with -9. Its README runs in test_examples.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.example_readmes import EXAMPLES, blocks_of, copy_of, readme_of, words_of
from tests.support.running_broker import RunningBroker
from tests.support.talking_process import TalkingProcess

KILLS = int(os.environ.get("KILLS", "3"))
"""`make kills-examples KILLS=30` has more."""
COMMAND_S = 60.0
RUN_S = 300.0 + 20 * KILLS
SUM = "5000 orders, each once in orders-by-customer and in invoices, those of a customer in their order\n"


def copy_with_topics(directory: Path, address: str) -> Path:
    copy = copy_of(next(path for path in EXAMPLES if path.name == "rekey"), directory, address)
    for commands, _ in blocks_of(readme_of(copy)):
        for words in map(words_of, commands):
            if words[:2] == ("moldau", "topics"):
                command = [sys.executable, "-m", *words, "-b", address]
                subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_S)
    return copy


@pytest.mark.slow
def test_a_topic_is_moved_exactly_once_while_everything_is_killed(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path / "data"), "--no-console", "--set", "group.initial.rebalance.delay.ms=0")
    broker = RunningBroker("--listen", "127.0.0.1:0", *arguments).wait_until_ready()
    address = broker.address
    copy = copy_with_topics(tmp_path, address)
    move = TalkingProcess(["env", "-C", str(copy), sys.executable, "run.py", "--kills", str(KILLS)])
    end_s = time.monotonic() + RUN_S
    broker_kills = 0
    try:
        while move.wait_for(lambda line: line.startswith("kill "), end_s):
            broker.kill()
            broker = RunningBroker("--listen", address, *arguments).wait_until_ready()
            broker_kills += 1
        assert move.live_on(end_s - time.monotonic()) == 0, "".join(move.output)
    finally:
        move.terminate()  # it ends the programs that it started
        move.live_on(COMMAND_S)
        move.kill()
        broker.stop()
    assert (move.output[-1], broker_kills) == (SUM, KILLS)
