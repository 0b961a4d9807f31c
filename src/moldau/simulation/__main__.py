"""`python -m moldau.simulation --seed 7` prints one seed step by step; `--seeds 1..200 --jobs 2` runs many and counts.

The exit code is 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from moldau.simulation.kinds import SHARES, has_kind
from moldau.simulation.run import DEFAULT_SECONDS, Outcome, run_and_freeze, run_seed
from moldau.simulation.seeds import chosen_seeds, run_seeds, seed_parser, too_seldom
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.troubles import FLOORS_OF_1000


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds on the command line. Returns the exit code."""
    options = _parser().parse_args(arguments)
    options.verbose = options.verbose or options.events
    run = partial(run_and_freeze, run_seed, seconds=options.seconds_virtual, is_every_event_told=options.events)
    seeds = [seed for seed in chosen_seeds(options) if not options.kind or has_kind(seed, options.kind)]
    totals, floors = partial(_totals, options), partial(_lacking, options)
    exit_code = run_seeds("moldau.simulation", options, run, _went_well, totals, floors, seeds)
    gc.unfreeze()
    return exit_code


def came_too_seldom(troubles: Mapping[str, int], seeds: int) -> list[str]:
    """A line for each kind of trouble that occurred less often than required for this number of seeds."""
    return too_seldom({name: (troubles.get(name, 0), of_1000) for name, of_1000 in FLOORS_OF_1000.items()}, seeds)


def _parser() -> argparse.ArgumentParser:
    parser = seed_parser("moldau.simulation", __doc__)
    parser.add_argument(
        "--with", dest="kind", choices=sorted(SHARES), help="only the seeds that have this kind of work"
    )
    parser.add_argument("--seconds-virtual", type=float, default=DEFAULT_SECONDS, help="how long trouble lasts")
    parser.add_argument(
        "--transaction-events",
        type=int,
        metavar="N",
        help="count what happens to transactions, and fail where one of these events comes less than N times",
    )
    parser.add_argument(
        "--coverage", action="store_true", help="count the troubles, and fail where one came too seldom"
    )
    parser.add_argument("--events", action="store_true", help="tell every event, to compare two runs line by line")
    return parser


def _went_well(outcome: Outcome) -> str:
    return (
        f"{outcome.boots} boots, {outcome.acknowledged} records known at the end, {outcome.events} events in "
        f"{outcome.virtual_s:.1f} virtual s"
    )


def _counted(seen: Sequence[Outcome]) -> tuple[Counter[str], Counter[TransactionEvent]]:
    troubles: Counter[str] = Counter()
    happened: Counter[TransactionEvent] = Counter()
    for outcome in seen:
        troubles.update(outcome.troubles)
        happened.update(outcome.transaction_events)
    return troubles, happened


def _totals(options: argparse.Namespace, seen: Sequence[Outcome]) -> str:
    troubles, happened = _counted(seen)
    lines = [f"{sum(one.events for one in seen)} events, {sum(one.acknowledged for one in seen)} records"]
    if options.coverage:
        lines += [f"{troubles[name]:9,}  {name}" for name in FLOORS_OF_1000]
    if options.transaction_events is not None:
        lines += [f"{happened[event]:9,}  {event.value}" for event in TransactionEvent]
    return "\n".join([*lines, "in all"]) if lines[1:] else lines[0]


def _lacking(options: argparse.Namespace, seen: Sequence[Outcome]) -> list[str]:
    """A line for each trouble and each transaction event that the options require and that occurred too seldom."""
    troubles, happened = _counted(seen)
    lines = came_too_seldom(troubles, len(seen)) if options.coverage else []
    least = options.transaction_events or 0
    return lines + [
        f"{event.value}: {happened[event]} times, less than {least}"
        for event in TransactionEvent
        if happened[event] < least
    ]


if __name__ == "__main__":
    sys.exit(main())
