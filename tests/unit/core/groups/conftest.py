"""A group shard without a broker: the machine on its host over a log that is a list of encoded records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.coordination.host import CoordinatorHost, LoadedRecord, LoadedTransactionEnd
from moldau.core.coordination.machine import NO_REQUEST_ID, Decision, Now, Timer
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.draft import GroupDecision
from moldau.core.groups.machine import GroupMachine
from moldau.core.groups.records import GroupMetadataRecord, GroupRecord, decode_group_record, encode_group_record
from moldau.core.groups.requests import (
    AnyGroupRequest,
    CommitInTransaction,
    EndTransaction,
    GroupMessage,
    GroupRequest,
    GroupResponse,
    TransactionEnded,
)
from moldau.core.groups.state import GroupsState, topics_with_offsets
from moldau.core.metadata.image import MetadataImage, TopicImage
from moldau.errors import MoldauError, kafka_error
from moldau.types import ZERO_UUID, Offset, Pausing, ProducerEpoch, ProducerId, TopicPartition, whole
from moldau.wire.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.protocol.record_codec import encode_group_key
from moldau.wire.records.control import EndTransactionMarker

DEFAULTS = parse_broker_settings({})
TOPIC_PARTITION = TopicPartition("__consumer_offsets", 0)
Host = CoordinatorHost[GroupsState, AnyGroupRequest, GroupResponse, GroupRecord]
Reply = GroupResponse | MoldauError


class SeededRandom:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random_below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Shard:
    """Requests in, replies by request id out; time moves only by `wait`."""

    def __init__(self, **settings: int) -> None:
        self.batch_sizes: list[int] = []
        """The number of records of each decision."""
        self.counts: Counter[str] = Counter()
        """The counts of decisions that are in the log."""
        self.settings = msgspec.structs.replace(DEFAULTS, **{"group_initial_rebalance_delay_ms": 0, **settings})
        self.random = SeededRandom(7)
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        """Key and value; of a marker b"" and None."""
        self.producers: dict[int, tuple[ProducerId, ProducerEpoch]] = {}
        """By offset: the transaction that the record belongs to."""
        self.markers: dict[int, bool] = {}
        """By offset: whether the marker there commits."""
        self.replies: dict[int, Reply] = {}
        self.parked: dict[int, int] = {}
        """Requests without a reply, with the times of their arrival."""
        self.is_append_failing = False
        self.max_batches: int | None = None
        """That many are written; later ones are rejected."""
        self.last_request_id = 0
        self.max_message_bytes = 1 << 30
        """Of the log: a batch with larger keys and values is rejected."""
        self.memory_limit_bytes = 1 << 40
        self.bounds_reached: list[str] = []
        self.host = self._new_host()
        self._begin()

    def _new_host(self) -> Host:
        self.memory = MemberMemory(self.memory_limit_bytes, bound_reached=self.bounds_reached.append)
        return CoordinatorHost(GroupMachine(self.settings, self.random, self.memory), TOPIC_PARTITION)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def _begin(self) -> None:
        """The log is replayed; the metadata names every topic with committed offsets."""
        image = MetadataImage()
        for name in topics_with_offsets(self.state):
            image.topics_by_name[name] = TopicImage(name, ZERO_UUID, {})
        decision = self.host.machine.decide_loaded(self.state, image, self.now)
        self._take(NO_REQUEST_ID, decision)

    def reload(self) -> None:
        """As after a crash: parked requests are gone, the log is replayed."""
        self.parked.clear()
        self.host = self._new_host()
        self.host.load(self.loaded())
        assert self.host.stopped is None
        self._begin()
        self.wait(0)

    def loaded(self) -> Iterator[LoadedRecord[GroupRecord] | LoadedTransactionEnd]:
        """The records of the log that a load reads."""
        for position, (key, value) in enumerate(self.log):
            offset = Offset(position)
            if offset in self.markers:
                yield LoadedTransactionEnd(offset, *self.producers[offset], self.markers[offset])
                continue
            record = decode_group_record(key, value)
            if record is not None and offset in self.producers:
                yield LoadedRecord(offset, record, *self.producers[offset])
            elif record is not None:
                yield LoadedRecord(offset, record)

    @property
    def state(self) -> GroupsState:
        return self.host.state

    # requests

    def post(self, message: GroupMessage, version: int = 9, client_id: str | None = "client") -> int:
        """Sends, and runs what is due at once; gives the request id."""
        return self._post(GroupRequest(message, version, client_id, "127.0.0.1"))

    def _post(self, request: AnyGroupRequest) -> int:
        self.last_request_id += 1
        request_id = self.last_request_id
        self.parked[request_id] = self.now_ms
        self._submit(request_id, request)
        self.wait(0)
        return request_id

    def end(self, producer_id: int, *, is_commit: bool, epoch: int = 0) -> None:
        """A transaction coordinator ends the producer's transaction."""
        marker = EndTransactionMarker(is_commit, 0)
        request_id = self._post(EndTransaction(marker, ProducerId(producer_id), ProducerEpoch(epoch), 2))
        assert self.is_append_failing or self.reply(request_id) == TransactionEnded()

    def tell(self, request: AnyGroupRequest) -> None:
        """A request whose response is not awaited."""
        self._submit(NO_REQUEST_ID, request)
        self.wait(0)

    def reply(self, request_id: int) -> Reply | None:
        return self.replies.get(request_id)

    def ask(self, message: GroupMessage, version: int = 9, client_id: str | None = "client") -> GroupResponse:
        reply = self.reply(self.post(message, version, client_id))
        assert reply is not None, f"{message} was parked"
        assert not isinstance(reply, MoldauError), reply
        return reply

    def wait(self, delay_ms: int) -> None:
        end_ms = self.now_ms + delay_ms
        while (deadline_ms := self.host.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            while (timer := self.host.due(self.now_ms)) is not None:
                assert timer.request is not None
                self._submit(NO_REQUEST_ID, timer.request, timer)
        self.now_ms = end_ms

    def _submit(self, request_id: int, request: AnyGroupRequest, timer: Timer[AnyGroupRequest] | None = None) -> None:
        decision = self.host.machine.decide(self.state, request_id, request, self.now)
        self._take(request_id, decision, timer)

    def _take(
        self,
        request_id: int,
        decision: GroupDecision | Pausing[GroupDecision],
        timer: Timer[AnyGroupRequest] | None = None,
    ) -> None:
        if not isinstance(decision, Decision):
            decision = whole(decision)
        replies = self.host.take(request_id, decision, self.now, timer)
        if replies is not None:
            self._deliver(replies)
            return
        written: list[tuple[bytes, bytes | None]] = [encode_group_record(record) for record in decision.records]
        if self.is_append_failing or len(self.batch_sizes) == self.max_batches:
            self._refuse(decision, kafka_error("KAFKA_STORAGE_ERROR"))
            return
        if sum(len(key) + len(value or b"") for key, value in written) > self.max_message_bytes:
            self._refuse(decision, kafka_error("MESSAGE_TOO_LARGE"))
            return
        self.batch_sizes.append(len(written))
        producer = decision.producer_id, decision.producer_epoch
        if decision.marker is not None:
            written = [(b"", None)]
            self.markers[len(self.log)] = decision.marker.is_commit
        if decision.producer_id >= 0:
            self.producers.update(dict.fromkeys(range(len(self.log), len(self.log) + len(written)), producer))
        self.log.extend(written)
        self.counts.update(dict(decision.counts))
        self._deliver(whole(self.host.applying(len(self.log) - 1)))
        self._deliver(self.host.committed(len(self.log)))

    def _refuse(self, decision: GroupDecision, error: MoldauError) -> None:
        self._deliver(self.host.append_failed(error))
        for request in decision.if_refused:
            self._submit(NO_REQUEST_ID, request)

    def _deliver(self, replies: tuple[tuple[int, Reply], ...]) -> None:
        for request_id, reply in replies:
            if self.parked.pop(request_id, None) is not None:
                self.replies[request_id] = reply

    # messages

    def protocols(self, *names: str, metadata: bytes = b"topics") -> tuple[JoinGroupRequestProtocol, ...]:
        return tuple(JoinGroupRequestProtocol(name, metadata) for name in names)

    def joining(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocols: tuple[JoinGroupRequestProtocol, ...] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=self.protocols("range") if protocols is None else protocols,
        )

    def syncing(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member, assignment) for member, assignment in (assignments or {}).items()
            ),
        )

    def committing(
        self,
        offset: int = 5,
        *,
        group_id: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        partition: int = 0,
        partition_count: int = 1,
        retention_time_ms: int = -1,
        topic_id: bytes = bytes(16),
    ) -> OffsetCommitRequest:
        """Of `partition`, and of the next ones up to `partition_count`."""
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index in range(partition, partition + partition_count)
        )
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_time_ms,
            topics=(OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=partitions),),
        )

    def in_transaction(self, producer_id: int, commit: OffsetCommitRequest, epoch: int = 0) -> CommitInTransaction:
        return CommitInTransaction(commit, ProducerId(producer_id), ProducerEpoch(epoch))

    def beating(
        self, member_id: str, generation: int, *, group_id: str = "g", instance_id: str | None = None
    ) -> HeartbeatRequest:
        return HeartbeatRequest(group_id, generation, member_id, instance_id)

    def leaving(self, *members: tuple[str, str | None], group_id: str = "g") -> LeaveGroupRequest:
        return LeaveGroupRequest(group_id, members=tuple(MemberIdentity(*member) for member in members))

    # shortcuts

    def joined(self, request_id: int) -> JoinGroupResponse:
        reply = self.reply(request_id)
        assert isinstance(reply, JoinGroupResponse), reply
        return reply

    def synced(self, request_id: int) -> SyncGroupResponse:
        reply = self.reply(request_id)
        assert isinstance(reply, SyncGroupResponse), reply
        return reply

    def code(self, message: GroupMessage, version: int = 9) -> int:
        """The top-level error code of a response, or that of the first member or of the first partition."""
        response = self.ask(message, version)
        if isinstance(response, LeaveGroupResponse) and response.members:
            return response.members[0].error_code
        if hasattr(response, "error_code"):
            return int(response.error_code)
        return int(response.topics[0].partitions[0].error_code)

    def begin(self, *, version: int = 3, **join: object) -> str:
        """Creates a group of one member, stable at its first generation; gives the member's id."""
        response = self.ask(self.joining(**join), version)  # type: ignore[arg-type]
        assert isinstance(response, JoinGroupResponse)
        assert response.error_code == 0
        instance_id = join.get("instance_id")
        message = self.syncing(
            response.member_id,
            response.generation_id,
            {response.member_id: b"all"},
            group_id=str(join.get("group_id", "g")),
            instance_id=None if instance_id is None else str(instance_id),
            protocol_name=response.protocol_name,
        )
        assert self.code(message, 5) == 0
        return response.member_id

    def settle(self, *members: str, group_id: str = "g") -> int:
        """Every member joins again, then syncs: gives the generation. The assignment of m is `m` as bytes."""
        joins = {member: self.post(self.joining(member, group_id=group_id), 3) for member in members}
        answers = {member: self.joined(request_id) for member, request_id in joins.items()}
        leader = next(iter(answers.values())).leader
        generation = next(iter(answers.values())).generation_id
        everybody = {member: member.encode() for member in members}
        syncs = [
            self.post(self.syncing(member, generation, everybody if member == leader else None, group_id=group_id), 5)
            for member in members
        ]
        assert [self.synced(request_id).error_code for request_id in syncs] == [0] * len(members)
        return generation

    def second(self, first: str, group_id: str = "g") -> str:
        """Adds a second member to `first`; gives its id, with the group stable."""
        waiting = self.post(self.joining(group_id=group_id), 3)
        self.post(self.joining(first, group_id=group_id), 3)
        member_id = self.joined(waiting).member_id
        self.settle(first, member_id, group_id=group_id)
        return member_id

    def begin_two(self) -> tuple[str, str]:
        """The ids of two members of a stable group, the leader's first."""
        first = self.begin()
        return first, self.second(first)

    def recorded(self, group_id: str = "g") -> GroupMetadataValue:
        """The last record of the group's members in the log."""
        key = encode_group_key(GroupMetadataKey(group=group_id))
        value = next(value for present, value in reversed(self.log) if present == key)
        record = decode_group_record(key, value)
        assert isinstance(record, GroupMetadataRecord)
        assert record.value is not None
        return record.value


@pytest.fixture
def shard_class() -> type[Shard]:
    return Shard


@pytest.fixture
def shard() -> Shard:
    return Shard()
