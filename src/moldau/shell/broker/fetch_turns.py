"""Bounds the bytes that fetches read in one turn of the loop: 200 woken fetches must not hold up other requests.

Reading a MiB and handing it to the kernel takes about half a millisecond. A fetch that finds much when the bytes
of a turn are given away waits for a later turn, in order; between two turns every other connection is served. A fetch
for which there is little is answered at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

TURN_BYTES = 2 << 20
LITTLE_BYTES = 32 << 10
"""What a fetch may bring also when the turn has given away its bytes."""


class FetchTurns:
    """The turns of one loop, as fetches share them; used from that loop."""

    __slots__ = ("_is_scheduled", "_loop", "_read_bytes", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._read_bytes = 0
        self._is_scheduled = False
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is read in this turn."""
        return self._read_bytes >= TURN_BYTES or bool(self._waiting)

    def read(self, byte_count: int) -> None:
        """Counts what was read in this turn. The count begins again with a later turn once it is half of TURN_BYTES: a
        call for each fetch of 64 KiB would cost 3 us."""
        self._read_bytes += byte_count
        if self._read_bytes >= TURN_BYTES // 2:
            self._schedule()

    def wait(self, look: Callable[[], None]) -> None:
        """Calls `look` in a later turn, after those that wait already."""
        self._waiting.append(look)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        self._read_bytes = 0
        waiting = self._waiting
        try:
            while waiting and self._read_bytes < TURN_BYTES:
                waiting.popleft()()
        finally:
            if waiting:
                self._schedule()
