"""Moves partitions from one log directory to another (KIP-113), one after the other, while they are served.

The move appends batches to a copy of the log, in pieces of PIECE_BYTES, about a millisecond each. It pauses after each
piece, and keeps to `replica.alter.log.dirs.io.max.bytes.per.second`. Reading the last piece, appending it and swapping
the names happen in one turn of the loop: no append can come between.

Before that turn the metadata log holds the new directory (KIP-858), as from then on only the copy gets records. If the
new directory is offline at a start, the partition is offline too, and is not served without those records.

The old directory is removed once the new one is durable; a crash before that leaves both (see
core/log/directories/duplicates). A move without room for that waits, and later moves go first: one of them may make
room.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.directories.moving import FutureLog
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, ProtocolError, StorageFailedError, StorageFullError
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.types import Offset, TopicPartition

PIECE_BYTES = 1 << 20
RETRY_S = 0.5
"""The delay before a disk without room is tried again."""
THROTTLE_LOOK_MS = 100
"""The most time until a throttled move sees a changed rate, or that it was cancelled."""


class ReplicaMoves:
    """Used from the broker's loop only. `futures`: the unfinished moves, which DescribeLogDirs shows."""

    def __init__(self, node: OwnNode, partitions: Partitions) -> None:
        self._node = node
        self._partitions = partitions
        self.futures: dict[TopicPartition, FutureLog] = {}
        self._waiting: OrderedDict[int, tuple[Partition, FutureLog]] = OrderedDict()
        """By partition number: a request may move thousands of partitions, of which each may be waiting already."""
        self._is_running = False
        self._settling: dict[int, None] = {}
        self._held_up: dict[int, None] = {}
        """Partitions whose move had no room to become durable. Their next move waits, as its copy may need the name of
        the old directory."""

    def is_settling(self, partition: Partition) -> bool:
        """Whether `partition` is moving, or has moved and still has its old directory. It must not be compacted, as a
        start after a crash compares the two."""
        return partition.number in self._settling

    def move(self, partition: Partition, target: LogDirectory) -> None:
        """Starts to move `partition` to `target`, and ends an unfinished move of the partition."""
        topic_partition = partition.topic_partition
        future = self.futures.get(topic_partition)
        if future is not None and future.target is target and future.source is partition.log:
            return  # the same move waits or runs; another source means a deleted partition of this name
        self._waiting.pop(partition.number, None)
        if future is not None:
            del self.futures[topic_partition]
        if self._partitions.logs.directory_of(topic_partition) is target:
            return
        source_id = self._partitions.logs.id_of(topic_partition)
        future = FutureLog(partition.log, source_id, target, random_uuid(self._node.random))
        self.futures[topic_partition] = future
        self._waiting[partition.number] = partition, future
        self._begin()

    def log_cut(self, partition: Partition) -> None:
        """A follower's log was truncated: restarts its move, as copied batches may have been replaced."""
        future = self.futures.pop(partition.topic_partition, None)
        if future is not None:
            self.move(partition, future.target)

    def _begin(self) -> None:
        if self._next() is not None and not self._is_running:
            self._is_running = True
            self._node.spawn(self._run())

    def _next(self) -> int | None:
        """The number of the partition to move next; None: no move can start."""
        return next((number for number in self._waiting if number not in self._held_up), None)

    async def _run(self) -> None:
        try:
            while (number := self._next()) is not None:
                partition, future = self._waiting.pop(number)
                if self._is_wanted(partition, future):
                    await self._move(partition, future)
                else:
                    self._forget(future)
        except asyncio.CancelledError:
            self._waiting.clear()
            raise
        finally:
            # even after a bug in one move, the others continue
            self._is_running = False
            self._begin()

    def _forget(self, future: FutureLog) -> None:
        if self.futures.get(future.topic_partition) is future:
            del self.futures[future.topic_partition]

    async def _move(self, partition: Partition, future: FutureLog) -> None:
        topic_partition, target = partition.topic_partition, future.target
        is_noted = is_done = is_held = False
        self._settling[partition.number] = None
        try:
            if target.has_stale_offsets(topic_partition):
                await self._partitions.checkpoints.write(self._partitions.high_watermarks(), needed=target)
            future.begin()
            while self._is_wanted(partition, future) and not is_done:
                # on hold, requests may wait for a flush: the little that is left is copied without throttling
                if not await self._copy_piece(partition, future, is_throttled=not is_held):
                    continue
                if not is_noted:
                    is_noted = True  # even if only the answer is lost, the metadata may name `target`
                    await self._partitions.note_directory(partition, target)
                    await self._flush(future)
                elif not is_held:
                    is_held = True
                    await self._partitions.flusher.hold(partition)
                elif not future.is_as_durable:
                    await self._flush(future)
                else:
                    self._swap(partition, future)
                    is_done = True
        except (StorageFailedError, StorageFullError, KafkaError, ProtocolError) as error:
            self._node.log.error("move", f"{topic_partition} stays in its log directory: {error}")
            if isinstance(error, StorageFailedError):
                self._node.directory_failed()
        finally:
            if is_held:
                self._partitions.flusher.end_hold(partition)
            self._forget(future)
            if not is_done:
                del self._settling[partition.number]
                future.abandon()
                if is_noted and (source := self._partitions.logs.by_id(future.source_directory_id)) is not None:
                    self._partitions.stays_in(partition, source)
        if is_done and not await self._is_settled(partition, future):
            self._held_up[partition.number] = None
            self._node.spawn(self._settle(partition, future))
        elif not is_done and not target.health.is_offline:
            try:
                await self._node.workers.run(lambda: target.disk.remove_tree(future.directory))
            except StorageFailedError as error:
                # the next start removes it; the next moves continue
                self._node.log.error("move", f"the unfinished copy of {topic_partition} cannot be removed: {error}")

    async def _flush(self, future: FutureLog) -> None:
        """Makes the copy durable. Raises StorageFullError, StorageFailedError."""
        plan = future.unflushed()
        if plan is not None:
            await self._node.workers.run(plan.run)
            future.mark_flushed(plan, self._node.clock.now_ms())

    def _is_wanted(self, partition: Partition, future: FutureLog) -> bool:
        is_asked = self.futures.get(partition.topic_partition) is future
        is_servable = not partition.is_deleted and not partition.is_offline
        return is_asked and is_servable and not future.target.health.is_offline

    async def _copy_piece(self, partition: Partition, future: FutureLog, *, is_throttled: bool) -> bool:
        """Copies one piece. True after the last: until the next turn of the loop the copy has the whole log."""
        node, log = self._node, partition.log
        begin_ms = node.clock.monotonic_ms()
        max_bytes = min(PIECE_BYTES, max(1, self._node.settings.view.replica_alter_log_dirs_io_max_bytes_per_second))
        read = log.read(Offset(future.next_offset), max_bytes=max_bytes, end_offset=log.log_end_offset)
        if read.cold is not None:
            await node.workers.run(read.cold.run)
            if not self._is_wanted(partition, future):
                return False
            # the page cache may have dropped it again
            read = log.read(
                Offset(future.next_offset), max_bytes=max_bytes, end_offset=log.log_end_offset, may_wait=True
            )
        now_ms = node.clock.now_ms()
        if read.records:
            future.append(read.records, now_ms)
        if read.records and future.offset_lag > 0:
            await node.pauses.pause_long()
            if is_throttled:
                await self._wait_for_rate(partition, future, begin_ms, len(read.records))
            return False
        return True

    async def _wait_for_rate(self, partition: Partition, future: FutureLog, begin_ms: int, byte_count: int) -> None:
        """Waits until the bytes copied since `begin_ms` are within the current rate. A rate of 0 stops the move."""
        clock = self._node.clock
        while self._is_wanted(partition, future):
            rate = self._node.settings.view.replica_alter_log_dirs_io_max_bytes_per_second
            left_ms = begin_ms + 1000 * byte_count / rate - clock.monotonic_ms() if rate else THROTTLE_LOOK_MS
            if left_ms < 1:
                return
            await asyncio.sleep(min(left_ms, THROTTLE_LOOK_MS) / 1000)

    def _swap(self, partition: Partition, future: FutureLog) -> None:
        """Replaces the log by the copy."""
        node, topic_partition = self._node, partition.topic_partition
        old = self._partitions.logs.directory_of(topic_partition)
        log = future.take_over(node.clock.now_ms())
        if old is not None:
            if topic_partition in old.cleaned_offsets:
                future.target.cleaned_offsets[topic_partition] = old.cleaned_offsets[topic_partition]
            old.detach(topic_partition)
        partition.move_to(log)
        self._partitions.moved()
        node.log.info(
            "move", f"node {node.node_id}: {topic_partition} lies in {future.target.path} now, {log.size_bytes} bytes"
        )

    async def _settle(self, partition: Partition, future: FutureLog) -> None:
        """Retries until there is room."""
        is_settled = False
        try:
            while not is_settled:
                await asyncio.sleep(RETRY_S)
                is_settled = await self._is_settled(partition, future)
        except asyncio.CancelledError:
            self._waiting.clear()
            raise
        finally:
            del self._held_up[partition.number]
            self._begin()

    async def _is_settled(self, partition: Partition, future: FutureLog) -> bool:
        """Removes the old directory once the new one would survive a crash of the machine. Keeps it if the new one
        fails. False: there is no room to make the new one durable."""
        node, topic_partition = self._node, partition.topic_partition
        if not partition.is_deleted and not await self._is_durable(partition, future.target):
            return partition.is_offline
        old = self._partitions.logs.by_id(future.source_directory_id)
        if old is None or old.health.is_offline:
            return True
        try:
            old.discard(topic_partition, delete_id=random_uuid(node.random), now_ms=node.clock.now_ms())
            # otherwise it may reappear after a crash, long after the new one was compacted
            await node.workers.run(partial(old.disk.flush_directory, ""))
        except StorageFailedError as error:
            old.health.fail(error)
            self._node.directory_failed()
            return True
        del self._settling[partition.number]
        return True

    async def _is_durable(self, partition: Partition, target: LogDirectory) -> bool:
        """Makes the new log durable, with its start offset (deleted records must not come back) and its cleaned offset
        (otherwise holes of compaction count as damage after a crash). False if there is no room, or the directory
        fails. If the old directory is full, this makes room there."""
        end_offset = Offset(partition.log.log_end_offset)
        self._partitions.flusher.request(partition)
        try:
            await self._partitions.checkpoints.save_cleaned_offsets(target)
            await self._partitions.flusher.wait(partition, end_offset)
            await self._partitions.flusher.save_log_start_offsets([partition], target)
        except (KafkaError, StorageFullError):
            return False
        return not partition.is_offline
