"""`make delivery`: what kills lose and repeat in each program of examples/delivery."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.delivery.consumers import run_consumers
from tests.delivery.counting import Outcome
from tests.delivery.faults import broken_promises
from tests.delivery.producers import run_producers
from tests.delivery.programs import FOLDER

PARTS: dict[str, Callable[[Path, int, int, Callable[[str], None]], list[Outcome]]] = {
    "producers": run_producers,
    "consumers": run_consumers,
}
RESULTS = FOLDER / "results.json"


class Part(msgspec.Struct, frozen=True):
    """One run of a part of the programs."""

    command: str
    date: str
    seconds: int
    outcomes: list[Outcome]


def keep(name: str, part: Part) -> None:
    """Writes the results of one part, next to those of the other one."""
    parts = msgspec.json.decode(RESULTS.read_bytes(), type=dict[str, Part]) if RESULTS.exists() else {}
    parts[name] = part
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(parts, order="sorted"), indent=1) + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.delivery", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--part", choices=list(PARTS), action="append", help="only this part (default: both)")
    options = parser.parse_args()
    began_s = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {line}", flush=True)

    say(f"seed {options.seed}")
    faults: list[str] = []
    for name in options.part or PARTS:
        part_began_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="moldau-delivery-") as folder:
            outcomes = PARTS[name](Path(folder), options.kills, options.seed, say)
        for outcome in outcomes:
            say(str(outcome))
        faults += broken_promises(outcomes)
        command = f"make delivery PART={name} KILLS={options.kills} SEED={options.seed}"
        seconds = round(time.monotonic() - part_began_s)
        keep(name, Part(command, time.strftime("%Y-%m-%d"), seconds, outcomes))
    for fault in faults:
        say(f"BROKEN: {fault}")
    subprocess.run([sys.executable, "picture.py"], cwd=FOLDER, check=True, timeout=300)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
