"""`make fuzz [MINUTES=10]`: runs fresh seeds against a live broker and every decoder until the time is over.

    python -m tests.fuzz [--minutes 10] [--seed N]

The broker runs in its own process next to a canary client. It must stay alive, its memory must stay under 600 MB, its
output must have no traceback, and the canary must lose nothing. A failure prints the seed that repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.live_broker import attack
from tests.support.canary import Canary
from tests.support.running_broker import RunningBroker
from tests.unit.wire.protocol.fuzz import fuzz_once

FRAMES_PER_SEED = 2_000
DECODER_ROUNDS_PER_SEED = 2_000
MAX_MEMORY_MIB = 600


def memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="only this seed, once")
    arguments = parser.parse_args()
    seeds = random.SystemRandom()
    end = time.monotonic() + arguments.minutes * 60
    frames = closed = 0
    with tempfile.TemporaryDirectory() as folder:
        broker = RunningBroker("--data-dir", folder, "--listen", "127.0.0.1:0").wait_until_ready()
        canary = Canary(broker.address)
        highest = 0.0
        while time.monotonic() < end:
            seed = arguments.seed if arguments.seed is not None else seeds.randrange(2**32)
            chance = random.Random(seed)
            for round_number in range(DECODER_ROUNDS_PER_SEED):
                fuzz_once(chance, is_measured=round_number % 50 == 0)
            closed += attack(broker.address, seed, FRAMES_PER_SEED)
            frames += FRAMES_PER_SEED
            highest = max(highest, memory_mib(broker.process.pid))
            print(f"seed {seed}: {frames} frames, {closed} connections closed, {highest:.0f} MB at most", flush=True)
            traceback = [line for line in broker.output if "Traceback" in line]
            if broker.process.poll() is not None or traceback or highest > MAX_MEMORY_MIB or canary.problems:
                print(f"FAILED with seed {seed}: {canary.problems[:1]}\n{''.join(broker.output[-40:])}")
                return 1
            if arguments.seed is not None:
                break
        canary.finish()
        if broker.stop() != 0:
            print(f"FAILED: the broker did not stop cleanly\n{''.join(broker.output[-40:])}")
            return 1
    print(f"ok: {frames} frames, {closed} connections closed, {highest:.0f} MB at most, the canary lost nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
