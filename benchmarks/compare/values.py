"""The records that every system gets, and the count of those that it has acknowledged."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

HEAD = struct.Struct(">qq")
"""A record begins with its number and the time when it was drawn (ns, 0: not timed)."""


class Acknowledged:
    """Counts acknowledged records. `flags` has one byte for each record, which another process may share."""

    def __init__(self, flags: memoryview) -> None:
        self._flags = flags
        self.count = 0
        self.last_at = 0.0
        """`time.perf_counter` of the newest acknowledgement."""

    def mark(self, first: int, end: int) -> None:
        """Records `first` to `end` (exclusive) are acknowledged; repeated ones count once."""
        if end - first == 1:
            self.count += not self._flags[first]
            self._flags[first] = 1
        else:
            self.count += end - first - bytes(self._flags[first:end]).count(1)
            self._flags[first:end] = b"\1" * (end - first)
        self.last_at = time.perf_counter()


def number_of(value: bytes) -> int:
    return int(HEAD.unpack_from(value)[0])


def drawn_at_ns(value: bytes) -> int:
    return int(HEAD.unpack_from(value)[1])


class Values:
    """Draws the records of one writer.

    Gives the first record, then None until it is acknowledged, so that no rate includes the start of a client. The
    clock starts then. None means that nothing is due: a client uses that turn to send what it holds back.
    """

    def __init__(self, acknowledged: Acknowledged, *, value_bytes: int, records: int, seconds: float) -> None:
        self._acknowledged = acknowledged
        self._padding = bytes(value_bytes - HEAD.size)
        self._records = records
        self._seconds = seconds
        self.started_at = 0.0
        self.cpu_at_start = 0.0
        self.on_start: Callable[[], None] = lambda: None

    def _first(self) -> Iterator[bytes | None]:
        yield HEAD.pack(0, 0) + self._padding
        while not self._acknowledged.count:
            yield None

    def _start(self) -> None:
        self.on_start()
        self.cpu_at_start = time.process_time()
        self.started_at = time.perf_counter()

    def at_full_speed(self) -> Iterator[bytes | None]:
        """At most `records`, and no more after `seconds`."""
        yield from self._first()
        self._start()
        end, padding, pack = self.started_at + self._seconds, self._padding, HEAD.pack
        for number in range(1, self._records):
            if not number % 64 and time.perf_counter() > end:
                return
            yield pack(number, 0) + padding

    def at_rate(self, rate: int, is_ready: Callable[[], bool]) -> Iterator[bytes | None]:
        """`rate` records a second with their times, once the reader is ready."""
        yield from self._first()
        while not is_ready():
            yield None
        self._start()
        for number in range(1, self._records):
            due = self.started_at + number / rate
            while time.perf_counter() < due:
                yield None
            yield HEAD.pack(number, time.perf_counter_ns()) + self._padding
