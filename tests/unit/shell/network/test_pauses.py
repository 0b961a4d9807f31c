"""Concurrent long work shares the time of a turn, and each makes progress."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from moldau.shell.network.pauses import LOOK_EVERY, SHORT_WORK_THINGS, TURN_NS, TURN_THINGS, Pauses

pytestmark = pytest.mark.asyncio


class Turns:
    """Counts the turns of the loop while a test runs."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._turn()

    def _turn(self) -> None:
        self.count += 1
        self._loop.call_soon(self._turn)


async def test_nothing_waits_before_the_time_of_the_turn_is_spent() -> None:
    now_ns = 0
    pauses, turns = Pauses(asyncio.get_running_loop(), lambda: now_ns), Turns()
    for _ in range(1_000):
        await pauses.pause()
    assert turns.count == 1
    now_ns = TURN_NS
    for _ in range(LOOK_EVERY):
        await pauses.pause()
    assert turns.count > 1


async def test_all_long_work_shares_one_budget_and_goes_on_in_its_order() -> None:
    now_ns = 0
    pauses, turns = Pauses(asyncio.get_running_loop(), lambda: now_ns), Turns()
    done: list[tuple[str, int]] = []

    async def work(name: str) -> None:
        nonlocal now_ns
        for _ in range(10):
            now_ns += TURN_NS
            await pauses.pause(LOOK_EVERY)
            done.append((name, turns.count))

    await asyncio.gather(*(work(name) for name in "abc"))
    assert "abc" * 8 in "".join(name for name, _ in done)
    in_turns = [turn for _, turn in done[3:]]
    assert len(dict.fromkeys(in_turns)) == len(in_turns)


async def test_without_a_timer_things_are_counted() -> None:
    pauses, turns = Pauses(asyncio.get_running_loop(), None), Turns()
    for _ in range(TURN_THINGS - 1):
        await pauses.pause()
    assert turns.count == 1
    await pauses.pause()
    assert turns.count > 1


async def test_one_that_is_cancelled_while_it_waits_holds_nobody_up() -> None:
    pauses = Pauses(asyncio.get_running_loop(), None)
    first, second, third = (asyncio.ensure_future(pauses.pause(TURN_THINGS)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await third
    await pauses.pause(TURN_THINGS)
    assert first.cancelled()
    assert second.cancelled()


async def test_work_that_yields_is_finished_with_pauses() -> None:
    pauses, turns = Pauses(asyncio.get_running_loop(), None), Turns()

    def work() -> Generator[None, None, str]:
        for _ in range(count):
            yield
        return "done"

    count = SHORT_WORK_THINGS
    assert await pauses.finish(work()) == "done"
    assert turns.count == 1
    count += 5 * TURN_THINGS
    assert await pauses.finish(work()) == "done"
    assert turns.count > 5
