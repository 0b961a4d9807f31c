"""Writes an answer whose records are read while the peer reads it: one piece is in memory at a time.

Until the last byte is written, the connection begins no further request, and complete answers wait behind a place that
is held before them.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.ports import LaterBytes
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.network.pending_response import PendingResponse
from moldau.types import Buffer

PIECE_BYTES = 64 << 10
PIECES_PER_TURN = 8


class Peer(Protocol):
    """The receiver of the answer."""

    client_address: str

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, or this side is ending it."""
        ...

    @property
    def is_write_paused(self) -> bool:
        """Whether the client does not read its answers."""
        ...

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Calls `resume` now, or when the transport has fallen below its low water."""
        ...

    def write_piece(self, piece: Buffer) -> None:
        """Writes a part of the answer."""
        ...

    def streamed(self, place: PendingResponse) -> None:
        """The last part is written: `place` releases the answers after it."""
        ...

    def abort(self) -> None:
        """Ends the connection at once."""
        ...


class StreamedAnswer:
    """One streamed answer; used from the node's loop."""

    __slots__ = ("_connection", "_left_bytes", "_log", "_loop", "_parts", "_place")

    def __init__(
        self,
        connection: Peer,
        place: PendingResponse,
        parts: Sequence[Buffer | LaterBytes],
        loop: AbstractEventLoop,
        log: EventLog,
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._log = log
        self._place = place
        self._parts = deque(parts)
        self._left_bytes = 0
        """Unread bytes of the first part, if it is read later and was begun."""

    def write_on(self) -> None:
        """Writes until the peer is full, the disk must be awaited, or this turn of the loop has written its
        PIECES_PER_TURN."""
        connection = self._connection
        for _ in range(PIECES_PER_TURN):
            if connection.is_closed:
                return
            if connection.is_write_paused:
                connection.when_writable(self.write_on)
                return
            if not self._parts:
                connection.streamed(self._place)
                return
            part = self._parts[0]
            if isinstance(part, (bytes, bytearray, memoryview)):
                self._parts.popleft()
                connection.write_piece(part)
                continue
            if self._left_bytes == 0:
                self._left_bytes = len(part)
            piece = part.next_piece(PIECE_BYTES, self._came)
            if piece is None:
                return
            self._write(piece)
        self._loop.call_soon(self.write_on)

    def _came(self, piece: Buffer | None) -> None:
        connection = self._connection
        if connection.is_closed:
            return
        if piece is None:
            address = escape(connection.client_address)
            text = f"closed the connection of {address}: the rest of a batch could not be read"
            self._log.warn("answer broken off", text, about=address)
            connection.abort()  # the peer repeats the request on another connection
            return
        self._write(piece)
        self.write_on()

    def _write(self, piece: Buffer) -> None:
        self._left_bytes -= len(piece)
        if self._left_bytes == 0:
            self._parts.popleft()
        self._connection.write_piece(piece)
