"""Requests that name thousands: answered in slices, between which the loop turns and others are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

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
        await asyncio.sleep(0)
