"""The Clock port on the machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """`time.time` for people, `time.monotonic` for deadlines, both in whole milliseconds."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
