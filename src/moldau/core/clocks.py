"""How far the clocks of two machines are apart, by one question and its answer."""

from __future__ import annotations

CLOCK_SKEW_MS = 5_000
"""From here on timestamps and timeouts of clients and brokers begin to disagree visibly."""


def clock_skew_ms(there_ms: int, asked_ms: float, took_ms: float) -> int:
    """How far the other clock is ahead of ours (negative: behind). It showed `there_ms` between the question, sent at
    `asked_ms` by ours, and the answer, `took_ms` later: what is beyond either end is skew."""
    return round(min(0, there_ms + 1 - asked_ms) or max(0, there_ms - asked_ms - took_ms))
