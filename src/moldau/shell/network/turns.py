"""Long work of one node: at most one slice of it in each turn of the loop, whoever's it is.

A request that names thousands is decoded, answered and encoded in slices of about a millisecond. Were each of fifty
such requests to do a slice in every turn, a short request would wait for fifty slices; here it waits for one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar


class Turns:
    """The queue of those who have a slice to do, in the order in which they came: each of them gets on."""

    __slots__ = ("_is_giving", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_giving = False

    async def next(self) -> None:
        """Returns in a later turn of the loop, in which nobody else who asked does a slice."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if not self._is_giving:
            self._is_giving = True
            self._loop.call_soon(self._give)
        await turn

    def _give(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # who was cancelled has no slice to do
                turn.set_result(None)
                break
        self._is_giving = bool(self._waiting)
        if self._is_giving:
            self._loop.call_soon(self._give)


CURRENT_TURNS: ContextVar[Turns | None] = ContextVar("CURRENT_TURNS", default=None)
"""Of the node whose request the running task answers."""


async def next_turn() -> None:
    """Between two slices of an answer: others are served, and other long requests have their slice."""
    turns = CURRENT_TURNS.get()
    if turns is None:
        await asyncio.sleep(0)
    else:
        await turns.next()
