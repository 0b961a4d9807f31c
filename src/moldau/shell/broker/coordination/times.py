"""Load times of coordinators, and verifications of transaction partitions, for metrics as in Apache Kafka."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from moldau.shell.network.request_stats import TIME_BOUNDS_S, Histogram

WINDOW_MS = 60_000
"""Kafka's own: two samples of 30 s."""
MOST_LOADS = 10_000
"""More than the coordinators of a broker, each of which loads once in an epoch."""


class LoadTimes:
    """Load times of the coordinators of one internal topic, from when a coordinator was due until it served."""

    __slots__ = ("_loads",)

    def __init__(self) -> None:
        self._loads: deque[tuple[int, int]] = deque(maxlen=MOST_LOADS)
        """(time it served, load time), in ms."""

    def add(self, now_ms: int, took_ms: int) -> None:
        """A coordinator serves from now on, after loading for `took_ms`."""
        self._loads.append((now_ms, took_ms))

    def recent(self, now_ms: int) -> tuple[float, float]:
        """The average and the maximum in the last minute; NaN if none was loaded."""
        while self._loads and now_ms - self._loads[0][0] > WINDOW_MS:
            self._loads.popleft()
        took = [took_ms for _, took_ms in self._loads]
        return (sum(took) / len(took), max(took)) if took else (math.nan, math.nan)


class Verifications:
    """Questions of leaders here to a coordinator: whether partitions are in a transaction, or may join it."""

    __slots__ = ("count", "failures", "times")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        """Partitions with an error code."""
        self.times = Histogram(TIME_BOUNDS_S)

    def add(self, codes: Iterable[int], began_ms: int, now_ms: int) -> None:
        """One answer of a coordinator: the error code of each partition."""
        self.count += 1
        self.failures += sum(code != 0 for code in codes)
        self.times.observe((now_ms - began_ms) / 1_000, now_ms / 1_000)
