"""Recent samples of growing totals, and the rates between two samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from itertools import pairwise

MAX_SAMPLES = 150
"""Five minutes with one sample every two seconds."""
MAX_SERIES = 2_000
RATE_WINDOW_S = 10.0


class Series:
    """(seconds, value) in the order of time."""

    __slots__ = ("samples",)

    def __init__(self) -> None:
        self.samples: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)

    def add(self, now_s: float, value: float) -> None:
        self.samples.append((now_s, value))

    @property
    def last(self) -> float | None:
        return self.samples[-1][1] if self.samples else None

    @property
    def span_s(self) -> float:
        """The time between the first and the last sample."""
        return self.samples[-1][0] - self.samples[0][0] if self.samples else 0.0

    @property
    def changed_s(self) -> float | None:
        """How long before the last sample the value last changed; None if it never did."""
        if not self.samples:
            return None
        now_s, last = self.samples[-1]
        after_s = now_s
        for then_s, value in reversed(self.samples):
            if value != last:
                return now_s - after_s
            after_s = then_s
        return None

    def values(self) -> list[float]:
        return [value for _, value in self.samples]

    def rates(self) -> list[float]:
        """Rates per second between neighbouring samples; a total that decreased (a recreated topic) counts as 0."""
        return [
            max(0.0, value - before) / (now_s - then_s)
            for (then_s, before), (now_s, value) in pairwise(self.samples)
            if now_s > then_s
        ]

    def rate(self) -> float | None:
        """The rate over the last 10 s; None with fewer than two samples."""
        if len(self.samples) < 2:
            return None
        now_s, value = self.samples[-1]
        then_s, before = self.samples[-2]
        for sample in reversed(self.samples):
            if now_s - sample[0] > RATE_WINDOW_S:
                break
            then_s, before = sample
        return max(0.0, value - before) / (now_s - then_s) if now_s > then_s else None


class History:
    """Series by name; drops those that are no longer sampled."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}

    def add(self, now_s: float, values: Mapping[str, float | None]) -> None:
        """None means that the value is unknown now: the series waits for its next sample."""
        for name in [name for name in self.series if name not in values]:
            del self.series[name]
        for name, value in values.items():
            if value is None:
                continue
            series = self.series.get(name)
            if series is None:
                if len(self.series) >= MAX_SERIES:
                    continue
                series = self.series[name] = Series()
            series.add(now_s, value)

    def get(self, name: str) -> Series:
        return self.series.get(name) or Series()


class Growth:
    """Totals that grow by the growth of their parts between two samples.

    A part that is new, or was unknown in the previous sample, adds nothing: otherwise the total would jump by the
    part's whole value. Keeps at most one set of parts for each name of the newest sample.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Mapping[Hashable, float]] = {}
        self._totals: dict[str, float] = {}

    def add(self, samples: Mapping[str, Mapping[Hashable, float]]) -> dict[str, float]:
        """`samples`: the parts of each total. Returns the totals."""
        for name, parts in samples.items():
            before = self._parts.get(name, {})
            grown = sum(max(0.0, value - before[part]) for part, value in parts.items() if part in before)
            self._totals[name] = self._totals.get(name, 0.0) + grown
        self._parts = dict(samples)
        self._totals = {name: self._totals[name] for name in samples}
        return self._totals
