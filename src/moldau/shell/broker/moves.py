"""Moving partitions from one log directory to another (KIP-113), one after the other, while they are served.

Batches go to the copy in pieces of PIECE_BYTES, about a millisecond each, between which the event loop turns. Reading
the last piece, appending it and the change of names happen in one turn, so that no append can come between. The old
directory goes once the new one is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from moldau.core.log.moving import FutureLog
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, StorageFailedError, StorageFullError
from moldau.types import Offset, TopicPartition

if TYPE_CHECKING:
    from moldau.core.log.directory import LogDirectory
    from moldau.shell.broker.role import Broker

PIECE_BYTES = 1 << 20


class ReplicaMoves:
    """Used from the broker's loop only. `futures`: the moves under way, for who describes them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.futures: dict[TopicPartition, FutureLog] = {}
        self._waiting: deque[tuple[Partition, LogDirectory]] = deque()
        self._is_running = False

    def move(self, partition: Partition, target: LogDirectory) -> None:
        """Begins to move `partition` to `target`; another move of it that is under way ends."""
        topic_partition = partition.topic_partition
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not partition)
        future = self.futures.get(topic_partition)
        if future is not None and future.target is target:
            return
        if future is not None:
            del self.futures[topic_partition]
        if self._broker.partitions.logs.directory_of(topic_partition) is target:
            return
        self._waiting.append((partition, target))
        if not self._is_running:
            self._is_running = True
            self._broker.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                partition, target = self._waiting.popleft()
                if not partition.is_deleted and not partition.is_offline and not target.health.is_offline:
                    await self._move(partition, target)
        finally:
            self._is_running = False

    async def _move(self, partition: Partition, target: LogDirectory) -> None:
        broker, topic_partition = self._broker, partition.topic_partition
        future = self.futures[topic_partition] = FutureLog(
            partition.log, broker.partitions.logs.id_of(topic_partition), target, random_uuid(broker.random)
        )
        is_done = False
        try:
            future.begin()
            while self._is_wanted(partition, future) and not is_done:
                is_done = await self._copy_piece(partition, future)
        except (StorageFailedError, StorageFullError, KafkaError) as error:
            broker.log.error("move", f"{topic_partition} stays in its log directory: {error}")
            if isinstance(error, StorageFailedError):
                broker.directory_failed()
        finally:
            if self.futures.get(topic_partition) is future:
                del self.futures[topic_partition]
            if not is_done:
                future.abandon()
        if is_done:
            await self._make_durable(partition, future)
        elif not target.health.is_offline:
            try:
                await broker.workers.run(lambda: target.disk.remove_tree(future.directory))
            except StorageFailedError as error:
                # the next start removes it; the moves behind this one go on
                broker.log.error("move", f"what was copied of {topic_partition} cannot be removed: {error}")

    def _is_wanted(self, partition: Partition, future: FutureLog) -> bool:
        is_asked = self.futures.get(partition.topic_partition) is future
        is_servable = not partition.is_deleted and not partition.is_offline
        return is_asked and is_servable and not future.target.health.is_offline

    async def _copy_piece(self, partition: Partition, future: FutureLog) -> bool:
        """Copies one piece, and puts the copy in the place of the log if that was the last: then True."""
        broker, log = self._broker, partition.log
        read = log.read(Offset(future.next_offset), max_bytes=PIECE_BYTES, end_offset=log.log_end_offset)
        if read.cold is not None:
            await broker.workers.run(read.cold.run)
            if not self._is_wanted(partition, future):
                return False
            # the page cache need not have kept it
            read = log.read(
                Offset(future.next_offset), max_bytes=PIECE_BYTES, end_offset=log.log_end_offset, may_wait=True
            )
        now_ms = broker.clock.now_ms()
        if read.records:
            future.append(read.records, now_ms)
        if read.records and future.offset_lag > 0:
            await asyncio.sleep(0)
            return False
        self._swap(partition, future, now_ms)
        return True

    def _swap(self, partition: Partition, future: FutureLog, now_ms: int) -> None:
        broker, topic_partition = self._broker, partition.topic_partition
        old = broker.partitions.logs.directory_of(topic_partition)
        log = future.take_over(now_ms)
        if old is not None:
            old.detach(topic_partition)
        partition.log = log
        partition.settings_changed()
        broker.partitions.moved(partition, future.target)
        broker.log.info(
            "move", f"node {broker.node_id}: {topic_partition} lies in {future.target.path} now, {log.size_bytes} bytes"
        )

    async def _make_durable(self, partition: Partition, future: FutureLog) -> None:
        """The old directory goes only when the new one would survive the machine. It stays where the new one fails."""
        broker, topic_partition = self._broker, partition.topic_partition
        end_offset = Offset(partition.log.log_end_offset)
        broker.flusher.request(partition)
        try:
            await broker.flusher.wait(partition, end_offset)
            # records that a client deleted must not come back with the copy
            await broker.checkpoints.save_log_start_offsets()
        except (KafkaError, StorageFullError):
            return
        old = broker.partitions.logs.by_id(future.source_directory_id)
        if old is None or old.health.is_offline or broker.partitions.logs.directory_of(topic_partition) is old:
            return
        try:
            old.discard(topic_partition, delete_id=random_uuid(broker.random), now_ms=broker.clock.now_ms())
        except StorageFailedError:
            broker.directory_failed()
