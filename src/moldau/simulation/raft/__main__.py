"""`python -m moldau.simulation.raft --seed 7`: one seed, step by step; `--seeds 1..300`: many, counted. `--voters N`: N
first voters in each, in place of three or five.

Exit code 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from moldau.simulation.raft.world import Outcome, run_seed
from moldau.simulation.seeds import run_seeds


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds that the command line names; gives the exit code."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--voters", type=int)
    options, others = parser.parse_known_args(arguments)
    command, run = "moldau.simulation.raft", partial(run_seed, voters=options.voters)
    if options.voters is not None:
        command += f" --voters {options.voters}"
    return run_seeds(command, str(__doc__), others, run, _went_well, _totals)


def _went_well(outcome: Outcome) -> str:
    return (
        f"{outcome.elections} elections, {outcome.truncations} truncations, "
        f"{outcome.acknowledged} records acknowledged, {outcome.elapsed_s:.2f} s, {outcome.digest}"
    )


def _totals(seen: Sequence[Outcome]) -> str:
    return (
        f"{sum(one.elections for one in seen)} elections, {sum(one.truncations for one in seen)} truncations, "
        f"{sum(one.snapshots for one in seen)} snapshots, {sum(one.loads for one in seen)} of them loaded, "
        f"{sum(one.voter_changes for one in seen)} voter changes, {sum(one.acknowledged for one in seen)} records, "
        f"{sum(one.events for one in seen):,} events"
    )


if __name__ == "__main__":
    sys.exit(main())
