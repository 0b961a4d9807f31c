"""Bounds on the memory of all connections of a node, and on how long they may hold it.

Requests: bytes of incomplete frames, and of frames that wait for the answers to earlier ones. Over the limit, sockets
that need more are not read until other connections free memory. Responses: bytes that a peer has not read yet; near the
limit, fetches get smaller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from moldau.telemetry import BOUND_REACHED, Telemetry

MAX_REQUEST_MEMORY_BYTES = 512 << 20
RESPONSE_MEMORY_BYTES = 128 << 20
UNAUTHENTICATED_SHARE = 16
"""Frames of unauthenticated clients get one part in this many of the request memory."""
MIN_FETCH_BYTES = 1 << 20
MIN_FETCH_BYTES_OVER_LIMIT = 64 << 10
LONG_REQUESTS_BYTES = 128 << 20
NEVER_MS = 2**63 - 1
WORKED_BYTES = 16
"""Approximate memory for each byte of a request that names thousands of things, while it is decoded and answered."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Bounds of one connection; the defaults of `moldau.*` settings; tests make them small."""

    max_request_bytes: int = 104_857_600
    max_unauthenticated_bytes: int = 512 << 10
    """Maximum size of a frame before its client is authenticated."""
    max_idle_ms: int = 600_000
    handshake_timeout_ms: int = 10_000
    """Of TLS handshake and authentication together."""
    frame_timeout_ms: int = 30_000
    frame_progress_bytes: int = 64 << 10
    max_pending_responses: int = 64
    max_pending_response_bytes: int = 8 << 20
    write_high_water_bytes: int = 1 << 20
    sweep_interval_ms: int = 1_000


class RequestMemory:
    """The bytes of arriving requests, over all connections of a loop."""

    __slots__ = ("_name", "_telemetry", "_waiting", "limit_bytes", "used_bytes")

    def __init__(
        self, limit_bytes: int, telemetry: Telemetry | None = None, name: str = "moldau.request.memory.bytes"
    ) -> None:
        self.limit_bytes = limit_bytes
        self._telemetry = telemetry or Telemetry()
        self._name = name
        self.used_bytes = 0
        self._waiting: dict[int, Callable[[], None]] = {}

    def show(self) -> None:
        """Shows it as a metric, and replaces an earlier one of this name."""
        self._telemetry.held[self._name.replace(".", "_")] = lambda: (self.used_bytes, self.limit_bytes)

    def try_take(self, count: int, held_bytes: int = 0) -> bool:
        """Takes `count` bytes if available. If the caller alone holds memory (`held_bytes`), it always gets them,
        because otherwise a frame could wait for itself."""
        if self.used_bytes + count > self.limit_bytes and self.used_bytes > held_bytes:
            return False
        self.used_bytes += count
        return True

    def take(self, count: int) -> None:
        """Takes `count` bytes that have already been received (a backlog)."""
        self.used_bytes += count

    def give_back(self, count: int) -> None:
        """Gives `count` bytes back and resumes waiting connections, in order of arrival."""
        self.used_bytes -= count
        if self._waiting and self.used_bytes < self.limit_bytes:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting.values():
                resume()

    def wait(self, connection_id: int, resume: Callable[[], None]) -> None:
        """Calls `resume` once memory is free again; a connection waits once."""
        self._telemetry.count(BOUND_REACHED, self._name)
        self._waiting[connection_id] = resume

    def forget(self, connection_id: int) -> None:
        """The connection has ended and no longer waits."""
        self._waiting.pop(connection_id, None)


class LongRequests:
    """Bounds the memory of requests that name thousands of things, decoded and answered; further ones wait.

    No request waits longer than `max_wait_s`, because the handler of a long request may itself wait for others.
    """

    __slots__ = ("_limit_bytes", "_loop", "_max_wait_s", "_waiting", "used_bytes")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_bytes: int = LONG_REQUESTS_BYTES, max_wait_s: float = 30
    ) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes
        self._max_wait_s = max_wait_s
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used_bytes = 0

    async def enter(self, count: int) -> None:
        """Takes `count` bytes once they are available, in the order of the calls."""
        if self._waiting or not self._has_room(count):
            entered = self._loop.create_future()
            waiter = (count, entered)
            self._waiting.append(waiter)
            try:
                await asyncio.wait((entered,), timeout=self._max_wait_s)
            except BaseException:
                if entered.done():
                    self.leave(count)  # it got its bytes, but was cancelled before it ran
                raise
            finally:
                if not entered.done():
                    self._waiting.remove(waiter)
            if entered.done():
                return
        self.used_bytes += count

    def leave(self, count: int) -> None:
        """A long request is answered: requests that waited for its bytes continue, in order."""
        self.used_bytes -= count
        while self._waiting and self._has_room(self._waiting[0][0]):
            next_count, entered = self._waiting.popleft()
            self.used_bytes += next_count
            entered.set_result(None)

    def _has_room(self, count: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + count <= self._limit_bytes


class LongRoom:
    """The memory of one request that names thousands of things, in both bounds, from its arrival until it is answered
    and freed."""

    __slots__ = ("_frame_bytes", "_memory", "_requests", "_worked_bytes")

    def __init__(self, memory: RequestMemory, requests: LongRequests, frame_bytes: int) -> None:
        memory.take(frame_bytes)
        self._memory = memory
        self._requests = requests
        self._frame_bytes = frame_bytes
        self._worked_bytes = 0

    async def enter(self) -> None:
        """Waits until the request may be decoded and answered, see LongRequests."""
        worked_bytes = self._frame_bytes * WORKED_BYTES
        await self._requests.enter(worked_bytes)
        self._memory.take(worked_bytes)
        self._worked_bytes = worked_bytes

    def holds_values(self, byte_count: int) -> None:
        """`byte_count` bytes of the frame are kept as received values, not decoded further. Returns their share, so
        others do not wait for memory that this request may hold while it waits."""
        self._give_back(min(byte_count * WORKED_BYTES, self._worked_bytes))

    def leave(self) -> None:
        """The request is answered and its objects are freed."""
        self._give_back(self._worked_bytes)
        self._memory.give_back(self._frame_bytes)

    def _give_back(self, worked_bytes: int) -> None:
        if worked_bytes:
            self._worked_bytes -= worked_bytes
            self._memory.give_back(worked_bytes)
            self._requests.leave(worked_bytes)


class UnsentAnswers(Protocol):
    """A connection whose peer has not read all of its answers."""

    def count_unsent(self) -> None:
        """Reports changes since the last call to `ResponseMemory.changed`."""
        ...


class ResponseMemory:
    """The bytes of responses that peers have not read yet, over all connections with large or many responses."""

    __slots__ = ("_telemetry", "_unsent", "limit_bytes", "unsent_bytes")

    def __init__(self, limit_bytes: int = RESPONSE_MEMORY_BYTES, telemetry: Telemetry | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._telemetry = telemetry or Telemetry()
        self.unsent_bytes = 0
        self._telemetry.held["moldau_response_memory_bytes"] = lambda: (self.unsent_bytes, self.limit_bytes)
        self._unsent: dict[UnsentAnswers, None] = {}

    def changed(self, connection: UnsentAnswers, difference_bytes: int, *, is_unsent: bool) -> None:
        """The size of the answers of `connection` has changed; `is_unsent`: it is above 0."""
        self.unsent_bytes += difference_bytes
        if is_unsent:
            self._unsent[connection] = None
        else:
            self._unsent.pop(connection, None)

    @property
    def is_short(self) -> bool:
        """Whether more than half is in use."""
        return self.unsent_bytes > self.limit_bytes // 2

    def fetch_allowance_bytes(self) -> int:
        """The most that one fetch may read into memory now: a quarter of the free bytes, at least 1 MiB; 64 KiB if none
        are free. A larger batch is streamed, see StreamedAnswer."""
        if self.unsent_bytes > self.limit_bytes // 2:  # `is_short`, inlined to save a call in each fetch
            # an empty transport only calls back if it was above its high water
            for connection in list(self._unsent):
                connection.count_unsent()
            if self.is_short:
                self._telemetry.count(BOUND_REACHED, "moldau.response.memory.bytes")
        left_bytes = self.limit_bytes - self.unsent_bytes
        return max(MIN_FETCH_BYTES, left_bytes // 4) if left_bytes > 0 else MIN_FETCH_BYTES_OVER_LIMIT
