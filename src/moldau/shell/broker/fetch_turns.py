"""Bounds the bytes that fetches read in one turn of the loop: 200 woken fetches must not delay other requests.

Reading a MiB and passing it to the kernel takes about half a millisecond. Once a turn has read its bytes, a fetch of
much data waits for a later turn, in order. Between two turns every other connection is served. A fetch of little data
is answered at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

TURN_BYTES = 2 << 20


class FetchTurns:
    """Shares the turns of one loop among its fetches. Used from that loop only."""

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
        """Counts bytes read in this turn. From half of TURN_BYTES on, a later turn resets the count: a call for each
        fetch of 64 KiB would cost 3 us."""
        self._read_bytes += byte_count
        if self._read_bytes >= TURN_BYTES // 2:
            self._schedule()

    def wait(self, look: Callable[[], None]) -> None:
        """Calls `look` in a later turn, after the waiting ones."""
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
