"""Topics, records and groups of a broker, without a client. Coroutines for the broker's loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.errors import ERROR_CODES, KafkaError, MoldauError, kafka_error
from moldau.types import TopicPartition
from moldau.wire.protocol.consumer_protocol import assigned_partitions
from moldau.wire.records.batch import read_header
from moldau.wire.records.builder import RecordTuple, build_batch
from moldau.wire.records.record import RecordHeader, read_records

if TYPE_CHECKING:
    from moldau.core.groups.classic.group import Group
    from moldau.core.replication.partition import Partition
    from moldau.shell.broker.role import Broker

AskLeader = Callable[[str, int, Callable[["Broker"], Coroutine[Any, Any, Any]]], Any]
"""Runs a coroutine on the loop of the broker that leads (topic, partition)."""
SLICE_BYTES = 1 << 20
CREATE_TIMEOUT_MS = 30_000
MAX_COLD_READS = 8


class Record(msgspec.Struct, frozen=True):
    """A record in the log, decompressed. `timestamp` is in ms since the epoch.

    `headers` is a list of (name, value) pairs, as in confluent-kafka and kafka-python. A record without headers has an
    empty list, where confluent-kafka has None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[RecordHeader] = msgspec.field(default_factory=list)

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))


class GroupView(msgspec.Struct, frozen=True):
    """A consumer group.

    `state`: "Stable", "Empty", ... `members`: their client ids. `lag`: the number of records not yet committed.
    `assignments`: the partitions of each member by member id (`memberid()` of a confluent-kafka consumer); empty while
    the group rebalances.
    """

    state: str
    members: tuple[str, ...]
    lag: dict[TopicPartition, int]
    assignments: dict[str, tuple[TopicPartition, ...]]


async def partition_indexes(broker: Broker, topic: str) -> list[int]:
    """The indexes of the topic's partitions, ascending. Raises UNKNOWN_TOPIC_OR_PARTITION with the names of existing
    topics."""
    found = broker.image.topics_by_name.get(topic)
    if found is None:
        names = ", ".join(sorted(broker.image.topics_by_name)) or "none"
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {topic!r} (there are: {names})")
    return sorted(found.partitions)


async def made_indexes(broker: Broker, topic: str) -> list[int]:
    """As `partition_indexes`. Creates a missing topic if the broker creates topics automatically."""
    if topic not in broker.image.topics_by_name and broker.settings.auto_create_topics_enable:
        await broker.coordination.topic_creation.create(topic)
    return await partition_indexes(broker, topic)


class GroupFacts(msgspec.Struct, frozen=True):
    """The coordinator's data about a group. `topics`: those that it is subscribed to or has committed offsets for."""

    state: str
    members: tuple[str, ...]
    assignments: dict[str, tuple[TopicPartition, ...]]
    committed: dict[TopicPartition, int]
    topics: tuple[str, ...]


async def create_topic(broker: Broker, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Creates a topic, and returns when the broker serves it. Raises KafkaError."""
    from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    configs = tuple(CreatableTopicConfig(key, value) for key, value in config.items())
    topic = CreatableTopic(name, num_partitions=partitions, replication_factor=-1, configs=configs)
    response = await broker.submit(CreateTopicsRequest(topics=(topic,), timeout_ms=CREATE_TIMEOUT_MS))
    for result in response.topics:
        if result.error_code:
            raise kafka_error(result.error_code, result.error_message or f"topic {name!r}")


async def delete_topic(broker: Broker, name: str) -> None:
    """Deletes a topic with its records. Raises KafkaError."""
    from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState

    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=CREATE_TIMEOUT_MS)
    response = await broker.submit(request)
    for result in response.responses:
        if result.error_code:
            if result.error_code == ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]:
                await partition_indexes(broker, name)
            raise kafka_error(result.error_code, result.error_message or f"topic {name!r}")


async def append_records(broker: Broker, topic: str, index: int, records: Sequence[RecordTuple]) -> list[Record]:
    """Appends one batch, as a producer would, on the broker that leads the partition. Returns the records once they are
    committed. Raises KafkaError."""
    partition = broker.partitions.find(topic, index)
    appended = partition.append(bytearray(build_batch(records)), broker.own_node.clock.now_ms())
    broker.partition_appended(partition)
    if partition.waits_for_flush:
        broker.partitions.flusher.request(partition)
    await broker.waits.wait_acknowledged(partition, appended.last_offset + 1, partition.leader_epoch)
    written: list[Record] = []
    for number, (key, value, timestamp, headers) in enumerate(records):
        key_bytes = None if key is None else bytes(key)
        value_bytes = None if value is None else bytes(value)
        at_ms = timestamp if appended.log_append_time_ms < 0 else appended.log_append_time_ms
        offset = appended.base_offset + number
        written.append(Record(topic, index, offset, at_ms, key_bytes, value_bytes, list(headers)))
    return written


def _led_partition(broker: Broker, topic: str, index: int) -> Partition:
    """Raises NOT_LEADER_OR_FOLLOWER if this broker does not lead the partition: the caller's metadata may be stale."""
    partition = broker.partitions.find(topic, index)
    partition.check_leader()
    return partition


async def read_slice(broker: Broker, topic: str, index: int, offset: int, end: int) -> bytes:
    """Whole batches from `offset` on, read at the leader; empty at the end of the log."""
    log = _led_partition(broker, topic, index).log
    offset = max(offset, log.log_start_offset)
    for attempt in range(MAX_COLD_READS + 1):
        read = log.read(offset, max_bytes=SLICE_BYTES, end_offset=end, may_wait=attempt == MAX_COLD_READS)
        if read.cold is None:
            break
        await broker.own_node.workers.run(read.cold.run)
    return bytes(read.records or b"")


async def aborted_ranges(
    broker: Broker, topic: str, index: int, start: int, end: int
) -> dict[int, list[tuple[int, int]]]:
    """The (first, last) offsets of aborted transactions by producer id, read at the leader. The last offset is that of
    the marker."""
    found: dict[int, list[tuple[int, int]]] = {}
    for aborted in _led_partition(broker, topic, index).aborted_transactions(start, end):
        found.setdefault(aborted.producer_id, []).append((aborted.first_offset, aborted.last_offset))
    return found


def decode_slice(
    topic: str, index: int, data: bytes, offset: int, aborted: Mapping[int, Sequence[tuple[int, int]]]
) -> tuple[list[Record], int]:
    """The records of these batches from `offset` on, and the offset after the last batch. Leaves out control records
    and the records of `aborted` (see aborted_ranges)."""
    records: list[Record] = []
    position, next_offset = 0, offset
    while position < len(data):
        batch = memoryview(data)[position:]
        header = read_header(batch)
        position += header.size
        next_offset = header.next_offset
        if header.is_control:
            continue
        if header.is_transactional:
            ranges = aborted.get(header.producer_id, ())
            if any(first <= header.base_offset <= last for first, last in ranges):
                continue
        records += [
            Record(topic, index, record.offset, record.timestamp, record.key, record.value, list(record.headers))
            for record in read_records(batch[: header.size])
            if record.offset >= offset
        ]
    return records, next_offset


def iterate_records(
    ask_leader: AskLeader, topic: str, sizes: Mapping[int, tuple[int, int]], *, is_stable: bool
) -> Iterator[Record]:
    """The records within `sizes`, the first offset and the end of each partition. Reads each partition at its
    leader."""
    for index, (offset, end) in sizes.items():
        aborted: dict[int, list[tuple[int, int]]] = {}
        if is_stable:
            aborted = ask_leader(topic, index, partial(aborted_ranges, topic=topic, index=index, start=offset, end=end))
        while offset < end:
            data = ask_leader(topic, index, partial(read_slice, topic=topic, index=index, offset=offset, end=end))
            if not data:
                break
            records, offset = decode_slice(topic, index, data, offset, aborted)
            yield from records


async def partition_size(broker: Broker, topic: str, index: int, *, is_stable: bool = False) -> tuple[int, int]:
    """The first offset and the high watermark at the leader; with `is_stable` the last stable offset instead.

    Raises OFFSET_NOT_AVAILABLE while a new leader does not yet know the high watermark.
    """
    partition = _led_partition(broker, topic, index)
    if partition.is_high_watermark_behind:
        raise kafka_error("OFFSET_NOT_AVAILABLE")
    end = partition.last_stable_offset if is_stable else partition.high_watermark
    return partition.log.log_start_offset, int(end)


async def group_facts(broker: Broker, group_id: str) -> GroupFacts:
    """The coordinator's data about the group. Raises GROUP_ID_NOT_FOUND for an unknown group, and NOT_COORDINATOR."""
    if OFFSETS_TOPIC not in broker.image.topics_by_name:
        raise _no_such_group(group_id)
    shard = broker.coordination.groups.shard_for(group_id)
    if shard.loading is not None:
        await shard.loading
    state = shard.host.state
    group = state.groups.get(group_id)
    committed = {
        TopicPartition(topic, index): offset.offset
        for topic, partitions in state.offsets.get(group_id, {}).items()
        for index, offset in partitions.items()
    }
    if not committed and group is None:
        raise _no_such_group(group_id)
    # if a member's subscription cannot be decoded, only topics with a committed offset have a lag
    subscribed = {} if group is None else group.subscribed_topics() or {}
    topics = dict.fromkeys([*(one.topic for one in committed), *subscribed])
    known = tuple(topic for topic in topics if topic in broker.image.topics_by_name)
    if group is None:
        return GroupFacts("Empty", (), {}, committed, known)
    members = tuple(member.client_id for member in group.members.values())
    return GroupFacts(group.state.value, members, _assignments(group), committed, known)


def view_of(facts: GroupFacts, sizes: Mapping[str, Mapping[int, tuple[int, int]]]) -> GroupView:
    """`sizes`: those of the topics in `facts`, as `partition_size` returns them."""
    lag: dict[TopicPartition, int] = {}
    for topic, by_partition in sizes.items():
        for index, (start, end) in by_partition.items():
            one = TopicPartition(topic, index)
            lag[one] = max(0, end - max(start, facts.committed.get(one, start)))
    return GroupView(facts.state, facts.members, lag, facts.assignments)


def _no_such_group(group_id: str) -> KafkaError:
    return kafka_error("GROUP_ID_NOT_FOUND", f"group {group_id!r} has no member and has committed nothing yet")


def _assignments(group: Group) -> dict[str, tuple[TopicPartition, ...]]:
    """Empty while the group rebalances, because assignments of the previous generation no longer apply."""
    if not group.is_of_consumers() or group.state.value != "Stable":
        return {}
    return {member.member_id: assigned_partitions(member.assignment) for member in group.members.values()}


def is_unknown(error: MoldauError) -> bool:
    """Whether the error means that a topic or group does not exist (yet)."""
    return isinstance(error, KafkaError) and error.code in (
        ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"],
        ERROR_CODES["GROUP_ID_NOT_FOUND"],
        ERROR_CODES["NOT_COORDINATOR"],
    )
