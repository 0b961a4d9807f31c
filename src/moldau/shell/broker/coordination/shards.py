"""The coordinators of one internal topic: one machine and its runtime for each partition that this broker leads.

A shard loads from its log at its first use, with pauses for other work, and requests wait for it. It lives while this
broker leads its partition in one epoch. The next leader loads its shard from its own log.

The records of a request are appended as one batch. Its reply leaves when the high watermark has passed all records that
it depends on. With a single replica that is at once, unless `flush.messages=1`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from moldau.core.coordination.host import CoordinatorHost
from moldau.core.coordination.machine import Counts, Machine, Record, Request, Response, State
from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.metadata.image import NO_LEADER, MetadataDelta
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, StorageFailedError, kafka_error
from moldau.shell.broker.coordination.times import LoadTimes
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.shell.coordination.partition_log import PartitionLog
from moldau.shell.coordination.runtime import MachineRuntime
from moldau.types import Buffer
from moldau.wire.records.compression import Compression

CREATE_TIMEOUT_S = 15.0


class ShardLog(PartitionLog[Record]):
    """The log of one shard, flushed as its topic's settings say. `contents`: a word for messages, such as "groups"."""

    def __init__(
        self,
        node: OwnNode,
        partition: Partition,
        flusher: Flusher,
        high_watermark_moved: Callable[[Partition], None],
        contents: str,
        encode_record: Callable[[Record], tuple[bytes, bytes | None]],
        decode_record: Callable[[Buffer | None, Buffer | None], Record | None],
        compression: Compression = Compression.NONE,
    ) -> None:
        super().__init__(partition, node.workers, node.pauses, encode_record, decode_record, compression)
        self._node = node
        self._flusher = flusher
        self._high_watermark_moved = high_watermark_moved
        self.contents = contents

    def applied(self, records: tuple[Record, ...], counts: Counts) -> None:
        """The state has the appended records. They are committed now, or after a flush, or when followers have them."""
        partition = self.partition
        if partition.waits_for_flush:
            self._flusher.request(partition)
        # a flush that ended while the records were applied may have committed them, and no later event reports that
        is_committed = not partition.waits_for_flush or partition.high_watermark >= self.end_offset
        if partition.has_followers or is_committed:
            self._high_watermark_moved(partition)

    def failed(self, error: StorageFailedError) -> None:
        """The log's directory has failed: all logs in it go offline."""
        self._node.directory_failed()

    def stopped(self, reason: str) -> None:
        self._node.log.error(f"{self.contents} of {self.partition.topic_partition}", reason)

    def unforeseen(self, error: Exception) -> None:
        place = self.partition.topic_partition
        self._node.log.unforeseen(f"coordinator {type(error).__name__}", f"{place}: a decision failed", error)


class Shard(MachineRuntime[State, Request, Response, Record]):
    """One partition of the topic with its machine."""

    def __init__(
        self, node: OwnNode, log: ShardLog[Record], machine: Machine[State, Request, Response, Record]
    ) -> None:
        self.partition = log.partition
        self.leader_epoch = log.partition.leader_epoch
        self.log = log
        super().__init__(
            CoordinatorHost(machine, log.partition.topic_partition),
            log,
            loop=node.loop,
            clock=node.clock,
            pauses=node.pauses,
            spawn=node.spawn,
        )

    @property
    def is_left_out_of_lists(self) -> bool:
        """Whether a list leaves this shard out: another broker leads its partition now, or its log cannot be read
        (which the event log says). Any other error of a shard fails the list, and the client asks again."""
        return self.closed is not None or self.host.stopped is not None


ShardT = TypeVar("ShardT", bound="Shard[Any, Any, Any, Any]")


class Shards(Generic[ShardT]):
    """All shards of this broker, by partition of `topic`."""

    def __init__(
        self,
        node: OwnNode,
        partitions: Partitions,
        topic: str,
        create_topic: Callable[[str], Coroutine[Any, Any, None]],
        make: Callable[[Partition], ShardT],
    ) -> None:
        self.topic = topic
        self._node = node
        self._partitions = partitions
        self._create_topic = create_topic
        self._make = make
        self._shards: dict[int, ShardT] = {}
        self._by_number: dict[int, ShardT] = {}
        self._creating: asyncio.Task[None] | None = None
        self.load_lock = asyncio.Lock()
        """Held by the shard that loads its log."""
        self.load_times = LoadTimes()

    @property
    def is_ready(self) -> bool:
        """Whether this broker serves the topic. The metadata names it some turns of the loop earlier."""
        return self.topic in self._partitions.image.topics_by_name and (self._creating is None or self._creating.done())

    async def ensure_topic(self) -> None:
        """Creates the topic if it is missing. Concurrent callers share one creation. Raises KafkaError."""
        if self.is_ready:
            return
        creating = self._creating
        if creating is None or creating.done():
            creating = self._creating = self._node.loop.create_task(self._create_topic(self.topic))
            # retrieves the error, also if no caller waits any more: it need not be logged
            creating.add_done_callback(lambda task: task.cancelled() or task.exception())
        # `self._creating` may be the task of a later caller by then
        done, _ = await asyncio.wait((creating,), timeout=CREATE_TIMEOUT_S)
        if not done:
            raise kafka_error("COORDINATOR_NOT_AVAILABLE")
        creating.result()

    def shard_for(self, key: str) -> ShardT:
        """The shard that coordinates the group or transactional id `key`; it may still be loading. Raises
        NOT_COORDINATOR while the topic does not exist, as Kafka does."""
        topic = self._partitions.image.topics_by_name.get(self.topic)
        if topic is None:
            raise kafka_error("NOT_COORDINATOR")
        return self.shard(partition_for_group(key, len(topic.partitions)))

    def leader_for(self, key: str) -> int:
        """The broker that coordinates `key`; -1: none at the moment, or the topic does not exist."""
        topic = self._partitions.image.topics_by_name.get(self.topic)
        return NO_LEADER if topic is None else topic.partitions[partition_for_group(key, len(topic.partitions))].leader

    def all_shards(self) -> list[ShardT]:
        """One for each partition of the topic that this node leads and serves. Leaves out partitions whose log is
        offline or that just move to another broker, as Kafka does: the others are still listed."""
        shards = []
        for index in self.indexes():
            with contextlib.suppress(KafkaError):
                shards.append(self.shard(index))
        return shards

    def indexes(self) -> list[int]:
        """The indexes of the topic's partitions that this node leads."""
        topic = self._partitions.image.topics_by_name.get(self.topic)
        partitions = {} if topic is None else topic.partitions
        return [index for index, partition in partitions.items() if partition.leader == self._node.node_id]

    def shard(self, index: int) -> ShardT:
        """The shard of a partition. Raises NOT_COORDINATOR, also if another broker leads the partition."""
        shard = self._shards.get(index)
        if shard is not None:
            if shard.closed is not None:
                raise kafka_error("NOT_COORDINATOR")
            return shard
        try:
            partition = self._partitions.find(self.topic, index)
        except KafkaError:
            raise kafka_error("NOT_COORDINATOR") from None
        if partition.is_offline or partition.leader is None:
            raise kafka_error("NOT_COORDINATOR")
        shard = self._make(partition)
        self._shards[index] = self._by_number[partition.number] = shard
        due_ms = self._node.clock.monotonic_ms()
        if partition.log.log_end_offset == partition.log.log_start_offset:
            # nothing to load: the first request of a new cluster need not wait for a turn of the loop
            shard.begin(self._partitions.image)
            self.load_times.add(due_ms, 0)
        else:
            self._node.spawn(self._load(shard, due_ms))
        return shard

    async def _load(self, shard: ShardT, due_ms: int) -> None:
        # one shard at a time, as each holds a part of its log in memory
        async with self.load_lock:
            await shard.load(shard.log.replay, self._partitions.image, shard.log.contents)
        if shard.loading is None and shard.host.stopped is None:
            now_ms = self._node.clock.monotonic_ms()
            self.load_times.add(now_ms, now_ms - due_ms)

    def recent_load_times(self) -> tuple[float, float]:
        """The average and the maximum load time of the last minute, in milliseconds; NaN if no shard was loaded."""
        return self.load_times.recent(self._node.clock.monotonic_ms())

    # -- changes of partitions

    def partition_committed(self, partition: Partition) -> None:
        """The high watermark of this partition has moved: sends the answers that waited for it."""
        shard = self._by_number.get(partition.number)
        if shard is not None:
            shard.committed(partition.high_watermark)

    def end_leaderships(self, delta: MetadataDelta) -> None:
        """Ends the shards whose partition another broker leads, or led meanwhile. Their clients look for a coordinator
        again."""
        for place in delta.partitions:
            shard = self._shards.get(place.partition) if place.topic == self.topic else None
            if shard is not None and not shard.partition.is_led_in(shard.leader_epoch):
                del self._shards[place.partition], self._by_number[shard.partition.number]
                shard.close(kafka_error("NOT_COORDINATOR"))

    def begin_leaderships(self, delta: MetadataDelta) -> None:
        """Starts to load the shards whose partition this node leads now: offsets and transactions expire also if no
        client asks. Leaves out shards whose log is offline, which is logged elsewhere."""
        for place, partition in delta.partitions.items():
            if place.topic == self.topic and partition.leader == self._node.node_id:
                with contextlib.suppress(KafkaError):
                    self.shard(place.partition)

    def directory_failed(self) -> None:
        """Ends the shards whose log is offline. Their clients look for a coordinator again."""
        for shard in self._shards.values():
            if shard.partition.is_offline:
                shard.close(kafka_error("NOT_COORDINATOR"))

    def close(self, error: KafkaError) -> None:
        """Ends all shards; a later request loads them again."""
        shards, self._shards, self._by_number = self._shards, {}, {}
        for shard in shards.values():
            shard.close(error)
