"""Sends replicas their due Ticks, with one heap and one timer for all partitions, and no work until one is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import Event, Tick
from moldau.shell.broker.own_node import OwnNode

TICKS_OF_A_TURN = 100
"""About 0.3 ms. Further due Ticks take further turns of the loop."""
FAR_MS = 5_000
TOGETHER_MS = 1_000
"""Deadlines farther off than FAR_MS are rounded up to a full second, and share a wake-up. Otherwise thousands of quiet
partitions, each due every 15 seconds, would wake the process thirty times a second."""


class ReplicaDeadlines:
    """Used from the broker's loop only. `step` handles the Tick, and then arms the replica again."""

    def __init__(self, node: OwnNode, step: Callable[[Partition, Event], None]) -> None:
        self._node = node
        self._step = step
        self._heap: list[tuple[int, int]] = []
        """(due time, partition number). An entry counts only while `_armed` has the same due time."""
        self._armed: dict[int, tuple[int, int, Partition]] = {}
        """By partition number: its deadline, its due time, the partition."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def arm(self, partition: Partition) -> None:
        """Call this after each event of the replica. A later deadline is noticed at the earlier due time."""
        deadline_ms = partition.replica.next_deadline_ms()
        if deadline_ms is None:
            return
        armed = self._armed.get(partition.number)
        if armed is None or deadline_ms < armed[0]:
            is_far = deadline_ms - self._node.clock.monotonic_ms() > FAR_MS
            due_ms = deadline_ms + (-deadline_ms % TOGETHER_MS if is_far else 0)
            self._armed[partition.number] = deadline_ms, due_ms, partition
            heappush(self._heap, (due_ms, partition.number))
            self._set_timer()

    def stop(self) -> None:
        """Drops all deadlines."""
        self._heap.clear()
        self._armed.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        due_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(0, due_ms - self._node.clock.monotonic_ms())
        self._timer = self._node.loop.call_later(delay_ms / 1_000, self.fire)

    def fire(self) -> None:
        """Sends a Tick to the replicas that are due."""
        self._timer = None
        heap, now_ms = self._heap, self._node.clock.monotonic_ms()
        for _ in range(TICKS_OF_A_TURN):
            if not heap or heap[0][0] > now_ms:
                break
            due_ms, number = heappop(heap)
            armed = self._armed.get(number)
            if armed is not None and armed[1] == due_ms:
                del self._armed[number]
                self._step(armed[2], Tick())
        if heap:
            self._set_timer()
