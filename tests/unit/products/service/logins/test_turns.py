"""One login of each address at a time, and a bounded queue after it. On a loop with virtual time."""

from __future__ import annotations

import asyncio

import pytest

from moldau.products.service.logins.source import NoAnswer
from moldau.products.service.logins.turns import MAX_TRIES, MAX_WAITING, WAIT_S, Turns
from moldau.simulation.loop import virtual_loop
from tests.support.virtual_time import until


class Story:
    """Logins that take turns; each ends when the test releases it."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.begun: list[str] = []
        self.let_go: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, address: str = "proxy") -> None:
        self.let_go[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._log_in(name, address))
        await asyncio.sleep(0)

    async def _log_in(self, name: str, address: str) -> None:
        async with self.turns.of(address):
            self.begun.append(name)
            await self.let_go[name].wait()

    async def end(self) -> None:
        for event in self.let_go.values():
            event.set()
        await asyncio.gather(*self.tasks.values())
        assert self.turns.waiting == 0
        assert not self.turns._lines


def test_logins_of_one_address_come_one_after_the_other_and_others_beside_them() -> None:
    async def act() -> None:
        story = Story()
        for name in ("a", "b", "c"):
            await story.come(name)
        await story.come("elsewhere", "another")
        assert (story.begun, story.turns.waiting) == (["a", "elsewhere"], 2)
        story.let_go["a"].set()
        await until(lambda: "b" in story.begun)
        assert story.turns.waiting == 1
        await story.end()
        assert story.begun == ["a", "elsewhere", "b", "c"]

    with virtual_loop() as loop:
        loop.run_until_complete(act())


def test_the_line_and_the_addresses_are_bounded() -> None:
    async def act() -> None:
        story = Story()
        for number in range(1 + MAX_WAITING):
            await story.come(f"{number}")
        assert story.turns.waiting == MAX_WAITING
        with pytest.raises(NoAnswer):
            async with story.turns.of("proxy"):
                pytest.fail("one more than the bound")
        for number in range(MAX_TRIES - 1):
            await story.come(f"of {number}", f"address {number}")
        with pytest.raises(NoAnswer):
            async with story.turns.of("one more"):
                pytest.fail("one more than the bound")
        await story.end()

    with virtual_loop() as loop:
        loop.run_until_complete(act())


def test_who_waits_too_long_or_goes_away_leaves_the_line() -> None:
    async def act() -> None:
        story = Story()
        for name in ("a", "b", "c"):
            await story.come(name)
        story.tasks.pop("b").cancel()
        with pytest.raises(NoAnswer):
            await story.tasks.pop("c")
        assert asyncio.get_running_loop().time() >= WAIT_S
        assert (story.begun, story.turns.waiting) == (["a"], 0)
        await story.end()

    with virtual_loop() as loop:
        loop.run_until_complete(act())
