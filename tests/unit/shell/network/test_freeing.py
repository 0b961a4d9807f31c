"""A long message is freed some elements a turn, and no part stays."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import msgspec
import pytest

from moldau.shell.network.freeing import free, long_arrays
from moldau.shell.network.pauses import TURN_THINGS, Pauses
from moldau.types import each_of
from moldau.wire.protocol.runtime import ELEMENTS_BETWEEN_PAUSES

pytestmark = pytest.mark.asyncio
TURN_ELEMENTS = TURN_THINGS * ELEMENTS_BETWEEN_PAUSES
COUNT = 3 * TURN_ELEMENTS


class Row(msgspec.Struct, frozen=True, weakref=True):
    number: int


class Topic(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]


class Message(msgspec.Struct, frozen=True):
    topics: tuple[Topic, ...]
    rows: tuple[Row, ...] | None = None


@pytest.mark.parametrize("is_inner", [True, False])
async def test_the_elements_go_some_in_a_turn(is_inner: bool) -> None:
    rows = tuple(Row(number) for number in range(COUNT))
    references = [weakref.ref(row) for row in rows]
    message: Any = Message((Topic(rows), Topic(()))) if is_inner else Message((), rows)
    arrays = long_arrays(message, None)
    del rows, message
    alive: list[int] = []
    freeing = asyncio.ensure_future(free(arrays, Pauses(asyncio.get_running_loop(), None)))
    del arrays
    while not freeing.done():
        await asyncio.sleep(0)
        left = sum(reference() is not None for reference in references)
        if left not in alive:
            alive.append(left)
    assert alive == [2 * TURN_ELEMENTS, TURN_ELEMENTS, 0]


async def test_what_a_message_was_sorted_into_is_freed_too() -> None:
    rows = tuple(Row(number) for number in range(COUNT))
    assert long_arrays([{0: Message((), rows)}, (Topic(rows[:1]),)]) == [list(rows)]
    assert long_arrays(dict(enumerate(rows))) == [list(rows)]


async def test_what_long_work_gives_is_kept_and_what_short_work_gives_is_not() -> None:
    made: list[Any] = []
    pauses = Pauses(asyncio.get_running_loop(), None)
    assert await pauses.finish(each_of(range(2)), made=made) == (0, 1)
    assert made == []
    whole = await pauses.finish(each_of(range(COUNT)), made=made)
    assert [id(value) for value in made] == [id(whole)]


async def test_short_arrays_are_left_alone() -> None:
    assert long_arrays(Message((Topic((Row(1),)),), (Row(2),))) == []
