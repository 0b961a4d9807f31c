"""How long coordinators took to load, and what leaders heard of them about partitions of transactions: for the metrics,
as Apache Kafka counts them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from moldau.shell.network.request_stats import TIME_BOUNDS_S, Histogram

WINDOW_MS = 60_000
"""Kafka's own: two samples of 30 s."""
MOST_LOADS = 10_000
"""A broker leads fewer coordinators than this; each is loaded once in an epoch."""


class LoadTimes:
    """How long the coordinators of one internal topic took to load: from when a coordinator was due until it served."""

    __slots__ = ("_loads",)

    def __init__(self) -> None:
        self._loads: deque[tuple[int, int]] = deque(maxlen=MOST_LOADS)
        """(when it served, how long that took)"""

    def add(self, now_ms: int, took_ms: int) -> None:
        """A coordinator serves from now on, and took so long to load."""
        self._loads.append((now_ms, took_ms))

    def recent(self, now_ms: int) -> tuple[float, float]:
        """The average and the maximum in the last minute; NaN where none was loaded."""
        while self._loads and now_ms - self._loads[0][0] > WINDOW_MS:
            self._loads.popleft()
        took = [took_ms for _, took_ms in self._loads]
        return (sum(took) / len(took), max(took)) if took else (math.nan, math.nan)


class Verifications:
    """Partitions that were to be in a transaction, or to join one, asked of the coordinator by a leader here."""

    __slots__ = ("count", "failures", "times")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        """Partitions that are not in it."""
        self.times = Histogram(TIME_BOUNDS_S)

    def add(self, codes: Iterable[int], began_ms: int, now_ms: int) -> None:
        """One answer of a coordinator: the error code of each partition."""
        self.count += 1
        self.failures += sum(code != 0 for code in codes)
        self.times.observe((now_ms - began_ms) / 1_000, now_ms / 1_000)
