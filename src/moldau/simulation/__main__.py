"""`python -m moldau.simulation --seed 7`: one seed, step by step; `--seeds 1..200 --jobs 2`: many, counted.

Exit code 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

from moldau.simulation.kinds import SHARES, has_kind
from moldau.simulation.run import DEFAULT_SECONDS, Outcome, run_and_freeze, run_seed
from moldau.simulation.seeds import add_seed_options, broken_lines, chosen_seeds, outcomes, too_seldom
from moldau.simulation.transaction_events import TransactionEvent, report
from moldau.simulation.troubles import FLOORS_OF_1000


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds that the command line names; gives the exit code."""
    options = _parser().parse_args(arguments)
    seeds = [seed for seed in chosen_seeds(options) if not options.kind or has_kind(seed, options.kind)]
    began = time.perf_counter()
    failed = 0
    events = 0
    records = 0
    happened: Counter[TransactionEvent] = Counter()
    troubles: Counter[str] = Counter()
    for outcome in _run_all(seeds, options):
        events += outcome.events
        records += outcome.acknowledged
        happened.update(outcome.transaction_events)
        troubles.update(outcome.troubles)
        failed += bool(outcome.rule)
        if outcome.rule or options.digests or len(seeds) == 1:
            print(_summary(outcome, options), flush=True)
        if failed >= options.max_failures:
            break
    gc.unfreeze()
    elapsed = time.perf_counter() - began
    if options.digests:
        print(f"{failed} broken")
    else:
        per_seed = elapsed / max(1, len(seeds))
        print(f"{len(seeds)} seeds, {failed} broken, {events} events, {records} records, {elapsed:.1f} s", end=" ")
        print(f"({per_seed:.2f} s a seed)")
    is_reached = True
    if options.coverage:
        seldom = came_too_seldom(troubles, len(seeds))
        is_reached = not seldom
        print("\n".join([*(f"{troubles[name]:9,}  {name}" for name in FLOORS_OF_1000), *seldom]))
    if options.transaction_events is not None:
        table, has_all = report(happened, options.transaction_events)
        is_reached = is_reached and has_all
        print(table)
    return 1 if failed or not is_reached else 0


def came_too_seldom(troubles: Mapping[str, int], seeds: int) -> list[str]:
    """A line for each kind of trouble that came less often than the floor asks of so many seeds."""
    return too_seldom({name: (troubles.get(name, 0), of_1000) for name, of_1000 in FLOORS_OF_1000.items()}, seeds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m moldau.simulation", description=__doc__)
    add_seed_options(parser)
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


def _run_all(seeds: list[int], options: argparse.Namespace) -> Iterator[Outcome]:
    run = partial(run_and_freeze, run_seed, seconds=options.seconds_virtual)
    is_told = options.verbose or options.events
    run_told = partial(run, write_line=print if is_told else None, is_every_event_told=options.events)
    return outcomes(seeds, options.jobs, run, run_told)


def _summary(outcome: Outcome, options: argparse.Namespace) -> str:
    if options.digests and not outcome.rule:
        return f"seed {outcome.seed}: {outcome.digest}"
    if not outcome.rule:
        return (
            f"seed {outcome.seed}: ok, {outcome.boots} boots, {outcome.acknowledged} records known at the end, "
            f"{outcome.events} events in {outcome.virtual_s:.1f} virtual s, {outcome.elapsed_s:.2f} s, {outcome.digest}"
        )
    return broken_lines("moldau.simulation", outcome, is_story_known=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
