"""Measures how late the event loop is, with a timer that should fire every TICK_S.

A stall of D seconds is certain to be seen if D is longer than the tick; otherwise it is seen with probability D /
TICK_S. So the counts below are a sample, and the maximum is a lower bound. With ten ticks a second instead of two, the
ticks were a third of all wake-ups of an idle node in a cluster of three.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left

TICK_S = 0.5
BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Upper bounds of the counts of late ticks."""
WINDOW_TICKS = 120


class LoopWatch:
    """Watches from `start` to `stop`. `counts` has one more element, for delays above every bound."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0
        self._window_max_s = 0.0
        self._last_window_max_s = 0.0
        self._ticks = 0

    @property
    def max_s(self) -> float:
        """The longest delay of the last one to two minutes."""
        return max(self._window_max_s, self._last_window_max_s)

    def start(self) -> None:
        """Sets the first timer."""
        self._arm()

    def stop(self) -> None:
        """Cancels the timer; the measurements stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        # the instants at which other waits end, so an idle node does not wake for this alone
        self._due_s = (self._loop.time() // TICK_S + 1) * TICK_S
        self._timer = self._loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        late_s = max(0.0, self._loop.time() - self._due_s)
        self.counts[bisect_left(BOUNDS_S, late_s)] += 1
        self.sum_s += late_s
        self._window_max_s = max(self._window_max_s, late_s)
        self._ticks += 1
        if self._ticks % WINDOW_TICKS == 0:
            self._last_window_max_s, self._window_max_s = self._window_max_s, 0.0
        self._arm()
