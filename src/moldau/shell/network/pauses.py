"""Long work lets others run: all long work of a node shares one time budget in each turn of the loop.

A request that names thousands, a long decision, a long answer, housekeeping: each awaits `pause` after every few
things. The call does nothing until the long work of this turn, of any kind, has used its millisecond. Then paused work
continues in a later turn, in the order of the calls. So a short request waits a millisecond at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from moldau.shell.network.first_step import SHORT_WORK_THINGS
from moldau.types import Pausing

Result = TypeVar("Result")

TURN_NS = 1_000_000
TURN_THINGS = 100
"""The budget without a timer: in the simulator, where no time passes within a turn."""
LOOK_EVERY = 4
"""Things between two reads of the timer."""


class Pauses:
    """One for each node, on its loop. `timer_ns` reads a steady clock; None: counts things instead."""

    __slots__ = ("_ends_ns", "_is_turn_open", "_look_at", "_loop", "_things", "_timer_ns", "_waiting", "nothing")

    def __init__(self, loop: asyncio.AbstractEventLoop, timer_ns: Callable[[], int] | None) -> None:
        self._loop = loop
        self._timer_ns = timer_ns
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_turn_open = False
        self._ends_ns = 0
        self._things = 0
        self._look_at = LOOK_EVERY
        self.nothing: asyncio.Future[None] = loop.create_future()
        """Done, so awaiting it costs next to nothing."""
        self.nothing.set_result(None)

    async def pause(self, things: int = 1) -> None:
        """Await it after `things` of a long work: a few microseconds each. Do not call it in the middle of a change
        that others must not see half done."""
        self._things += things
        if self._things >= self._look_at and self._is_turn_over():
            turn = self._loop.create_future()
            self._waiting.append(turn)
            await turn

    async def pause_long(self) -> None:
        """As `pause`, after work that took a large part of a turn in one piece."""
        await self.pause(TURN_THINGS)

    async def finish(self, work: Pausing[Result], things_at_once: int = 1, made: list[Any] | None = None) -> Result:
        """Does all of `work`, which yields after each `things_at_once`, and returns its result; short work runs without
        a pause. Also puts a long result into `made`."""
        things = 0
        while True:
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                if made is not None and things > SHORT_WORK_THINGS:
                    made.append(result)
                return result
            things += things_at_once
            if things > SHORT_WORK_THINGS:
                await self.pause(things_at_once)

    def _is_turn_over(self) -> bool:
        if not self._is_turn_open:
            self._open_turn()
        if self._timer_ns is None:
            return self._things >= TURN_THINGS
        self._look_at = self._things + LOOK_EVERY
        return self._timer_ns() >= self._ends_ns

    def _open_turn(self) -> None:
        self._is_turn_open = True
        if self._timer_ns is not None:
            self._ends_ns = self._timer_ns() + TURN_NS
        self._loop.call_soon(self._begin_next_turn)

    def _begin_next_turn(self) -> None:
        self._is_turn_open = False
        self._things, self._look_at = 0, LOOK_EVERY
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # a cancelled one needs no wake-up
                turn.set_result(None)
                break
        if self._waiting:
            self._open_turn()
