"""`python -m moldau.simulation.replication --seed 7` prints one seed step by step; `--seeds 1..300` runs many and
counts.

The exit code is 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.simulation.replication.world import Outcome, run_seed
from moldau.simulation.seeds import run_seeds, seed_parser

COMMAND = "moldau.simulation.replication"


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds on the command line. Returns the exit code."""
    options = seed_parser(COMMAND, __doc__).parse_args(arguments)
    return run_seeds(COMMAND, options, run_seed, _went_well, _totals)


def _went_well(outcome: Outcome) -> str:
    return (
        f"{outcome.elections} elections, {outcome.truncations} truncations, {outcome.acknowledged} records acknowledged"
    )


def _totals(seen: Sequence[Outcome]) -> str:
    return (
        f"{sum(one.elections for one in seen)} elections ({sum(one.unclean_elections for one in seen)} unclean), "
        f"{sum(one.truncations for one in seen)} truncations, {sum(one.acknowledged for one in seen)} records, "
        f"{sum(one.is_loss_allowed for one in seen)} seeds with more failures than the promise covers, "
        f"{sum(one.events for one in seen):,} events"
    )


if __name__ == "__main__":
    sys.exit(main())
