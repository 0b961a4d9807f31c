"""When a wait that is repeated again and again ends: at the same instants as others.

A node that has nothing to do wakes for each wait that ends, and what it does then is slow, for nothing of it is in the
caches of the processor. Waits that end together cost less. The instants are the multiples of BEAT_MS on
the clock that never goes back, so that they agree without anybody who arranges it.
"""

from __future__ import annotations

BEAT_MS = 500
SOONER_MS = 50
LATER_MS = 10
"""Timers fire a little sooner than they should: a wait that began just before a beat ends at one, too."""


def beat_ms(now_ms: int, wait_ms: int) -> int:
    """When a wait of `wait_ms` that begins now ends: at most SOONER_MS sooner or LATER_MS later than it would. Only one
    of whole beats is moved: repeated, it drifts to the beat within ten waits, and stays there."""
    due_ms = now_ms + wait_ms
    if wait_ms <= 0 or wait_ms % BEAT_MS:
        return due_ms
    past_ms = due_ms % BEAT_MS
    if past_ms >= BEAT_MS - LATER_MS:
        return due_ms + BEAT_MS - past_ms
    return due_ms - min(past_ms, SOONER_MS)
