"""Who waits for a partition: parked fetches, woken at most once per turn of the loop.

A turn that appends a hundred small batches to one partition wakes its long polls once, after the last of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from moldau.core.replication.partition import Partition


class Waiter(Protocol):
    """Something parked on partitions."""

    def partition_changed(self, partition: Partition) -> None:
        """The high watermark of `partition` moved, or the partition went away or offline; once per turn."""
        ...


class PartitionWaits:
    """Waiters by partition number. Iterates in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.by_number: dict[int, dict[Waiter, None]] = {}
        self._changed: dict[int, Partition] = {}
        self._is_scheduled = False

    def add(self, partitions: Sequence[Partition], waiter: Waiter) -> None:
        for partition in partitions:
            self.by_number.setdefault(partition.number, {})[waiter] = None

    def remove(self, partitions: Sequence[Partition], waiter: Waiter) -> None:
        for partition in partitions:
            waiters = self.by_number.get(partition.number)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self.by_number[partition.number]

    def changed(self, partition: Partition) -> None:
        """To be called after each append, flush, truncation, deletion. Cheap when nobody waits."""
        if partition.number in self.by_number:
            self._changed[partition.number] = partition
            if not self._is_scheduled:
                self._is_scheduled = True
                self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_scheduled = False
        changed, self._changed = self._changed, {}
        for number, partition in changed.items():
            for waiter in list(self.by_number.get(number, ())):
                waiter.partition_changed(partition)
