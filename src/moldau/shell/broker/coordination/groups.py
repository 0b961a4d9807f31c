"""The group coordinators of this broker: one shard of the group machine per partition of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.core.coordination.machine import Counts
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.counters import OFFSET_COMMITS
from moldau.core.groups.machine import GroupMachine
from moldau.core.groups.records import (
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
from moldau.core.transactions.state import TRANSACTIONS_V2
from moldau.errors import ERROR_CODES, InvariantError, KafkaError, MoldauError, kafka_error
from moldau.shell.broker.coordination.shards import Shard, ShardLog, Shards
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.telemetry import BOUND_REACHED
from moldau.types import ProducerEpoch, ProducerId, TopicPartition
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import EndTransactionMarker

_INVALID_TXN_STATE = ERROR_CODES["INVALID_TXN_STATE"]
_UNKNOWN_SERVER_ERROR = ERROR_CODES["UNKNOWN_SERVER_ERROR"]
_NOT_LEADER_OR_FOLLOWER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
_NOT_FOR_MARKERS = (
    ERROR_CODES["COORDINATOR_LOAD_IN_PROGRESS"],
    ERROR_CODES["COORDINATOR_NOT_AVAILABLE"],
    ERROR_CODES["NOT_COORDINATOR"],
    # not translated by Apache Kafka, whose coordinator then forgets all markers of the request
    _UNKNOWN_SERVER_ERROR,
)
"""Apache Kafka's transaction coordinator does not expect these codes for a partition. It would never send the marker
again, and the transaction would hang. As in Kafka, the answer has NOT_LEADER_OR_FOLLOWER instead, after which the
coordinator looks up the leader and tries again."""


class GroupLog(ShardLog[GroupRecord]):
    """One partition of `__consumer_offsets`."""

    def __init__(
        self,
        node: OwnNode,
        partition: Partition,
        flusher: Flusher,
        high_watermark_moved: Callable[[Partition], None],
    ) -> None:
        codec = encode_group_record, decode_group_record
        compression = Compression(node.settings.view.offsets_topic_compression_codec)
        super().__init__(node, partition, flusher, high_watermark_moved, "groups", *codec, compression)

    def applied(self, records: tuple[GroupRecord, ...], counts: Counts) -> None:
        """Counts the written records."""
        telemetry = self._node.telemetry
        commits = sum(1 for record in records if isinstance(record, OffsetRecord) and record.value is not None)
        if commits:
            telemetry.count(OFFSET_COMMITS, amount=commits)
        for name, amount in counts:
            telemetry.count(name, amount=amount)
        super().applied(records, counts)


class Verification(msgspec.Struct):
    """Commits of one producer whose transaction is being verified: how many wait, and how many markers, possibly of
    this transaction, have come meanwhile."""

    waiting: int = 0
    markers: int = 0


class GroupShard(Shard[GroupsState, AnyGroupRequest, GroupResponse, GroupRecord]):
    """One partition of `__consumer_offsets` with its machine."""

    def __init__(self, node: OwnNode, log: GroupLog, memory: MemberMemory) -> None:
        self.verifications: dict[ProducerId, Verification] = {}
        super().__init__(node, log, GroupMachine(node.settings.view, node.random, memory))

    def close(self, error: KafkaError) -> None:
        if self.closed is None:
            for group in self.host.state.groups.values():
                group.dissolve()
        super().close(error)


class Coordinators(Shards[GroupShard]):
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
        """`memory_bytes`: the most memory for the members of all groups."""

        def make(partition: Partition) -> GroupShard:
            log = GroupLog(node, partition, flusher, high_watermark_moved)
            return GroupShard(node, log, self.member_memory)

        super().__init__(node, partitions, OFFSETS_TOPIC, create_topic, make)
        self.member_memory = MemberMemory(
            limit_bytes=memory_bytes,
            bound_reached=lambda setting: node.telemetry.count(BOUND_REACHED, setting),
        )

    async def ask(self, group_id: str, request: GroupRequest, shard: GroupShard | None = None) -> GroupResponse:
        """The answer of the group's coordinator, or of `shard`.

        Decides in the first step, in the order of the calls, unless the shard is loading. Never raises KafkaError:
        returns a response with the error.
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
        """As `ask`, if the group's partition is in the producer's transaction: the log has an open one, or `verify`
        returns 0 for the partition. Otherwise answers with the error that `verify` returned."""
        try:
            shard = self.shard_for(group_id)
            # before the verification: a marker may come while the shard loads, and must not overtake the request
            await shard.loaded()
            producers = shard.partition.log.producer_state
            is_open = shard.is_idle and producers.has_open_transaction(producer_id, producer_epoch)
            code = 0 if is_open else await self._verified(shard, producer_id, verify)
            if not code:
                return await shard.ask(request)
        except InvariantError:
            raise
        except MoldauError as error:
            code = append_error(error, request)
        return await self._node.pauses.finish(refusal(request, code))

    async def _verified(
        self, shard: GroupShard, producer_id: ProducerId, verify: Callable[[TopicPartition], Awaitable[int]]
    ) -> int:
        """Verifies the transaction. A marker that comes meanwhile may have ended it: offsets committed after the marker
        would never be committed or dropped (the verification guard of KIP-890)."""
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
        """Ends the producer's transaction in this partition of `__consumer_offsets`.

        Returns 0 once the marker is committed. With any other code the marker is missing from the log, or its fate is
        unknown: 6 if the shard is not here or cannot serve, 47 and 52 for an earlier epoch of the producer or the
        transaction coordinator, 7 if too many requests wait.
        """
        request = EndTransaction(marker, producer_id, producer_epoch, transaction_version)
        try:
            shard = self.shard(index)
            await shard.loaded()
            verification = shard.verifications.get(producer_id)
            if verification is not None and transaction_version < TRANSACTIONS_V2:
                # in v2 the log rejects an earlier epoch, and a marker of this epoch belongs to the next transaction
                verification.markers += 1
            await shard.ask(request)
        except InvariantError:
            raise
        except MoldauError as error:
            code = error.code if isinstance(error, KafkaError) else _UNKNOWN_SERVER_ERROR
            return _NOT_LEADER_OR_FOLLOWER if code in _NOT_FOR_MARKERS else code
        return 0

    # -- changes of partitions

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """Ends and starts shards as leaderships change. Removes the offsets of deleted topics, also in shards that are
        not loaded."""
        self.end_leaderships(delta)
        # offsets expire in idle groups too, as they would at the earlier leader
        self.begin_leaderships(delta)
        names = tuple(topic.name for topic in delta.deleted_topics.values())
        if OFFSETS_TOPIC in names:
            self.close(kafka_error("NOT_COORDINATOR"))
        elif names:
            for index in self.indexes():
                # also unused shards: at their first request another topic may have the name
                with contextlib.suppress(KafkaError):
                    self.shard(index).metadata_changed(self._partitions.image, delta)
