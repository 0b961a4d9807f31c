"""First and last offsets of partitions, and the plan that resets a group's committed offsets.

Both `moldau offsets reset` and `kafka-consumer-groups --reset-offsets` make their plan here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.blocking.offsets import list_offsets
from moldau.client.protocol.metadata import TopicMetadata
from moldau.client.protocol.offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_UNCOMMITTED,
    CommittedOffset,
    Offsets,
    by_topic,
    list_offsets_request,
)
from moldau.errors import KafkaError, kafka_error
from moldau.types import TopicPartition


def starts(admin: ClusterAdmin, partitions: Iterable[TopicPartition]) -> Offsets:
    """The log start offset of each partition."""
    return _ask(admin, partitions, EARLIEST_TIMESTAMP)


def ends(admin: ClusterAdmin, partitions: Iterable[TopicPartition]) -> Offsets:
    """The end offset of each partition for consumers: one after the last readable record."""
    return _ask(admin, partitions, LATEST_TIMESTAMP)


def at_time(admin: ClusterAdmin, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
    """The first offset with a record at or after this time; -1 if there is none."""
    return _ask(admin, partitions, timestamp_ms)


def of_led(admin: ClusterAdmin, partitions: Iterable[TopicPartition], *timestamps_ms: int) -> list[Offsets]:
    """The offsets at each of these times, or the ends, of the partitions with a leader. Leaves out partitions without a
    leader at once, as Kafka's tools do, and those whose leader is not reached in time. Raises errors that are not
    retriable."""
    listed = list(partitions)
    topics = admin.retry(lambda: admin.client.refresh(by_topic(listed))) if listed else {}
    left = [row for epochs in _led(topics, listed).values() for row in epochs]
    told: list[Offsets] = []
    for timestamp_ms in timestamps_ms:
        found: Offsets = {}
        for row, offset in each_at_time(admin, left, timestamp_ms).items():
            if not isinstance(offset, KafkaError):
                found[row] = offset
            elif not offset.is_retriable:
                raise offset
        left = list(found)
        told.append(found)
    return told


def _led(
    topics: Mapping[str, TopicMetadata], partitions: Iterable[TopicPartition]
) -> dict[int, dict[TopicPartition, int]]:
    """The partitions of each leader, with the leader's epoch."""
    led: dict[int, dict[TopicPartition, int]] = {}
    for partition in partitions:
        topic = topics.get(partition.topic)
        leader = topic.partitions.get(partition.partition) if topic is not None else None
        if leader is not None and leader.leader_id >= 0:
            led.setdefault(leader.leader_id, {})[partition] = leader.leader_epoch
    return led


def each_at_time(
    admin: ClusterAdmin, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int | KafkaError]:
    """As `at_time`, also for `LATEST_TIMESTAMP` and similar. Returns the error of each partition that has no answer."""
    listed = list(partitions)
    found: Offsets = {}
    failed: dict[TopicPartition, KafkaError] = {}
    backoff = admin.client.backoff()
    while missing := [row for row in listed if row not in found and row not in failed]:
        errors = _ask_each(admin, missing, timestamp_ms, found)
        failed |= {row: error for row, error in errors.items() if not error.is_retriable}
        again = {row: error for row, error in errors.items() if error.is_retriable}
        try:
            if again:
                backoff.wait(next(iter(again.values())))
        except KafkaError:
            failed |= again
    return {row: failed[row] if row in failed else found[row] for row in listed}


def _ask_each(
    admin: ClusterAdmin, partitions: Sequence[TopicPartition], timestamp_ms: int, found: Offsets
) -> dict[TopicPartition, KafkaError]:
    """Fetches metadata once, and asks each leader once. Returns the errors."""
    try:
        topics = admin.client.refresh(by_topic(partitions))
    except KafkaError as error:
        return dict.fromkeys(partitions, error)
    errors: dict[TopicPartition, KafkaError] = {}
    led = _led(topics, partitions)
    with_leader = {partition for epochs in led.values() for partition in epochs}
    for partition in [one for one in partitions if one not in with_leader]:
        topic = topics.get(partition.topic)
        is_known = topic is not None and partition.partition in topic.partitions
        errors[partition] = kafka_error("LEADER_NOT_AVAILABLE" if is_known else "UNKNOWN_TOPIC_OR_PARTITION")
    return errors | _ask_leaders(admin, led, timestamp_ms, found)


def _ask_leaders(
    admin: ClusterAdmin, led: Mapping[int, Mapping[TopicPartition, int]], timestamp_ms: int, found: Offsets
) -> dict[TopicPartition, KafkaError]:
    """Asks each leader once. Returns the errors."""
    errors: dict[TopicPartition, KafkaError] = {}
    for leader_id, epochs in led.items():
        request = list_offsets_request(dict.fromkeys(epochs, timestamp_ms), epochs, READ_UNCOMMITTED)
        try:
            response = admin.client.connection_to(leader_id).request(request)
        except KafkaError as error:
            errors |= dict.fromkeys(epochs, error)
            continue
        for answer in response.topics:
            for row in answer.partitions:
                partition = TopicPartition(answer.name, row.partition_index)
                if row.error_code:
                    errors[partition] = kafka_error(row.error_code)
                else:
                    found[partition] = row.offset
        for partition in epochs:
            if partition not in found:
                errors.setdefault(partition, kafka_error("UNKNOWN_SERVER_ERROR"))
    return errors


def _ask(admin: ClusterAdmin, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
    return list_offsets(admin.client, dict.fromkeys(partitions, timestamp_ms), isolation_level=READ_UNCOMMITTED)


def known(admin: ClusterAdmin, partitions: Iterable[TopicPartition], *timestamps_ms: int) -> list[Offsets]:
    """The offsets at each of these times, or the ends. Asks each leader once, and leaves out partitions without an
    answer."""
    listed = list(partitions)
    led = _led(admin.client.refresh(by_topic(listed)) if listed else {}, listed)
    told: list[Offsets] = [{} for _ in timestamps_ms]
    for timestamp_ms, found in zip(timestamps_ms, told, strict=True):
        _ask_leaders(admin, led, timestamp_ms, found)
    return told


# --- the plan of a reset ---


class Goal(msgspec.Struct, frozen=True):
    """The goal of a reset of committed offsets: exactly one field is set."""

    is_earliest: bool = False
    is_latest: bool = False
    is_current: bool = False
    offset: int | None = None
    shift: int | None = None
    timestamp_ms: int | None = None
    offsets: dict[TopicPartition, int] | None = None
    """The offsets from a file. Only its partitions are reset."""


class Plan(msgspec.Struct, frozen=True):
    offsets: Offsets
    """The new committed offsets."""
    warnings: tuple[str, ...]


class NoSuchPosition(Exception):
    """The reset has no committed offset to start from, or no target."""


def plan(
    admin: ClusterAdmin,
    goal: Goal,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> Plan:
    """The new committed offsets, each within its partition. Changes nothing."""
    if goal.offsets is not None:
        wanted = {partition: offset for partition, offset in goal.offsets.items() if partition in partitions}
        return _within(admin, wanted)
    if goal.is_earliest:
        return Plan(starts(admin, partitions), ())
    if goal.is_latest:
        return Plan(ends(admin, partitions), ())
    if goal.is_current:
        known = {row: committed[row].offset for row in partitions if row in committed}
        rest = ends(admin, [row for row in partitions if row not in committed])
        inside = _within(admin, known)
        return Plan({row: inside.offsets.get(row, rest.get(row, 0)) for row in partitions}, inside.warnings)
    if goal.offset is not None:
        return _within(admin, dict.fromkeys(partitions, goal.offset))
    if goal.shift is not None:
        for partition in partitions:
            if partition not in committed:
                raise NoSuchPosition(
                    f"Cannot shift offset for partition {partition} since there is no current committed offset"
                )
        return _within(admin, {row: committed[row].offset + goal.shift for row in partitions})
    return _at_or_end(admin, partitions, goal.timestamp_ms or 0)


def _at_or_end(admin: ClusterAdmin, partitions: list[TopicPartition], timestamp_ms: int) -> Plan:
    found = at_time(admin, partitions, timestamp_ms)
    last = ends(admin, [row for row in partitions if found[row] < 0])
    warnings = [
        f"Partition {row.partition} from topic {row.topic} is empty. Falling back to latest known offset."
        for row in last
    ]
    return Plan({row: last.get(row, found[row]) for row in partitions}, tuple(warnings))


def _within(admin: ClusterAdmin, wanted: Offsets) -> Plan:
    """The wanted offsets, moved to the nearest end of the log if they are outside."""
    first, last = starts(admin, wanted), ends(admin, wanted)
    return Plan({row: min(max(offset, first[row]), last[row]) for row, offset in wanted.items()}, ())
