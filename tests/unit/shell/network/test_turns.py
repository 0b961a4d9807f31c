"""Long work of many takes its turns one by one."""

from __future__ import annotations

import asyncio

import pytest

from moldau.shell.network.turns import CURRENT_TURNS, Turns, next_turn

pytestmark = pytest.mark.asyncio


async def test_one_slice_is_done_in_a_turn_and_everybody_gets_on() -> None:
    loop = asyncio.get_running_loop()
    turns = Turns(loop)
    order: list[str] = []
    turn_of: list[int] = []
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        loop.call_soon(tick)

    async def work(name: str) -> None:
        for _ in range(5):
            await turns.next()
            order.append(name)
            turn_of.append(count)

    loop.call_soon(tick)
    await asyncio.gather(*(work(name) for name in "abc"))
    assert order == list("abc" * 5)
    assert len(dict.fromkeys(turn_of)) == len(turn_of)


async def test_one_who_is_cancelled_while_waiting_holds_nobody_up() -> None:
    turns = Turns(asyncio.get_running_loop())
    first, second, third = (asyncio.ensure_future(turns.next()) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await third
    await turns.next()
    assert first.cancelled()
    assert second.cancelled()


async def test_without_a_node_it_is_any_later_turn() -> None:
    assert CURRENT_TURNS.get() is None
    await next_turn()
