"""What happens when, in virtual time: callbacks of processes, in an order that the seed alone decides."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from moldau.simulation.loop import ProcessKilledError, SimulatedProcess


class Timeline:
    """`now_ms` moves only from one event to the next."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[], None], SimulatedProcess | None]] = []
        self._count = 0
        self._paused_until_ms: dict[str, int] = {}

    def after(self, delay_ms: int, act: Callable[[], None], process: SimulatedProcess | None = None) -> None:
        """Calls `act` in `delay_ms`, unless `process` is dead by then."""
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, act, process))

    def pause(self, process: SimulatedProcess, until_ms: int) -> None:
        """The process does nothing before `until_ms`: what it should have done is done then, in its order."""
        self._paused_until_ms[process.name] = until_ms

    def resume_all(self) -> None:
        self._paused_until_ms.clear()

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> None:
        """Until `end_ms`, or `is_done`."""
        while self._events and self._events[0][0] <= end_ms and not is_done():
            self.now_ms, order, act, process = heapq.heappop(self._events)
            if process is not None:
                if process.is_dead:
                    continue
                paused_until_ms = self._paused_until_ms.get(process.name, 0)
                if paused_until_ms > self.now_ms:
                    heapq.heappush(self._events, (paused_until_ms, order, act, process))
                    continue
            try:
                act()
            except ProcessKilledError:
                continue  # it died inside one of its own calls
        if not is_done():
            self.now_ms = max(self.now_ms, end_ms)
