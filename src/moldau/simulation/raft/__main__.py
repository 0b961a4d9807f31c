"""`python -m moldau.simulation.raft --seed 7` prints one seed step by step; `--seeds 1..300` runs many and counts.

The exit code is 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from moldau.simulation.raft.world import Outcome, run_seed
from moldau.simulation.seeds import run_seeds, seed_parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds on the command line. Returns the exit code."""
    parser = seed_parser("moldau.simulation.raft", __doc__)
    parser.add_argument("--voters", type=int, metavar="N", help="first voters in each seed, in place of three or five")
    options = parser.parse_args(arguments)
    command = (
        "moldau.simulation.raft" if options.voters is None else f"moldau.simulation.raft --voters {options.voters}"
    )
    return run_seeds(command, options, partial(run_seed, voters=options.voters), _went_well, _totals)


def _went_well(outcome: Outcome) -> str:
    return (
        f"{outcome.elections} elections, {outcome.truncations} truncations, {outcome.acknowledged} records acknowledged"
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
