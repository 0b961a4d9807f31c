"""Wakes fetches and acks=all appends that wait for a partition, at most once in a turn of the loop.

A turn that appends a hundred small batches to one partition wakes its long polls once, after the last batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError
from moldau.types import LeaderEpoch


class Waiter(Protocol):
    """A waiter for changes of partitions."""

    def partition_changed(self, partition: Partition) -> None:
        """A watermark of `partition` moved, its leader changed, or it was deleted or went offline. Called once per turn
        of the loop."""
        ...


class _Condition:
    """A condition on all replicas: they have an append, or deleted records."""

    def __init__(self, is_reached: Callable[[], bool], reached: asyncio.Future[None]) -> None:
        self._is_reached = is_reached
        self._reached = reached

    def partition_changed(self, partition: Partition) -> None:
        if self._reached.done():
            return
        try:
            if self._is_reached():
                self._reached.set_result(None)
        except KafkaError as error:
            self._reached.set_exception(error)


class PartitionWaits:
    """Waiters by partition number, called in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.by_number: dict[int, dict[Waiter, None]] = {}
        self._changed: dict[int, Partition] = {}
        self._is_scheduled = False

    def add(self, partitions: Sequence[Partition], waiter: Waiter) -> None:
        """Calls the waiter at each change of these partitions, until `remove`."""
        for partition in partitions:
            self.by_number.setdefault(partition.number, {})[waiter] = None

    def remove(self, partitions: Sequence[Partition], waiter: Waiter) -> None:
        """Removes the waiter. Without effect if it was removed already."""
        for partition in partitions:
            waiters = self.by_number.get(partition.number)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self.by_number[partition.number]

    def wait_acknowledged(
        self, partition: Partition, end_offset: int, leader_epoch: LeaderEpoch
    ) -> asyncio.Future[None]:
        """Done when all in-sync replicas have the log of this leader up to `end_offset`. Raises 3, 6, 20, 56, now or
        later."""
        return self._wait(partition, partial(partition.is_acknowledged, end_offset, leader_epoch))

    def wait_deleted(self, partition: Partition, offset: int, leader_epoch: LeaderEpoch) -> asyncio.Future[None]:
        """Done when no live replica has records below `offset`. Raises 3, 6, 56, now or later."""
        return self._wait(partition, partial(partition.is_deleted_below, offset, leader_epoch))

    def _wait(self, partition: Partition, is_reached: Callable[[], bool]) -> asyncio.Future[None]:
        reached: asyncio.Future[None] = self._loop.create_future()
        if is_reached():
            reached.set_result(None)
        else:
            waiter = _Condition(is_reached, reached)
            self.add((partition,), waiter)
            reached.add_done_callback(lambda _: self.remove((partition,), waiter))
        return reached

    def changed(self, partition: Partition) -> None:
        """Call this after each append, flush, truncation and deletion. Cheap without waiters."""
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
