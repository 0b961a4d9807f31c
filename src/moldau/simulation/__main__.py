"""`python -m moldau.simulation --seed 7`: one seed, told; `--seeds 1..200 --jobs 2`: many, counted.

Exit code 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from functools import partial

from moldau.simulation.kinds import SHARES, has_kind
from moldau.simulation.run import DEFAULT_SECONDS, Outcome, run_seed


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds that the command line names; gives the exit code."""
    options = _parser().parse_args(arguments)
    seeds = _seeds(options.seeds) if options.seeds else [options.seed]
    seeds = [seed for seed in seeds if not options.kind or has_kind(seed, options.kind)]
    began = time.perf_counter()
    failed = 0
    events = 0
    records = 0
    for outcome in _run_all(seeds, options):
        events += outcome.events
        records += outcome.acknowledged
        failed += bool(outcome.rule)
        if outcome.rule or options.digests or len(seeds) == 1:
            print(_summary(outcome, options), flush=True)
        if failed >= options.max_failures:
            break
    elapsed = time.perf_counter() - began
    if options.digests:
        print(f"{failed} broken")
    else:
        per_seed = elapsed / max(1, len(seeds))
        print(f"{len(seeds)} seeds, {failed} broken, {events} events, {records} records, {elapsed:.1f} s", end=" ")
        print(f"({per_seed:.2f} s a seed)")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m moldau.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the one seed to run")
    parser.add_argument("--seeds", metavar="A..B", help="all seeds from A to B")
    parser.add_argument(
        "--with", dest="kind", choices=sorted(SHARES), help="only the seeds that have this kind of work"
    )
    parser.add_argument("--seconds-virtual", type=float, default=DEFAULT_SECONDS, help="how long trouble lasts")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--verbose", action="store_true", help="tell the story while it happens")
    parser.add_argument("--events", action="store_true", help="tell every event, to compare two runs line by line")
    parser.add_argument("--digests", action="store_true", help="print only seed and digest, to compare two runs")
    parser.add_argument("--max-failures", type=int, default=10, help="stop after so many broken seeds")
    return parser


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("..")
    return list(range(int(first), int(last or first) + 1))


def _run_all(seeds: list[int], options: argparse.Namespace) -> Iterator[Outcome]:
    if options.jobs > 1 and len(seeds) > 1:
        run = partial(run_seed, seconds=options.seconds_virtual)
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            yield from pool.imap(run, seeds, chunksize=1)
        return
    for seed in seeds:
        is_told = options.verbose or options.events
        yield run_seed(
            seed,
            seconds=options.seconds_virtual,
            write_line=print if is_told else None,
            is_every_event_told=options.events,
        )


def _summary(outcome: Outcome, options: argparse.Namespace) -> str:
    if options.digests and not outcome.rule:
        return f"seed {outcome.seed}: {outcome.digest}"
    if not outcome.rule:
        return (
            f"seed {outcome.seed}: ok, {outcome.boots} boots, {outcome.acknowledged} records known at the end, "
            f"{outcome.events} events in {outcome.virtual_s:.1f} virtual s, {outcome.elapsed_s:.2f} s, {outcome.digest}"
        )
    lines = [f"seed {outcome.seed}: BROKEN {outcome.rule}", f"  {outcome.detail}"]
    if not options.verbose:
        lines += ["  the story:", *(f"    {line}" for line in outcome.story)]
    lines += ["  the last events:", *(f"    {line}" for line in outcome.last_events[-30:])]
    lines.append(f"  again: python -m moldau.simulation --seed {outcome.seed} --verbose")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
