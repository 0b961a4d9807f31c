"""A clock that a test moves."""

from __future__ import annotations

from moldau.errors import invariant

# 2027-01-15: a plausible time for records, so that retention and timestamp bounds behave as on a real node.
DEFAULT_NOW_MS = 1_800_000_000_000


class ManualClock:
    """Both clocks of the Clock port, moved by hand."""

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, now_ms: int = DEFAULT_NOW_MS, monotonic_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, duration_ms: int) -> None:
        """Moves both clocks ahead."""
        invariant(duration_ms >= 0, "the steady clock never goes back")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_now(self, now_ms: int) -> None:
        """Sets the wall clock, also back, as an operator may; the steady clock does not change."""
        self._now_ms = now_ms
