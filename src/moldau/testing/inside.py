"""What a test asks of the broker without a client: topics, records, groups. Coroutines, for the broker's own loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.errors import ERROR_CODES, KafkaError, MoldauError, kafka_error
from moldau.types import TopicPartition
from moldau.wire.protocol.consumer_protocol import assigned_partitions, subscribed_topics
from moldau.wire.records.batch import read_header
from moldau.wire.records.builder import RecordTuple, build_batch
from moldau.wire.records.record import RecordHeader, read_records

if TYPE_CHECKING:
    from moldau.core.groups.classic.group import Group
    from moldau.core.replication.partition import Partition
    from moldau.shell.broker.role import Broker

Ask = Callable[[Callable[["Broker"], Coroutine[Any, Any, Any]]], Any]
SLICE_BYTES = 1 << 20
CREATE_TIMEOUT_MS = 30_000
MAX_COLD_READS = 8


class Record(msgspec.Struct, frozen=True):
    """A record as it lies in the log, decompressed. `timestamp` in ms since the epoch.

    `headers` are (name, value) pairs in a list, as confluent-kafka and kafka-python give them; no headers: an empty
    list, where confluent-kafka gives None.
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

    `state`: "Stable", "Empty", ... `members`: their client ids. `lag`: how far behind the group is. `assignments`: by
    member id, which a consumer of confluent-kafka gives with `memberid()`, the partitions that the member reads; empty
    while the group rebalances.
    """

    state: str
    members: tuple[str, ...]
    lag: dict[TopicPartition, int]
    assignments: dict[str, tuple[TopicPartition, ...]]


def hosted_partitions(broker: Broker, topic: str) -> list[Partition]:
    """In their order. Raises UNKNOWN_TOPIC_OR_PARTITION, naming the topics that there are."""
    hosted = broker.partitions.by_name.get(topic.encode())
    if hosted is None:
        names = ", ".join(sorted(broker.image.topics_by_name)) or "none"
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {topic!r} (there are: {names})")
    return [hosted.partitions[index] for index in sorted(hosted.partitions)]


async def create_topic(broker: Broker, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Returns when it is served. Raises KafkaError."""
    from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    configs = tuple(CreatableTopicConfig(key, value) for key, value in config.items())
    topic = CreatableTopic(name, num_partitions=partitions, replication_factor=-1, configs=configs)
    response = await broker.submit(CreateTopicsRequest(topics=(topic,), timeout_ms=CREATE_TIMEOUT_MS))
    for result in response.topics:
        if result.error_code:
            raise kafka_error(result.error_code, result.error_message or f"topic {name!r}")


async def delete_topic(broker: Broker, name: str) -> None:
    """Raises KafkaError."""
    from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState

    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=CREATE_TIMEOUT_MS)
    response = await broker.submit(request)
    for result in response.responses:
        if result.error_code:
            if result.error_code == ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]:
                hosted_partitions(broker, name)
            raise kafka_error(result.error_code, result.error_message or f"topic {name!r}")


async def append_records(
    broker: Broker, topic: str, batches: Sequence[tuple[int, Sequence[RecordTuple]]]
) -> list[Record]:
    """Appends one batch to each of these partitions, as a producer would; a topic that is not there is made, if the
    broker makes topics by itself. Returns what was written, when it is committed. Raises KafkaError."""
    if topic.encode() not in broker.partitions.by_name and broker.settings.auto_create_topics_enable:
        await broker.topic_creation.create(topic)
    partitions = {partition.topic_partition.partition: partition for partition in hosted_partitions(broker, topic)}
    written: list[Record] = []
    for index, records in batches:
        partition = partitions.get(index)
        if partition is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"topic {topic!r} has no partition {index}")
        batch = bytearray(build_batch(records))
        appended = partition.append(batch, broker.clock.now_ms())
        broker.partition_appended(partition)
        if partition.waits_for_flush:
            broker.flusher.request(partition)
        await broker.waits.wait_acknowledged(partition, appended.last_offset + 1, partition.leader_epoch)
        for number, (key, value, timestamp, headers) in enumerate(records):
            key_bytes = None if key is None else bytes(key)
            value_bytes = None if value is None else bytes(value)
            at_ms = timestamp if appended.log_append_time_ms < 0 else appended.log_append_time_ms
            offset = appended.base_offset + number
            written.append(Record(topic, index, offset, at_ms, key_bytes, value_bytes, list(headers)))
    return written


async def read_slice(broker: Broker, topic: str, index: int, offset: int, end_offset: int) -> bytes:
    """Whole batches from `offset` on; nothing where the log holds no more."""
    partition = broker.partitions.find(topic, index)
    log = partition.log
    offset = max(offset, log.log_start_offset)
    for attempt in range(MAX_COLD_READS + 1):
        read = log.read(offset, max_bytes=SLICE_BYTES, end_offset=end_offset, may_wait=attempt == MAX_COLD_READS)
        if read.cold is None:
            break
        await broker.workers.run(read.cold.run)
    return bytes(read.records or b"")


async def aborted_ranges(
    broker: Broker, topic: str, index: int, offset: int, end_offset: int
) -> dict[int, list[tuple[int, int]]]:
    """By producer id the (first, last) offsets of its aborted transactions, the last one that of the marker."""
    found: dict[int, list[tuple[int, int]]] = {}
    for aborted in broker.partitions.find(topic, index).aborted_transactions(offset, end_offset):
        found.setdefault(aborted.producer_id, []).append((aborted.first_offset, aborted.last_offset))
    return found


def decode_slice(
    topic: str, index: int, data: bytes, offset: int, aborted: Mapping[int, Sequence[tuple[int, int]]]
) -> tuple[list[Record], int]:
    """The records of these batches from `offset` on, without control records and without those of `aborted` (see
    aborted_ranges), and the offset behind the last batch."""
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


def iterate_records(ask: Ask, topic: str, sizes: Mapping[int, tuple[int, int]], *, is_stable: bool) -> Iterator[Record]:
    """The records within `sizes`, which `topic_sizes` gave. `ask` runs a coroutine on the broker's loop."""
    for index, (offset, end) in sizes.items():
        aborted: dict[int, list[tuple[int, int]]] = {}
        if is_stable:
            aborted = ask(lambda broker: aborted_ranges(broker, topic, index, offset, end))  # noqa: B023
        while offset < end:
            start = offset
            data = ask(lambda broker: read_slice(broker, topic, index, start, end))  # noqa: B023
            if not data:
                break
            records, offset = decode_slice(topic, index, data, offset, aborted)
            yield from records


async def topic_sizes(broker: Broker, topic: str, *, is_stable: bool = False) -> dict[int, tuple[int, int]]:
    """By partition: the first offset, and the high watermark, or with `is_stable` the last stable offset."""
    return {
        partition.topic_partition.partition: (
            partition.log.log_start_offset,
            int(partition.last_stable_offset if is_stable else partition.high_watermark),
        )
        for partition in hosted_partitions(broker, topic)
    }


async def view_group(broker: Broker, group_id: str) -> GroupView:
    """Raises GROUP_ID_NOT_FOUND for a group that the broker does not know."""
    if OFFSETS_TOPIC not in broker.image.topics_by_name:
        raise _no_such_group(group_id)
    shard = broker.coordinators.shard_for(group_id)
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
    topics = dict.fromkeys([*(one.topic for one in committed), *(() if group is None else _subscribed_topics(group))])
    lag: dict[TopicPartition, int] = {}
    for topic in topics:
        if topic.encode() not in broker.partitions.by_name:
            continue
        for index, (start, end) in (await topic_sizes(broker, topic)).items():
            one = TopicPartition(topic, index)
            lag[one] = max(0, end - max(start, committed.get(one, start)))
    if group is None:
        return GroupView("Empty", (), lag, {})
    members = tuple(member.client_id for member in group.members.values())
    return GroupView(group.state.value, members, lag, _assignments(group))


def _no_such_group(group_id: str) -> KafkaError:
    return kafka_error("GROUP_ID_NOT_FOUND", f"group {group_id!r} has no member and has committed nothing yet")


def _assignments(group: Group) -> dict[str, tuple[TopicPartition, ...]]:
    """What a member has from the generation before says nothing while its group rebalances."""
    if group.protocol_type != "consumer" or group.state.value != "Stable":
        return {}
    return {member.member_id: assigned_partitions(member.assignment) for member in group.members.values()}


def _subscribed_topics(group: Group) -> list[str]:
    """The topics that members of a group of consumers ask for (ConsumerProtocolSubscription: version, topics, ...)."""
    if group.protocol_type != "consumer" or group.protocol_name is None:
        return []
    topics: list[str] = []
    for member in group.members.values():
        if group.protocol_name in member.protocol_names():
            topics += subscribed_topics(member.metadata(group.protocol_name))
    return topics


def is_unknown(error: MoldauError) -> bool:
    """Whether a topic or group is not there (yet)."""
    return isinstance(error, KafkaError) and error.code in (
        ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"],
        ERROR_CODES["GROUP_ID_NOT_FOUND"],
        ERROR_CODES["NOT_COORDINATOR"],
    )
