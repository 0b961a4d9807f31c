"""Time travel: a real event loop, with real sockets, whose clock can be moved ahead.

Moving works as in the simulator: during a journey, the loop does not wait for its next timer but jumps to it. It only
jumps when nothing is ready and no worker is busy, so the work that a timer starts ends before the next timer fires. The
journey ends when no work is left.

Many timers in close succession would make a week expensive, so a step is at least 1/64 of the journey: some timers then
fire together, in their order, as after a pause of the process.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import TypeVar

from moldau.ports import Workers

T = TypeVar("T")

MAX_STEPS = 64
MAX_BUSY_TURNS = 20
"""After this many loop turns with traffic, the journey continues anyway."""
LAST_LOOK_S = 1.001
"""How far the timers, but not the clock, go beyond the end: work that runs once a second has then seen the end."""


class TimeTravel:
    """How far the clock of one loop is ahead of the machine's. Outlives the loop, so a restart keeps the time."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        """For the clock of records, groups and retention."""
        self.loop_ahead_s = 0.0
        """For the loop's timers."""
        self.is_moving = False
        self._remaining_ms = 0
        self._stride_ms = 1
        self._is_last_look = False
        self._busy_turns = 0
        self._arrived: Callable[[], None] = lambda: None

    def begin(self, duration_ms: int, arrived: Callable[[], None]) -> None:
        """Starts a journey; called on the loop. Calls `arrived` on the loop once all resulting work is done."""
        self._remaining_ms = duration_ms
        self._stride_ms = max(1, duration_ms // MAX_STEPS)
        self._is_last_look = False
        self._busy_turns = 0
        self._arrived = arrived
        self.is_moving = True

    def skip(self, duration_ms: int) -> None:
        """Moves the clocks with no loop running."""
        self.ahead_ms += duration_ms
        self.loop_ahead_s += duration_ms / 1000

    def may_wait(self, has_events: bool) -> bool:
        """Whether the loop must handle other events before the next step."""
        if has_events and self._busy_turns < MAX_BUSY_TURNS:
            self._busy_turns += 1
            return True
        return False

    def step(self, timeout_s: float | None) -> bool:
        """Jumps to the next timer, `timeout_s` from now (None: no timer). False at the end of the journey."""
        self._busy_turns = 0
        if self._remaining_ms > 0:
            wanted_ms = self._remaining_ms if timeout_s is None else int(timeout_s * 1000) + 1
            step_ms = min(self._remaining_ms, max(wanted_ms, self._stride_ms))
            self._remaining_ms -= step_ms
            self.skip(step_ms)
            return True
        if not self._is_last_look:
            self._is_last_look = True
            self.loop_ahead_s += LAST_LOOK_S
            return True
        self.is_moving = False
        self._arrived()
        return False


class _TravellingSelector(selectors.DefaultSelector):
    def __init__(self, travel: TimeTravel, is_busy: Callable[[], bool]) -> None:
        super().__init__()
        self._travel = travel
        self._is_busy = is_busy

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        travel = self._travel
        if not travel.is_moving:
            return super().select(timeout)
        events = super().select(0)
        if timeout is not None and timeout <= 0:
            return events
        if travel.may_wait(bool(events)):
            return events
        if self._is_busy():
            # finished work of a worker wakes the loop; the bound is for work that cannot
            return events or super().select(0.01)
        travel.step(timeout)
        return events


class TravellingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be moved."""

    def __init__(self, travel: TimeTravel, is_busy: Callable[[], bool]) -> None:
        """`is_busy`: whether work is in progress that the loop does not see."""
        self._travel = travel
        super().__init__(_TravellingSelector(travel, is_busy))

    def time(self) -> float:
        return time.monotonic() + self._travel.loop_ahead_s


class TravellingClock:
    """The Clock port on the machine's clocks, moved ahead by all journeys."""

    __slots__ = ("_travel",)

    def __init__(self, travel: TimeTravel) -> None:
        self._travel = travel

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._travel.ahead_ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self._travel.ahead_ms


class CountingWorkers:
    """The Workers port around another one; knows whether work is in progress."""

    __slots__ = ("_workers", "pending")

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.pending = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.pending += 1
        try:
            return await self._workers.run(work)
        finally:
            self.pending -= 1

    async def drain(self) -> None:
        await self._workers.drain()

    def is_busy(self) -> bool:
        """Whether any work is in progress or waits for a thread."""
        return self.pending > 0

    def close(self) -> None:
        self._workers.close()
