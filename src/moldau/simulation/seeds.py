"""What the commands of the simulators share: which seeds run, in how many processes, how a broken one is told."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Outcome = TypeVar("Outcome")

LAST_EVENTS = 30
"""Of those before a broken rule, how many are told."""


def add_seed_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="the one seed to run")
    parser.add_argument("--seeds", metavar="A..B", help="all seeds from A to B")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--verbose", action="store_true", help="tell the story while it happens")
    parser.add_argument("--digests", action="store_true", help="print only seed and digest, to compare two runs")
    parser.add_argument("--max-failures", type=int, default=10, help="stop after so many broken seeds")


def chosen_seeds(options: argparse.Namespace) -> list[int]:
    first, _, last = (options.seeds or str(options.seed)).partition("..")
    return list(range(int(first), int(last or first) + 1))


def outcomes(
    seeds: Sequence[int], jobs: int, run: Callable[[int], Outcome], run_told: Callable[[int], Outcome]
) -> Iterator[Outcome]:
    """In the order of the seeds. `run` must be known by name in other processes; `run_told` stays in this one."""
    if jobs > 1 and len(seeds) > 1:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            yield from pool.imap(run, seeds, chunksize=1)
        return
    yield from map(run_told, seeds)


def broken_lines(
    command: str, seed: int, rule: str, detail: str, story: Iterable[str], last_events: Sequence[str]
) -> list[str]:
    """`story`: nothing where it was told while it happened."""
    lines = [f"seed {seed}: BROKEN {rule}", f"  {detail}"]
    if told := [f"    {line}" for line in story]:
        lines += ["  the story:", *told]
    lines += ["  the last events:", *(f"    {line}" for line in last_events[-LAST_EVENTS:])]
    return [*lines, f"  again: python -m {command} --seed {seed} --verbose"]
