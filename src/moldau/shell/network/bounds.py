"""What one node's connections may hold in memory together, and for how long.

Requests: bytes of incomplete frames, and of frames that wait for the answers to earlier ones. Over the limit, sockets
that need more are not read until others give back. Responses: bytes that a peer has not read yet; near the limit,
fetches get smaller.
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
"""One part in so many of the request memory is for frames of clients that are not authenticated."""
MIN_FETCH_BYTES = 1 << 20
MIN_FETCH_BYTES_OVER_LIMIT = 64 << 10
LONG_REQUESTS_BYTES = 128 << 20
NEVER_MS = 2**63 - 1
WORKED_BYTES = 16
"""What a byte of a request that names thousands takes in memory while it is decoded and answered, about."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Bounds of one connection; the defaults of `moldau.*` settings; tests make them small."""

    max_request_bytes: int = 104_857_600
    max_unauthenticated_bytes: int = 512 << 10
    """Of a frame that comes before its client is authenticated."""
    max_idle_ms: int = 600_000
    handshake_timeout_ms: int = 10_000
    """Of a TLS handshake and of authentication, together."""
    frame_timeout_ms: int = 30_000
    frame_progress_bytes: int = 64 << 10
    max_pending_responses: int = 64
    max_pending_response_bytes: int = 8 << 20
    write_high_water_bytes: int = 1 << 20
    sweep_interval_ms: int = 1_000


class RequestMemory:
    """The bytes that requests in arrival hold, over all connections of a loop."""

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
        """Makes it a metric, in the place of another one of this name."""
        self._telemetry.held[self._name.replace(".", "_")] = lambda: (self.used_bytes, self.limit_bytes)

    def try_take(self, count: int, held_bytes: int = 0) -> bool:
        """Takes `count` bytes, or says no. A taker that alone holds memory, `held_bytes`, always gets them, so that no
        frame waits for itself."""
        if self.used_bytes + count > self.limit_bytes and self.used_bytes > held_bytes:
            return False
        self.used_bytes += count
        return True

    def take(self, count: int) -> None:
        """Takes `count` bytes that are there already (a backlog that was received)."""
        self.used_bytes += count

    def give_back(self, count: int) -> None:
        """Gives `count` bytes back, and lets those who wait try again, in the order in which they came."""
        self.used_bytes -= count
        if self._waiting and self.used_bytes < self.limit_bytes:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting.values():
                resume()

    def wait(self, connection_id: int, resume: Callable[[], None]) -> None:
        """`resume` is called once memory is free again; a connection waits once."""
        self._telemetry.count(BOUND_REACHED, self._name)
        self._waiting[connection_id] = resume

    def forget(self, connection_id: int) -> None:
        """The connection is gone, and waits no longer."""
        self._waiting.pop(connection_id, None)


class LongRequests:
    """What requests that name thousands may take in memory at a time, decoded and answered; the others wait for them.

    Nobody waits for longer than `max_wait_s`: the handler of a long request may itself wait for other people.
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
        """Takes `count` bytes once there is room for them, in the order in which it was called."""
        if self._waiting or not self._has_room(count):
            entered = self._loop.create_future()
            waiter = (count, entered)
            self._waiting.append(waiter)
            try:
                await asyncio.wait((entered,), timeout=self._max_wait_s)
            except BaseException:
                if entered.done():
                    self.leave(count)  # it was let in, and is cancelled before it knows
                raise
            finally:
                if not entered.done():
                    self._waiting.remove(waiter)
            if entered.done():
                return
        self.used_bytes += count

    def leave(self, count: int) -> None:
        """A long request is answered: those that waited for its bytes go on, in their order."""
        self.used_bytes -= count
        while self._waiting and self._has_room(self._waiting[0][0]):
            next_count, entered = self._waiting.popleft()
            self.used_bytes += next_count
            entered.set_result(None)

    def _has_room(self, count: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + count <= self._limit_bytes


class LongRoom:
    """What one request that names thousands takes of both memories, from its arrival until it is answered and freed."""

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
        """So many bytes of the frame are values that are kept as they came: nothing is made of them. Others need not
        wait for that room, which this request might keep until others have done something."""
        self._give_back(min(byte_count * WORKED_BYTES, self._worked_bytes))

    def leave(self) -> None:
        """The request is answered, and what was made of it is freed."""
        self._give_back(self._worked_bytes)
        self._memory.give_back(self._frame_bytes)

    def _give_back(self, worked_bytes: int) -> None:
        if worked_bytes:
            self._worked_bytes -= worked_bytes
            self._memory.give_back(worked_bytes)
            self._requests.leave(worked_bytes)


class UnsentAnswers(Protocol):
    """A connection whose peer has not taken all of its answers."""

    def count_unsent(self) -> None:
        """Reports to `ResponseMemory.changed` what has changed since the last time."""
        ...


class ResponseMemory:
    """The bytes that responses hold while peers have not read them, over all connections with large or many of them."""

    __slots__ = ("_telemetry", "_unsent", "limit_bytes", "unsent_bytes")

    def __init__(self, limit_bytes: int = RESPONSE_MEMORY_BYTES, telemetry: Telemetry | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._telemetry = telemetry or Telemetry()
        self.unsent_bytes = 0
        self._telemetry.held["moldau_response_memory_bytes"] = lambda: (self.unsent_bytes, self.limit_bytes)
        self._unsent: dict[UnsentAnswers, None] = {}

    def changed(self, connection: UnsentAnswers, difference_bytes: int, *, is_unsent: bool) -> None:
        """What the answers of `connection` hold has changed; `is_unsent`: it is more than nothing."""
        self.unsent_bytes += difference_bytes
        if is_unsent:
            self._unsent[connection] = None
        else:
            self._unsent.pop(connection, None)

    @property
    def is_short(self) -> bool:
        """Whether more than half is taken."""
        return self.unsent_bytes > self.limit_bytes // 2

    def fetch_allowance_bytes(self) -> int:
        """The most that one fetch may bring into memory now: a quarter of what is left, at least 1 MiB; 64 KiB where
        nothing is left. A batch that is larger is streamed, see StreamedAnswer."""
        if self.unsent_bytes > self.limit_bytes // 2:  # `is_short`, without a call in each fetch
            # a transport calls back when it is empty only if it was above its high water
            for connection in list(self._unsent):
                connection.count_unsent()
            if self.is_short:
                self._telemetry.count(BOUND_REACHED, "moldau.response.memory.bytes")
        left_bytes = self.limit_bytes - self.unsent_bytes
        return max(MIN_FETCH_BYTES, left_bytes // 4) if left_bytes > 0 else MIN_FETCH_BYTES_OVER_LIMIT
