"""Explores all schedules of a small world step by step. Each reached state is continued once."""

from __future__ import annotations

import argparse
import io
import pickle
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Protocol

import msgspec

from moldau.simulation.violation import ViolationError

Choice = tuple[str, int]
"""An event and its place."""


class Schedule(Protocol):
    """One state of the small world. It can be pickled."""

    @property
    def progress(self) -> tuple[int, int]:
        """The highest epoch with a leader, and the amount of committed data."""
        ...

    def next_choices(self) -> Iterator[Choice]:
        """The possible next events."""
        ...

    def follow(self, choice: Choice) -> None:
        """Performs the event. Raises ViolationError."""
        ...

    def sort_messages(self) -> None:
        """Makes states equal that differ only in the order in which messages were sent."""
        ...


class Explored(msgspec.Struct, frozen=True):
    """`epochs`: the highest epoch with a leader. `committed`: the most that was committed."""

    states: int
    epochs: int
    committed: int

    def beside(self, other: Explored) -> Explored:
        """Both results together."""
        most = max(self.epochs, other.epochs), max(self.committed, other.committed)
        return Explored(self.states + other.states, *most)


def explore_all(first: Schedule, depth: int) -> Explored:
    """Follows every schedule of up to `depth` steps from `first`. Raises ViolationError."""
    seen = {_named(first)}
    states = [pickle.dumps(first)]
    epochs = committed = 0
    for _ in range(depth):
        found: list[bytes] = []
        for state in states:
            for choice in pickle.loads(state).next_choices():
                schedule: Schedule = pickle.loads(state)
                schedule.follow(choice)
                epochs, committed = map(max, (epochs, committed), schedule.progress)
                key = _named(schedule)
                if key not in seen:
                    seen.add(key)
                    found.append(pickle.dumps(schedule))
        states = found
    return Explored(len(seen), epochs, committed)


def _named(schedule: Schedule) -> bytes:
    """A name that is the same for equal states, independent of shared objects and of the order in which messages were
    sent."""
    schedule.sort_messages()
    named = io.BytesIO()
    pickler = pickle.Pickler(named)
    pickler.fast = True
    pickler.dump(schedule)
    return blake2b(named.getvalue(), digest_size=12).digest()


def run_explorer(module: str, description: str, explore: Callable[[int], Explored], arguments: list[str] | None) -> int:
    """The command of an explorer. The exit code is 0 if no rule was broken, else 1."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--depth", type=int, default=7, help="how many steps a schedule has")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    try:
        explored = explore(options.depth)
    except ViolationError as violation:
        print(f"BROKEN {violation}")
        return 1
    print(
        f"{explored.states} states, up to epoch {explored.epochs} and {explored.committed} committed records, "
        f"{time.perf_counter() - began:.1f} s"
    )
    return 0
