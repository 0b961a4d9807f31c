"""Aligns the ends of repeated waits, so that an idle node wakes less often.

Each wakeup of an idle node costs time, because the caches of the processor are cold. Waits that end together cost less.
They end at the multiples of BEAT_MS on the steady clock, so that all agree without coordination.
"""

from __future__ import annotations

BEAT_MS = 500
SOONER_MS = 50
LATER_MS = 10
"""Timers fire slightly early, so a wait that began just before a beat also ends at a beat."""


def beat_ms(now_ms: int, wait_ms: int) -> int:
    """When a wait of `wait_ms` that begins now ends: at most SOONER_MS sooner or LATER_MS later. Only a wait of whole
    beats is moved. If it is repeated, it reaches the beat within ten waits and stays there."""
    due_ms = now_ms + wait_ms
    if wait_ms <= 0 or wait_ms % BEAT_MS:
        return due_ms
    past_ms = due_ms % BEAT_MS
    if past_ms >= BEAT_MS - LATER_MS:
        return due_ms + BEAT_MS - past_ms
    return due_ms - min(past_ms, SOONER_MS)
