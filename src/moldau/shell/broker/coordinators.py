"""The group coordinators of this broker: one runtime of the group machine per partition of `__consumer_offsets`.

A shard is loaded from its log at its first use, with pauses that let other work through; requests wait for it. What a
request leads to is appended as one batch; replies leave when the high watermark has passed what they rest on, which is
at once unless `flush.messages=1`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.core.coordination.host import CoordinatorHost
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.groups.machine import GroupMachine
from moldau.core.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    OffsetRecord,
    decode_group_record,
    encode_group_record,
)
from moldau.core.groups.refusals import append_error, refusal
from moldau.core.groups.requests import AnyGroupRequest, EndTransaction, GroupRequest, GroupResponse
from moldau.core.groups.state import GroupsState
from moldau.core.metadata.image import MetadataDelta
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, InvariantError, KafkaError, MoldauError, StorageFailedError, kafka_error
from moldau.shell.broker.flusher import Flusher
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.shell.coordination.partition_log import PartitionLog
from moldau.shell.coordination.runtime import MachineRuntime
from moldau.telemetry import BOUND_REACHED
from moldau.types import ProducerEpoch, ProducerId, TopicPartition
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import EndTransactionMarker

CREATE_TIMEOUT_S = 15.0

OFFSET_COMMITS = "moldau.group:type=GroupCoordinator,name=OffsetCommits"
OFFSET_EXPIRATIONS = "moldau.group:type=GroupCoordinator,name=OffsetExpirations"
OFFSET_DELETIONS = "moldau.group:type=GroupCoordinator,name=OffsetDeletions"
REBALANCES = "moldau.group:type=GroupCoordinator,name=Rebalances"
"""Generations whose assignment stands in the log."""

_INVALID_TXN_STATE = ERROR_CODES["INVALID_TXN_STATE"]
_UNKNOWN_SERVER_ERROR = ERROR_CODES["UNKNOWN_SERVER_ERROR"]


class GroupLog(PartitionLog[GroupRecord]):
    """One partition of `__consumer_offsets`."""

    def __init__(
        self,
        node: OwnNode,
        partition: Partition,
        flusher: Flusher,
        high_watermark_moved: Callable[[Partition], None],
    ) -> None:
        super().__init__(
            partition,
            node.workers,
            node.pauses,
            encode_group_record,
            decode_group_record,
            Compression(node.settings.view.offsets_topic_compression_codec),
        )
        self._node = node
        self._flusher = flusher
        self._high_watermark_moved = high_watermark_moved

    def applied(self, records: tuple[GroupRecord, ...], *, is_of_timer: bool) -> None:
        """Counts what was written."""
        telemetry, partition = self._node.telemetry, self.partition
        commits = sum(1 for record in records if isinstance(record, OffsetRecord) and record.value is not None)
        if commits:
            telemetry.count(OFFSET_COMMITS, amount=commits)
        if commits < len(records):
            ends = sum(1 for record in records if isinstance(record, OffsetRecord) and record.value is None)
            # what a timer ends has expired, or its topic is gone; what a request ends was deleted
            telemetry.count(OFFSET_EXPIRATIONS if is_of_timer else OFFSET_DELETIONS, amount=ends)
            telemetry.count(REBALANCES, amount=sum(1 for record in records if _is_generation(record)))
        if partition.waits_for_flush:
            self._flusher.request(partition)
        else:
            self._high_watermark_moved(partition)

    def failed(self, error: StorageFailedError) -> None:
        """The log's directory has failed, and with it each group whose log stands there."""
        self._node.directory_failed()

    def stopped(self, reason: str) -> None:
        self._node.log.error(f"groups of {self.partition.topic_partition}", reason)

    def unforeseen(self, error: Exception) -> None:
        place = self.partition.topic_partition
        self._node.log.unforeseen(f"coordinator {type(error).__name__}", f"{place}: a decision failed", error)


class Verification(msgspec.Struct):
    """Commits of one producer whose transaction is being verified: their number, and how many markers of this producer
    have come meanwhile."""

    waiting: int = 0
    markers: int = 0


class GroupShard(MachineRuntime[GroupsState, AnyGroupRequest, GroupResponse, GroupRecord]):
    """One partition of `__consumer_offsets` with its machine."""

    def __init__(self, node: OwnNode, log: GroupLog, memory: MemberMemory) -> None:
        self.partition = log.partition
        self.log = log
        self.verifications: dict[ProducerId, Verification] = {}
        machine = GroupMachine(node.settings.view, node.random, memory)
        super().__init__(
            CoordinatorHost(machine, log.partition.topic_partition),
            log,
            loop=node.loop,
            clock=node.clock,
            pauses=node.pauses,
            spawn=node.spawn,
        )

    def close(self, error: KafkaError) -> None:
        if self.closed is None:
            for group in self.host.state.groups.values():
                group.dissolve()
        super().close(error)


class Coordinators:
    """All shards of this broker, by partition of `__consumer_offsets`."""

    def __init__(
        self,
        node: OwnNode,
        partitions: Partitions,
        flusher: Flusher,
        high_watermark_moved: Callable[[Partition], None],
        create_topic: Callable[[str], Coroutine[Any, Any, None]],
        memory_bytes: int,
    ) -> None:
        """`memory_bytes`: what the members of all groups may hold."""
        self._node = node
        self._partitions = partitions
        self._flusher = flusher
        self._high_watermark_moved = high_watermark_moved
        self._create_topic = create_topic
        self._shards: dict[int, GroupShard] = {}
        self._by_number: dict[int, GroupShard] = {}
        self._creating: asyncio.Task[None] | None = None
        self.member_memory = MemberMemory(
            limit_bytes=memory_bytes,
            bound_reached=lambda setting: node.telemetry.count(BOUND_REACHED, setting),
        )
        self.load_turn = asyncio.Lock()
        """Held by the shard that folds its log."""

    @property
    def is_ready(self) -> bool:
        """Whether `__consumer_offsets` is there and served: the metadata names the topic some turns before that."""
        return OFFSETS_TOPIC in self._partitions.image.topics_by_name and (
            self._creating is None or self._creating.done()
        )

    async def ensure_topic(self) -> None:
        """Creates `__consumer_offsets` unless it is there; concurrent callers share one creation. Raises KafkaError."""
        if self.is_ready:
            return
        if self._creating is None or self._creating.done():
            self._creating = self._node.loop.create_task(self._create_topic(OFFSETS_TOPIC))
        done, _ = await asyncio.wait((self._creating,), timeout=CREATE_TIMEOUT_S)
        if not done:
            raise kafka_error("COORDINATOR_NOT_AVAILABLE")
        self._creating.result()

    def shard_for(self, group_id: str) -> GroupShard:
        """The shard that coordinates `group_id`; it may still be loading. Raises NOT_COORDINATOR, as Kafka does while
        the topic is not there."""
        topic = self._partitions.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise kafka_error("NOT_COORDINATOR")
        return self._shard(partition_for_group(group_id, len(topic.partitions)))

    def all_shards(self) -> list[GroupShard]:
        """One for each partition of `__consumer_offsets` that this node leads. Raises KafkaError where it cannot serve
        one."""
        return [self._shard(index) for index in self._indexes()]

    def _shard(self, index: int) -> GroupShard:
        shard = self._shards.get(index)
        if shard is not None:
            if shard.closed is not None:
                raise kafka_error("NOT_COORDINATOR")
            return shard
        try:
            partition = self._partitions.find(OFFSETS_TOPIC, index)
        except KafkaError:
            raise kafka_error("NOT_COORDINATOR") from None
        if partition.is_offline:
            raise kafka_error("NOT_COORDINATOR")
        log = GroupLog(self._node, partition, self._flusher, self._high_watermark_moved)
        shard = GroupShard(self._node, log, self.member_memory)
        self._shards[index] = self._by_number[partition.number] = shard
        if partition.log.log_end_offset == partition.log.log_start_offset:
            # nothing to fold: the first request of a fresh cluster need not wait for a turn of the loop
            shard.begin(self._partitions.image)
        else:
            self._node.spawn(self._load(shard))
        return shard

    async def _load(self, shard: GroupShard) -> None:
        # one shard at a time: each holds a part of its log
        async with self.load_turn:
            await shard.load(shard.log.replay, self._partitions.image, "groups")

    async def ask(self, group_id: str, request: GroupRequest, shard: GroupShard | None = None) -> GroupResponse:
        """The answer of the group's coordinator, or of `shard`.

        Decided in the first step, in the order of the calls, unless the shard is loading. Never raises KafkaError: an
        error becomes the response that says so.
        """
        try:
            shard = shard or self.shard_for(group_id)
            answer = shard.submit(request) if shard.loading is None else await shard.ask(request)
            return await answer if isinstance(answer, asyncio.Future) else answer
        except InvariantError:
            raise
        except MoldauError as error:
            return await self._node.pauses.finish(refusal(request, append_error(error, request)))

    async def ask_in_transaction(
        self,
        group_id: str,
        request: GroupRequest,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        verify: Callable[[TopicPartition], Awaitable[int]],
    ) -> GroupResponse:
        """As `ask`, where the group's partition is in the producer's transaction: one is open in the log, or `verify`
        gives 0 for the partition. Else what it gives is the error."""
        try:
            shard = self.shard_for(group_id)
            # not behind the verification: a marker may come while the shard loads, and must not overtake the request
            await shard.loaded()
            producers = shard.partition.log.producer_state
            is_open = shard.is_idle and producers.has_open_transaction(producer_id, producer_epoch)
            code = 0 if is_open else await self._verified(shard, producer_id, verify)
            if not code:
                answer = shard.submit(request)
                return await answer if isinstance(answer, asyncio.Future) else answer
        except InvariantError:
            raise
        except MoldauError as error:
            code = append_error(error, request)
        return await self._node.pauses.finish(refusal(request, code))

    async def _verified(
        self, shard: GroupShard, producer_id: ProducerId, verify: Callable[[TopicPartition], Awaitable[int]]
    ) -> int:
        """A marker that comes meanwhile may have ended the transaction: what was committed behind the marker would be
        pending for ever (the verification guard of KIP-890)."""
        verification = shard.verifications.setdefault(producer_id, Verification())
        verification.waiting += 1
        markers = verification.markers
        try:
            code = await verify(shard.partition.topic_partition)
        finally:
            verification.waiting -= 1
            if not verification.waiting:
                del shard.verifications[producer_id]
        return code if code or verification.markers == markers else _INVALID_TXN_STATE

    async def end_transaction(
        self,
        index: int,
        marker: EndTransactionMarker,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        transaction_version: int,
    ) -> int:
        """Ends the producer's transaction in this partition of `__consumer_offsets`. 0 once the marker is committed,
        else Kafka's error code, and the marker is not in the log, or nobody knows: 16 where the shard is not here, 47
        and 52 for an earlier epoch of the producer or the transaction coordinator, 7 where too many requests wait."""
        request = EndTransaction(marker, producer_id, producer_epoch, transaction_version)
        try:
            shard = self._shard(index)
            await shard.loaded()
            verification = shard.verifications.get(producer_id)
            if verification is not None:
                verification.markers += 1
            answer = shard.submit(request)
            if isinstance(answer, asyncio.Future):
                await answer
        except InvariantError:
            raise
        except MoldauError as error:
            return error.code if isinstance(error, KafkaError) else _UNKNOWN_SERVER_ERROR
        return 0

    # -- what happens to the partitions

    def partition_committed(self, partition: Partition) -> None:
        """The high watermark of this partition has moved: answers that waited for it go out."""
        shard = self._by_number.get(partition.number)
        if shard is not None:
            shard.committed(partition.high_watermark)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """Offsets of deleted topics go, also of those in shards that nobody has asked yet."""
        names = tuple(topic.name for topic in delta.deleted_topics.values())
        if OFFSETS_TOPIC in names:
            self.close(kafka_error("NOT_COORDINATOR"))
        elif names:
            for index in self._indexes():
                # also those that nobody has asked yet: when they are, the name may be another topic's
                with contextlib.suppress(KafkaError):
                    self._shard(index).metadata_changed(self._partitions.image, delta)

    def _indexes(self) -> list[int]:
        topic = self._partitions.image.topics_by_name.get(OFFSETS_TOPIC)
        return [] if topic is None else list(topic.partitions)

    def directory_failed(self) -> None:
        """Shards whose log is offline end: their clients look for a coordinator again."""
        for shard in self._shards.values():
            if shard.partition.is_offline:
                shard.close(kafka_error("NOT_COORDINATOR"))

    def close(self, error: KafkaError) -> None:
        """Ends all shards; a later request loads them anew."""
        shards, self._shards, self._by_number = self._shards, {}, {}
        for shard in shards.values():
            shard.close(error)


def _is_generation(record: GroupRecord) -> bool:
    return isinstance(record, GroupMetadataRecord) and record.value is not None and bool(record.value.members)
