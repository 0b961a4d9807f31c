"""Groups fsyncs: all logs that request a flush while one is running share the next one.

One flush runs at a time, in Workers. A failed flush takes the log directory offline, and is never tried again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, StorageFailedError, StorageFullError, kafka_error
from moldau.shell.broker.logs.checkpoints import Checkpoints
from moldau.shell.broker.own_node import OwnNode
from moldau.types import Offset

RETRY_S = 0.5


def _has_unsaved_epochs(partition: Partition) -> bool:
    is_there = not partition.is_deleted and not partition.is_offline
    return is_there and partition.log.leader_epochs.is_dirty


class Flusher:
    """Flushes logs, many appends with one fsync; used from the node's loop only."""

    def __init__(
        self,
        node: OwnNode,
        checkpoints: Checkpoints,
        high_watermark_moved: Callable[[Partition], None],
    ) -> None:
        self._node = node
        self._checkpoints = checkpoints
        self._high_watermark_moved = high_watermark_moved
        self._asked: dict[int, Partition] = {}
        self._is_running = False
        self._held: dict[int, bool] = {}
        """By number: partitions whose flushes are on hold, and whether a flush was requested meanwhile."""
        self._waiters: dict[int, deque[tuple[Offset, asyncio.Future[None]]]] = {}

    def request(self, partition: Partition) -> None:
        """Requests a flush of everything in the log of `partition`."""
        self._asked[partition.number] = partition
        if not self._is_running:
            self._is_running = True
            self._node.spawn(self._run())

    async def hold(self, partition: Partition) -> None:
        """Holds back flushes of the log until `end_hold`. When this returns, no flush runs, and the durable part does
        not change. Requested flushes follow after `end_hold`."""
        self._held[partition.number] = False
        await self.wait_idle(partition)

    def end_hold(self, partition: Partition) -> None:
        """Ends `hold`."""
        if self._held.pop(partition.number, False):
            self.request(partition)

    def wait(self, partition: Partition, end_offset: Offset) -> asyncio.Future[None]:
        """Done when `partition` is on the disk up to `end_offset`. If that cannot happen, raises 3 (deleted), 6
        (truncated) or 56, now or later."""
        waiter: asyncio.Future[None] = self._node.loop.create_future()
        if partition.log.recovery_point >= end_offset:
            waiter.set_result(None)
        elif partition.is_deleted:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
        elif partition.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        elif end_offset > partition.log.log_end_offset:
            raise kafka_error("NOT_LEADER_OR_FOLLOWER", "what was appended is cut")
        else:
            self._waiters.setdefault(partition.number, deque()).append((end_offset, waiter))
        return waiter

    async def wait_idle(self, partition: Partition) -> None:
        """Waits until no flush of the log runs, even if one fails."""
        while partition.log.is_flushing:
            ended: asyncio.Future[None] = self._node.loop.create_future()
            self._waiters.setdefault(partition.number, deque()).appendleft((Offset(0), ended))
            with suppress(KafkaError):
                await ended

    async def save_log_start_offsets(self, partitions: Sequence[Partition], needed: LogDirectory | None = None) -> None:
        """Waits until the current log start offsets of these partitions are on the disk. Partitions of a failing
        directory are then offline. Raises StorageFullError; `needed`: see Checkpoints."""
        for _ in range(2):
            for partition in partitions:
                # first the leader epochs, which then begin at the new start: a restart trusts both files
                with suppress(KafkaError):
                    await self._save_leader_epochs(partition)
            await self._checkpoints.save_log_start_offsets(needed)
            if not any(map(_has_unsaved_epochs, partitions)):
                return
            # there was no room for the epochs, but then for the checkpoint, so there may be room now
        raise StorageFullError("leader epochs: no space left in the log directory")

    async def _save_leader_epochs(self, partition: Partition) -> None:
        """Waits until the leader epochs are saved. Raises as `wait`."""
        while _has_unsaved_epochs(partition):
            # a running flush may have started with older epochs: the loop asks again
            waiter: asyncio.Future[None] = self._node.loop.create_future()
            self._waiters.setdefault(partition.number, deque()).append((Offset(0), waiter))
            self.request(partition)
            await waiter

    async def _run(self) -> None:
        # waits for one turn of the loop: requests of the same read event join this flush
        await asyncio.sleep(0)
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                await self._flush(list(asked.values()))
        finally:
            self._is_running = False

    async def _flush(self, partitions: list[Partition]) -> None:
        plans = []
        for partition in partitions:
            if partition.number in self._held:
                self._held[partition.number] = True
            elif not partition.is_offline and not partition.is_deleted:
                # the partition keeps its log during the flush: a move first holds back flushes
                log = partition.log
                plan = log.unflushed()
                if plan is None:
                    self._flushed(partition)
                else:
                    plans.append((partition, log, plan))
        if not plans:
            return

        def run() -> tuple[dict[int, StorageFullError], bool]:
            full: dict[int, StorageFullError] = {}
            has_failed = False
            for partition, log, plan in plans:
                if log.health.is_offline:
                    # other work found the failure, and the loop may not know yet: this log was not flushed
                    has_failed = True
                    continue
                try:
                    plan.run()
                except StorageFullError as error:
                    full[partition.number] = error
                except StorageFailedError:
                    has_failed = True
            return full, has_failed

        try:
            full, has_failed = await self._node.workers.run(run)
        except Exception:
            # unforeseen: it is unknown what was flushed, so waiters wait for the next flush
            for partition, log, _ in plans:
                log.flush_failed()
                self._node.loop.call_later(RETRY_S, self.request, partition)
            raise
        if has_failed:
            self._node.directory_failed()
        now_ms = self._node.clock.now_ms()
        for partition, log, plan in plans:
            if partition.is_deleted or partition.is_offline:
                log.flush_failed()
                self._release(partition)  # for waiters of the end of this flush only
                continue
            if partition.number in full:
                log.flush_failed()
                self.fail(partition, kafka_error("KAFKA_STORAGE_ERROR", "no space left in the log directory"))
                self._node.no_room(partition.topic_partition)
                self._node.loop.call_later(RETRY_S, self.request, partition)
                continue
            log.mark_flushed(plan, now_ms)
            self._checkpoints.changed()
            self._flushed(partition)

    def _flushed(self, partition: Partition) -> None:
        if partition.flushed(self._node.clock.monotonic_ms()):
            self._high_watermark_moved(partition)
        self._release(partition)

    def _release(self, partition: Partition) -> None:
        waiters = self._waiters.get(partition.number)
        durable_offset = partition.log.recovery_point
        while waiters and waiters[0][0] <= durable_offset:
            _, waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if waiters is not None and not waiters:
            del self._waiters[partition.number]

    def log_cut(self, partition: Partition) -> None:
        """The log was truncated: fails the waiters for offsets after its end, where another leader has other
        records."""
        waiters, end_offset = self._waiters.get(partition.number, ()), partition.log.log_end_offset
        for needed, waiter in waiters:
            if needed > end_offset and not waiter.done():
                waiter.set_exception(kafka_error("NOT_LEADER_OR_FOLLOWER"))
        if waiters:
            self._waiters[partition.number] = deque(each for each in waiters if each[0] <= end_offset)
            self._release(partition)

    def fail(self, partition: Partition, error: KafkaError) -> None:
        """`partition` is deleted or offline: waiting requests get `error`."""
        self._asked.pop(partition.number, None)
        for _, waiter in self._waiters.pop(partition.number, ()):
            if not waiter.done():
                waiter.set_exception(error)
