"""Periodic work of a broker: retention, due flushes, checkpoints, compaction, removal of deleted files.

Each task visits many partitions, with pauses. Intervals are Kafka's settings. Due flushes are checked once a second,
only for partitions with new records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.core.beat import beat_ms
from moldau.core.log.cleaning.retention import remove_files
from moldau.core.replication.partition import Partition
from moldau.errors import StorageFailedError, StorageFullError
from moldau.shell.network.event_log import MIN_INTERVAL_MS

if TYPE_CHECKING:
    from moldau.core.log.directories.health import DirectoryHealth
    from moldau.shell.broker.logs.cleaner import Cleaner
    from moldau.shell.broker.logs.moves import ReplicaMoves
    from moldau.shell.broker.own_node import OwnNode
    from moldau.shell.broker.partitions import Partitions

FLUSH_CHECK_MS = 1_000
PURGE_INTERVAL_MS = 10_000


class Housekeeping:
    """Runs from `start` to `stop`, on the broker's loop."""

    def __init__(self, node: OwnNode, partitions: Partitions, moves: ReplicaMoves) -> None:
        self._node = node
        self._partitions = partitions
        self._moves = moves
        self._cleaner: Cleaner | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_stopped = False
        self._checkpointed: dict[int, int] = {}

    def start(self) -> None:
        """Starts the timers of retention, flushes, checkpoints, removal and compaction, with the intervals of their
        settings."""
        settings = self._node.settings.view
        first_ms = settings.log_initial_task_delay_ms
        checkpoint_ms = min(
            settings.replica_high_watermark_checkpoint_interval_ms,
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.log_flush_start_offset_checkpoint_interval_ms,
        )
        self._arm_event_log()
        self._repeat("retention", first_ms, settings.log_retention_check_interval_ms, self.apply_retention)
        self._repeat(
            "flush", FLUSH_CHECK_MS, FLUSH_CHECK_MS, self.flush_what_is_due, lambda: bool(self._partitions.touched)
        )
        self._repeat("checkpoint", checkpoint_ms, checkpoint_ms, self.write_checkpoints)
        self._repeat("purge", PURGE_INTERVAL_MS, PURGE_INTERVAL_MS, self.purge_deleted)
        if settings.log_cleaner_enable:
            backoff_ms = settings.log_cleaner_backoff_ms
            self._repeat(
                "cleaner", backoff_ms, lambda: self._node.settings.view.log_cleaner_backoff_ms, self.clean_logs
            )

    def stop(self) -> None:
        """Ends the timers and the cleaner. Does not wait for running tasks."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._cleaner is not None:
            self._cleaner.stop()

    def _arm_event_log(self) -> None:
        self._timers["event log"] = self._call_together(MIN_INTERVAL_MS, self._write_left_out)

    def _call_together(self, delay_ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        loop = self._node.loop
        return loop.call_at(beat_ms(int(loop.time() * 1000), delay_ms) / 1000, call)

    def _write_left_out(self) -> None:
        """Writes a line about events that the event log left out in the last second."""
        self._node.log.write_left_out()
        self._arm_event_log()

    def _repeat(
        self,
        name: str,
        first_ms: int,
        interval_ms: int | Callable[[], int],
        task: Callable[[], Coroutine[Any, Any, None]],
        is_needed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Runs `task` after `first_ms`, then `interval_ms` after each end. Skips a run that is not needed."""
        node = self._node

        async def run() -> None:
            try:
                await task()
            except StorageFailedError:
                node.directory_failed()
            except StorageFullError as error:
                node.log.warn(f"housekeeping {name}", f"node {node.node_id}: {name}: {error}")
            finally:
                arm(interval_ms() if callable(interval_ms) else interval_ms)

        def begin() -> None:
            if is_needed():
                node.spawn(run())
            else:
                arm(interval_ms() if callable(interval_ms) else interval_ms)

        def arm(delay_ms: int) -> None:
            if not self._is_stopped:
                self._timers[name] = self._call_together(max(1, delay_ms), begin)

        arm(first_ms)

    async def apply_retention(self) -> None:
        """Deletes segments beyond the age or size limits of retention, and forgets idle producer ids."""
        node = self._node
        producer_ids = 0
        await self._forget_idle_producers()
        for partition in list(self._partitions):
            await node.pauses.pause()
            if partition.is_offline or partition.is_deleted:
                continue
            producer_ids += len(partition.log.producer_state.entries)
            try:
                deleted = partition.log.delete_old_segments(node.clock.now_ms(), partition.high_watermark)
            except StorageFailedError:
                node.directory_failed()  # continues with the logs in other directories
                continue
            if deleted:
                self._partitions.touched[partition.number] = partition
                node.log.info(
                    "retention",
                    f"node {node.node_id}: {partition.topic_partition}: retention deleted segments: {len(deleted)}, "
                    f"the log starts at offset {partition.log.log_start_offset}",
                    about=str(partition.topic_partition),
                )
        node.telemetry.set("kafka.server:type=ReplicaManager,name=ProducerIdCount", producer_ids)

    async def _forget_idle_producers(self) -> None:
        now_ms = self._node.clock.now_ms()
        for partition in list(self._partitions):
            while partition.log.forget_idle_producers(now_ms):
                await self._node.pauses.pause_long()
            await self._node.pauses.pause()

    async def flush_what_is_due(self) -> None:
        """Requests flushes that are due by `flush.ms`, by `flush.messages` above 1, or for sealed segments."""
        node = self._node
        now_ms = node.clock.now_ms()
        for partition in list(self._partitions.touched.values()):
            await node.pauses.pause()
            if partition.is_offline or partition.is_deleted:
                self._partitions.touched.pop(partition.number, None)
                continue
            log = partition.log
            if log.is_flush_due(now_ms):
                self._partitions.flusher.request(partition)
            elif self._is_settled(partition):
                self._partitions.touched.pop(partition.number, None)

    def _is_settled(self, partition: Partition) -> bool:
        """Whether nothing will be due before the next append, and the checkpoint has the current end."""
        log = partition.log
        has_no_deadline = log.settings.flush_ms >= 1 << 62 or log.recovery_point >= log.log_end_offset
        return has_no_deadline and self._checkpointed.get(partition.number) == partition.high_watermark

    async def write_checkpoints(self) -> None:
        """Writes recovery points, log start offsets and high watermarks if any moved. First starts partitions again
        that found the disk full."""
        self._partitions.start_again()
        moved = {
            number: partition.high_watermark
            for number, partition in self._partitions.touched.items()
            if self._checkpointed.get(number) != partition.high_watermark
        }
        if not self._partitions.checkpoints.take_due() and not moved:
            return
        await self._partitions.checkpoints.write(self._partitions.high_watermarks())
        self._checkpointed.update(moved)

    @property
    def cleaner(self) -> Cleaner:
        """Created at first use: a node without compacted topics does not need it."""
        if self._cleaner is None:
            from moldau.shell.broker.logs.cleaner import Cleaner

            self._cleaner = Cleaner(self._node, self._partitions, self._moves)
        return self._cleaner

    async def clean_logs(self) -> None:
        """Cleans one log after the other while any is due."""
        if any(partition.log.settings.is_compacted for partition in self._partitions):
            is_more = True
            while is_more and not self._is_stopped:
                is_more = await self.cleaner.clean_one()

    async def purge_deleted(self) -> None:
        """Removes the files of logs and segments that were deleted `file.delete.delay.ms` ago."""
        node = self._node
        now_ms = node.clock.now_ms()
        for directory in self._partitions.logs:
            if directory.health.is_offline:
                continue
            for name in directory.take_purgeable(now_ms):
                await self._remove(directory.health, partial(directory.disk.remove_tree, name))
        for partition in list(self._partitions):
            await node.pauses.pause()
            if not partition.is_offline and not partition.is_deleted:
                log = partition.log
                paths = log.take_purgeable(now_ms)
                if paths:
                    await self._remove(log.health, partial(remove_files, log.disk, paths))
        live = {partition.number: None for partition in self._partitions}
        self._checkpointed = {number: value for number, value in self._checkpointed.items() if number in live}

    async def _remove(self, health: DirectoryHealth, work: Callable[[], None]) -> None:
        """Runs `work`, which removes files. If that fails, the directory goes offline; the others continue."""
        try:
            await self._node.workers.run(work)
        except StorageFailedError as error:
            health.fail(error)
            self._node.directory_failed()
