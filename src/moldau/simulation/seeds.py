"""Shared by the commands of the simulators: the choice of seeds, the number of processes, and the report of a broken
seed."""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError


class SeedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one seed. `rule` is "" if no rule was broken."""

    seed: int
    digest: str
    rule: str
    detail: str
    story: tuple[str, ...]
    last_events: tuple[str, ...]
    acknowledged: int
    elapsed_s: float


def too_seldom(counts: Mapping[str, tuple[int, int]], seeds: int) -> list[str]:
    """A line for each name that occurred less often than required for this number of seeds. `counts`: the actual number
    and the number required in 1,000 seeds, by name. Fewer seeds require proportionally less."""
    lines = []
    for name, (count, of_1000) in counts.items():
        least = -(-of_1000 * seeds // 1_000)
        if count < least:
            lines.append(f"{name}: {count} times, less than {least}")
    return lines


def how_it_ended(trace: Trace, violation: ViolationError | None) -> dict[str, Any]:
    """The fields of a SeedOutcome that come from the trace and the broken rule."""
    return {
        "digest": trace.digest,
        "rule": violation.rule if violation else "",
        "detail": violation.detail if violation else "",
        "story": tuple(trace.told) if violation else (),
        "last_events": tuple(trace.last_lines()) if violation else (),
    }


Outcome = TypeVar("Outcome", bound=SeedOutcome)

LAST_EVENTS = 30
"""The number of printed events before a broken rule."""


def seed_parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """The command line options of every simulator."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {command}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the one seed to run")
    parser.add_argument("--seeds", metavar="A..B", help="all seeds from A to B")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--verbose", action="store_true", help="tell the story while it happens")
    parser.add_argument("--digests", action="store_true", help="print only seed and digest, to compare two runs")
    parser.add_argument("--max-failures", type=int, default=10, help="stop after so many broken seeds")
    return parser


def chosen_seeds(options: argparse.Namespace) -> list[int]:
    """The seeds in the options of `seed_parser`."""
    first, _, last = (options.seeds or str(options.seed)).partition("..")
    return list(range(int(first), int(last or first) + 1))


def _outcomes(
    seeds: Sequence[int], jobs: int, run: Callable[[int], Outcome], run_told: Callable[[int], Outcome]
) -> Iterator[Outcome]:
    """Yields outcomes in the order of the seeds. Other processes find `run` by its name; `run_told` stays in this
    process."""
    if jobs > 1 and len(seeds) > 1:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            yield from pool.imap(run, seeds, chunksize=1)
        return
    yield from map(run_told, seeds)


def run_seeds(
    command: str,
    options: argparse.Namespace,
    run_seed: Callable[..., Outcome],
    went_well: Callable[[Outcome], str],
    totals: Callable[[Sequence[Outcome]], str],
    came_too_seldom: Callable[[Sequence[Outcome]], Sequence[str]] | None = None,
    seeds: Sequence[int] | None = None,
) -> int:
    """Runs `seeds`, or else those in `options` (from `seed_parser`). Prints each broken seed, a single seed, and the
    totals. Returns the exit code. With `--digests` it prints the digest of every seed, and no totals.

    `run_seed` is called with the seed, and with `write_line` for the lines of its story. `came_too_seldom` returns a
    line for each event that the seeds tested too seldom; any such line fails the command.
    """
    chosen = chosen_seeds(options) if seeds is None else seeds
    began = time.perf_counter()
    seen: list[Outcome] = []
    failed = 0
    run_told = partial(run_seed, write_line=print if options.verbose else None)
    for outcome in _outcomes(chosen, options.jobs, run_seed, run_told):
        seen.append(outcome)
        failed += bool(outcome.rule)
        if outcome.rule:
            print(_broken_lines(command, outcome, is_story_known=options.verbose), flush=True)
        elif options.digests:
            print(f"seed {outcome.seed}: {outcome.digest}", flush=True)
        elif len(chosen) == 1:
            print(
                f"seed {outcome.seed}: ok, {went_well(outcome)}, {outcome.elapsed_s:.2f} s, {outcome.digest}",
                flush=True,
            )
        if failed >= options.max_failures:
            break
    if not options.digests:
        took_s = time.perf_counter() - began
        print(f"{len(chosen)} seeds, {failed} broken, {totals(seen)}, {took_s:.1f} s")
    seldom = () if came_too_seldom is None else came_too_seldom(seen)
    for line in seldom:
        print(line)
    return 1 if failed or seldom else 0


def _broken_lines(command: str, outcome: SeedOutcome, *, is_story_known: bool) -> str:
    """`is_story_known`: the story was printed while it happened."""
    lines = [f"seed {outcome.seed}: BROKEN {outcome.rule}", f"  {outcome.detail}"]
    if outcome.story and not is_story_known:
        lines += ["  the story:", *(f"    {line}" for line in outcome.story)]
    lines += ["  the last events:", *(f"    {line}" for line in outcome.last_events[-LAST_EVENTS:])]
    return "\n".join([*lines, f"  again: python -m {command} --seed {outcome.seed} --verbose"])
