"""`python -m tests.simulation.slow_seeds` (`make slow-seeds`): a hundred fixed seeds of each simulator of whole nodes.

A run that passes records its commit in slow_seeds_run.json. `--changed` (in CI) runs the seeds only if that commit is
unknown, or if a file that the simulators can notice has changed since: a seed gives the same story as long as the code
is the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.support.recorded_runs import RecordedRun

SEEDS = "1..100"
RUNS = (
    ("moldau.simulation", "--transaction-events", "1", "--coverage"),
    ("moldau.simulation.late_end_txn",),
    ("moldau.simulation.cluster", "--coverage"),
)
"""The modules, and their arguments beside the seeds."""
FLOORS = (
    *("simulation", "shell", "transport", "client", "core", "wire", "errors"),
    *("extras.py", "telemetry.py", "ports.py", "types.py"),
)
"""What the simulators import of the package."""
RECORDED = RecordedRun(
    Path(__file__).with_name("slow_seeds_run.json"),
    tuple(f"src/moldau/{floor}" for floor in FLOORS),
)
RUN_TIMEOUT_S = 5_400


def main() -> int:
    """The first exit code that is not 0; 0 if no seed needs to run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.slow_seeds", description=__doc__)
    parser.add_argument("--changed", action="store_true", help="only if the simulators can notice a change")
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run at once")
    options = parser.parse_args()
    if options.changed:
        reason = RECORDED.reason_to_run()
        if not reason:
            print(f"left out: seeds {SEEDS}: they passed at {RECORDED.commit[:8]}; nothing they can notice has changed")
            return 0
        print(f"seeds {SEEDS}: {reason}", flush=True)
    commit = RECORDED.clean_commit()
    for module, *more in RUNS:
        command = [sys.executable, "-m", module, "--seeds", SEEDS, "--jobs", str(options.jobs), *more]
        code = subprocess.run(command, check=False, timeout=RUN_TIMEOUT_S).returncode
        if code:
            return code
    RECORDED.record(commit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
