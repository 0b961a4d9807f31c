"""Long decisions as generators: their owner goes on with them bit by bit, and lets others work between two slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

Sliced = Generator[None, None, Result]
"""Work that pauses where it may be left for a while, and gives its result when it ends."""

SLICE = 100
"""Things decided, or records made or applied, between two pauses: about a millisecond."""


def whole(work: Sliced[Result]) -> Result:
    """Does `work` without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
