"""The answers of one connection: sent in the order of the requests, gathered within a read event, and counted until the
client has read them.

An answer that is complete at once joins the batch of its read event, which is one write. Any other reserves its place
(`PendingResponse`) and completes later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from moldau.ports import LaterBytes
from moldau.shell.network.connection_state import CLOSING
from moldau.shell.network.flow_control import FlowControl, Hold, Shared
from moldau.shell.network.pending_response import PendingResponse
from moldau.shell.network.streamed_answer import StreamedAnswer
from moldau.types import Buffer
from moldau.wire.protocol.framing import gathered

JOIN_BYTES = 64 << 10
COPIED_BYTES = 16 << 10
"""A longer part is written without a copy, if the transport takes several parts in one write."""
FEW_PARTS = 64
BUFFERS = frozenset((bytes, bytearray, memoryview))


class ResponseQueue(FlowControl):
    """The writing half of a connection."""

    __slots__ = (
        "_blocked_bytes",
        "_is_in_event",
        "_is_pressed",
        "_largest_unsent_bytes",
        "_out",
        "_out_bytes",
        "_responses",
        "_unsent_bytes",
        "_wait_for_write",
        "_writes_lists",
        "_written_bytes",
        "client_address",
    )

    def __init__(self, group: Shared) -> None:
        super().__init__(group)
        self.client_address = ""
        self._responses: deque[PendingResponse] = deque()
        self._blocked_bytes = 0
        self._out: list[Any] = []  # Buffer or LaterBytes
        self._out_bytes = 0
        self._is_in_event = False
        """Answers are being gathered: the end of the read event sends them."""
        self._is_pressed = False
        self._writes_lists = False
        """The transport sends a list of parts in one write, without a copy."""
        self._unsent_bytes = self._written_bytes = self._largest_unsent_bytes = 0
        self._wait_for_write: list[Callable[[], None]] = []

    def reserve(self, *, may_produce_begin: bool = False) -> PendingResponse:
        """See Reply."""
        response = PendingResponse(self, may_produce_begin=may_produce_begin)
        self._responses.append(response)
        return response

    def let_produce_begin(self) -> None:
        """See Reply."""
        if self._responses:
            self._responses[-1].may_produce_begin = True
            self._resume_later()

    def response_completed(self, response: PendingResponse) -> None:
        """Sends `response` and the complete ones after it, if it is the first pending one."""
        responses = self._responses
        if responses[0] is not response:
            self._blocked_bytes += response.size
            if self._blocked_bytes > JOIN_BYTES:
                self.count_unsent()
            return
        was_first = True
        while responses and responses[0].is_complete:
            ready = responses.popleft()
            if not was_first:
                self._blocked_bytes -= ready.size
            was_first = False
            answer = ready.take()
            if answer is None:
                continue
            self._out_bytes += ready.size
            if isinstance(answer, bytes):
                self._out.append(answer)
            else:
                self._out += answer
        if not self._is_in_event:
            self._flush_out()
        if self._held is not None or self._is_paused:
            self._resume_later()

    def _flush_out(self) -> None:
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        transport = self._transport
        if not out or transport is None or transport.is_closing():
            return
        if size <= (COPIED_BYTES if self._writes_lists else JOIN_BYTES):
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        elif not BUFFERS.issuperset(map(type, out)):
            self._stream(out)
            return
        elif self._writes_lists:
            transport.writelines(out if len(out) <= FEW_PARTS else list(gathered(out, COPIED_BYTES)))
        else:
            for piece in gathered(out, JOIN_BYTES):
                if transport.is_closing():
                    return
                transport.write(piece)
        if size > JOIN_BYTES or self._unsent_bytes:
            self._note_written(transport, size)

    def _note_written(self, transport: asyncio.Transport, size: int) -> None:
        """After a large answer: its unsent bytes stay in memory, and the whole answer does while a byte of it is
        unsent. If memory is short, the peer gets no further answer before it has read this one."""
        self._written_bytes += size
        self._largest_unsent_bytes = max(self._largest_unsent_bytes, size)
        self.count_unsent()
        if self._unsent_bytes and not self.is_write_paused and self.group.response_memory.is_short:
            self.press()

    def press(self) -> None:
        """See Reply. Ends when all is sent (`resume_writing`)."""
        if not self._is_pressed and self._transport is not None and not self._transport.is_closing():
            self._is_pressed = True
            self._transport.set_write_buffer_limits(high=0, low=0)

    def _stream(self, parts: list[Buffer | LaterBytes]) -> None:
        place = PendingResponse(self)
        self._responses.appendleft(place)
        self.hold(Hold.STREAMING)
        StreamedAnswer(self, place, parts, self.group.loop, self.group.log).write_on()

    def streamed(self, place: PendingResponse) -> None:
        """The last piece is written: `place` releases the answers after it."""
        self.release(Hold.STREAMING)
        place.complete(None)

    def write_piece(self, piece: Buffer) -> None:
        """Writes a part of a streamed answer."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self.press()
            transport.write(piece)
            self._note_written(transport, len(piece))

    def when_writable(self, resume: Callable[[], None]) -> None:
        """See Reply. Waiting callbacks run in order until the transport is full again."""
        if self.is_write_paused:
            self._wait_for_write.append(resume)
        else:
            resume()

    def count_unsent(self) -> None:
        """Reports the memory of this connection's answers to the response memory."""
        size = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if size == 0:
            self._written_bytes = self._largest_unsent_bytes = 0
        # the answer being sent is held whole; all before it are freed
        held_bytes = max(size, min(size + self._largest_unsent_bytes, self._written_bytes))
        self._set_unsent(held_bytes + self._blocked_bytes)

    def _set_unsent(self, unsent_bytes: int) -> None:
        if unsent_bytes != self._unsent_bytes:
            self.group.response_memory.changed(self, unsent_bytes - self._unsent_bytes, is_unsent=unsent_bytes > 0)
            self._unsent_bytes = unsent_bytes

    def _has_too_many_responses(self) -> bool:
        limits = self.group.limits
        return (
            len(self._responses) >= limits.max_pending_responses
            or self._blocked_bytes >= limits.max_pending_response_bytes
        )

    def pause_writing(self) -> None:
        """Called by the transport (see asyncio.Protocol): unsent data is above its high water."""
        self._holds |= Hold.WRITES_PAUSED
        self.count_unsent()

    def resume_writing(self) -> None:
        """Called by the transport (see asyncio.Protocol): unsent data is below its low water."""
        self._holds &= ~Hold.WRITES_PAUSED
        self.count_unsent()
        if self._is_pressed and self._transport is not None:
            self._is_pressed = False
            self._transport.set_write_buffer_limits(high=self.group.limits.write_high_water_bytes, low=0)
        waiting, self._wait_for_write = self._wait_for_write, []
        for index, resume in enumerate(waiting):
            if self.is_write_paused:
                self._wait_for_write = waiting[index:] + self._wait_for_write
                break
            resume()
        self._resume_later()

    def _abandon(self) -> None:
        """The client is gone: nobody reads an answer any more."""
        self._set_unsent(0)
        self._wait_for_write.clear()
        responses, self._responses = self._responses, deque()
        for response in responses:
            response.abandon()

    def close(self) -> None:
        """See Reply."""
        self._flush_out()
        self._set_closing()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once and drops unsent data."""
        self._set_closing()
        if self._transport is not None:
            self._transport.abort()

    def _set_closing(self) -> None:
        if not self.is_closed:
            self.state = CLOSING
