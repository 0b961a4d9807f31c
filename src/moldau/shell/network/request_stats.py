"""Statistics of requests for the metrics: number, versions, times and error codes.

Counts are exact. Times and sizes are measured for the first SAMPLE_ALL requests of an API and for one in 32 after that:
a request takes about 10 microseconds, and two clock reads are not free. Quantiles cover the last five to ten minutes,
in steps of a fifth. Nothing is timed if no endpoint shows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from moldau.wire.protocol.error_codes import error_codes

SAMPLE_ALL = 64
SAMPLE_MASK = 31
"""After the first SAMPLE_ALL, a request is timed if its number has none of these bits."""
WINDOW_S = 300.0
QUANTILES = (("0.50", 0.5), ("0.75", 0.75), ("0.95", 0.95), ("0.98", 0.98), ("0.99", 0.99), ("0.999", 0.999))
"""As in Kafka's histograms."""

TIME_BOUNDS_S = tuple(1e-6 * 1.2**step for step in range(101))
"""1 microsecond to 83 s."""
_SIZE_BOUNDS = tuple(16 * 1.2**step for step in range(87))
"""16 bytes to 100 MB."""


class Histogram:
    """Counts by size in two windows: the current one and the one before."""

    __slots__ = ("_bounds", "_current", "_last", "_window_start_s", "max")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._current = [0] * (len(bounds) + 1)
        self._last: list[int] = []
        self._window_start_s = 0.0
        self.max = 0.0

    def observe(self, value: float, now_s: float) -> None:
        """Counts one value, measured at `now_s` of a steady clock."""
        if now_s - self._window_start_s >= WINDOW_S:
            # after a quiet time the previous window is too old to count
            is_recent = now_s - self._window_start_s < 2 * WINDOW_S
            self._last = self._current if is_recent else []
            self._current = [0] * (len(self._bounds) + 1)
            self._window_start_s = now_s
        self._current[bisect_left(self._bounds, value)] += 1

    def quantiles(self, scale: float = 1.0) -> list[tuple[str, float]]:
        """(name, upper bound of its step times `scale`); 0 without values."""
        counts = self._current
        if self._last:
            counts = [a + b for a, b in zip(counts, self._last, strict=True)]
        total = sum(counts)
        found: list[tuple[str, float]] = []
        step, seen = 0, counts[0]
        for name, quantile in QUANTILES:
            while seen < quantile * total and step + 1 < len(counts):
                step += 1
                seen += counts[step]
            bound = self._bounds[min(step, len(self._bounds) - 1)]
            found.append((name, bound * scale if total else 0.0))
        return found


class RequestStats:
    """The counts and times of one API of one node."""

    __slots__ = ("by_version", "count", "errors", "local", "request_bytes", "total", "waited")

    def __init__(self, max_version: int) -> None:
        self.count = 0
        self.by_version = [0] * (max_version + 1)
        self.errors: dict[int, int] = {}
        """How many answers held each error code, including 0."""
        self.local = Histogram(TIME_BOUNDS_S)
        """Seconds in the handler's synchronous part, during which others wait."""
        self.waited = Histogram(TIME_BOUNDS_S)
        """Seconds between that and the answer: long polls, flushes, group joins."""
        self.total = Histogram(TIME_BOUNDS_S)
        self.request_bytes = Histogram(_SIZE_BOUNDS)

    def count_rest(self, whole: RequestStats, part: RequestStats) -> None:
        """Takes the counts of those requests of `whole` that are not of `part`. No count decreases when a request is
        found to be of `part` later: a monitor would take that for a restart."""
        self.count = max(self.count, whole.count - part.count)
        counts = zip(self.by_version, whole.by_version, part.by_version, strict=True)
        self.by_version = [max(known, count - of_part) for known, count, of_part in counts]

    def handled(self, started_s: float, ended_s: float, size: int) -> None:
        """Counts a request that was answered at once."""
        self.local.observe(ended_s - started_s, ended_s)
        self.waited.observe(0.0, ended_s)
        self.total.observe(ended_s - started_s, ended_s)
        self.request_bytes.observe(size, ended_s)

    def parked(self, started_s: float, ended_s: float, size: int) -> None:
        """The answer follows later; `completed` is then called."""
        self.local.observe(ended_s - started_s, ended_s)
        self.request_bytes.observe(size, ended_s)

    def completed(self, started_s: float, parked_s: float, ended_s: float) -> None:
        """The answer of a request parked at `parked_s` is complete. All times in seconds of the loop's clock."""
        self.waited.observe(ended_s - parked_s, ended_s)
        self.total.observe(ended_s - started_s, ended_s)

    def count_errors(self, response: msgspec.Struct) -> None:
        """Counts every error code in the response, including 0."""
        self.count_codes(error_codes(response))

    def count_codes(self, codes: Iterable[int]) -> None:
        """As `count_errors`, for a long response, whose codes arrive in pieces."""
        errors = self.errors
        for code in codes:
            errors[code] = errors.get(code, 0) + 1
