"""Requests that name thousands: answered in slices, between which the loop turns and others are served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from itertools import islice
from types import CoroutineType
from typing import TypeVar, cast

from moldau.core.coordination.slices import Sliced
from moldau.shell.network.turns import next_turn

Item = TypeVar("Item")
Made = TypeVar("Made")

SLICE = 200
"""Entries made between two turns of the loop: 1 to 2 ms."""


async def in_slices(items: Iterable[Item], make: Callable[[Item], Made]) -> list[Made]:
    """`make` of each, as things are when its turn comes. `items` must not change meanwhile."""
    made: list[Made] = []
    async for some in slices(items):
        made += [make(item) for item in some]
    return made


async def slices(items: Iterable[Item], size: int = SLICE) -> AsyncIterator[Sequence[Item]]:
    """So many of them at a time, a turn of the loop behind each."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
        await next_turn()


Later = Coroutine[object, object, Made]


def paced(work: Sliced[Made | Later[Made]]) -> Made | Later[Made]:
    """For an act: what `work` gives if it ends before its first pause; else what goes on with it, slice by slice."""
    try:
        next(work)
    except StopIteration as end:
        return cast("Made | Later[Made]", end.value)
    return _resumed(work)


async def _resumed(work: Sliced[Made | Later[Made]]) -> Made:
    await next_turn()
    return await in_turns(work)


async def in_turns(work: Sliced[Made | Later[Made]]) -> Made:
    """All of `work`, with a turn of the loop at each of its pauses, and what it leaves to be waited for."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made = end.value
            return cast(Made, await made if isinstance(made, CoroutineType) else made)
        await next_turn()


class Pace:
    """Counts what a long answer has done, where it is made of loops within loops:

    if pace.is_slice_over():
        yield  # or await next_turn()
    """

    __slots__ = ("_left", "_size")

    def __init__(self, size: int = SLICE) -> None:
        self._size = self._left = size

    def is_slice_over(self, count: int = 1) -> bool:
        """To be asked with each entry made, or with each few."""
        self._left -= count
        if self._left > 0:
            return False
        self._left = self._size
        return True
