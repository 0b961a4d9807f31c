"""Partitions: elections, reassignments, deletion of records, log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from moldau.client.admin.client import ClusterAdmin, is_unreachable
from moldau.client.admin.error_texts import error_of
from moldau.client.protocol.offsets import by_topic
from moldau.errors import ERROR_CODES, KafkaError
from moldau.types import TopicPartition

BROKER_NOT_AVAILABLE = ERROR_CODES["BROKER_NOT_AVAILABLE"]
NOT_LEADER_OR_FOLLOWER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
UNKNOWN_SERVER_ERROR = ERROR_CODES["UNKNOWN_SERVER_ERROR"]
PREFERRED, UNCLEAN = 0, 1
"""Kinds of elections."""


def delete_records(
    admin: ClusterAdmin, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Deletes the records before each offset (-1: before the high watermark). Returns each new log start offset, or its
    error. Looks a leader up again after a move."""
    found: dict[TopicPartition, int | KafkaError] = {}
    backoff = admin.client.backoff()
    while missing := {row: offset for row, offset in offsets.items() if row not in found}:
        moved = _delete_once(admin, missing, found)
        if not moved:
            continue
        for row in moved:
            admin.client.forget(row.topic)
        try:
            backoff.wait(next(iter(moved.values())))
        except KafkaError:
            found |= moved
    return {partition: found[partition] for partition in offsets}


def _delete_once(
    admin: ClusterAdmin, offsets: Mapping[TopicPartition, int], found: dict[TopicPartition, int | KafkaError]
) -> dict[TopicPartition, KafkaError]:
    """Asks each leader once. Returns the partitions whose leader has moved or could not be reached."""
    from moldau.wire.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    moved: dict[TopicPartition, KafkaError] = {}
    led: dict[int, list[TopicPartition]] = {}
    for partition in offsets:
        try:
            led.setdefault(admin.client.leader_of(partition).leader_id, []).append(partition)
        except KafkaError as error:
            found[partition] = error_of(error.code)
    for leader_id, partitions in led.items():
        request = DeleteRecordsRequest(
            topics=tuple(
                DeleteRecordsTopic(
                    name=topic,
                    partitions=tuple(
                        DeleteRecordsPartition(partition_index=row.partition, offset=offsets[row]) for row in rows
                    ),
                )
                for topic, rows in by_topic(partitions).items()
            ),
            timeout_ms=admin.request_timeout_ms,
        )
        try:
            response = admin.ask_broker(leader_id, request)
        except KafkaError as error:
            # after a lost response the records up to the high watermark may be deleted, and a retry would delete newer
            # ones
            is_asked = not is_unreachable(error) and error.code != BROKER_NOT_AVAILABLE
            for partition in partitions:
                if is_asked:
                    found[partition] = error
                else:
                    moved[partition] = error
            continue
        for topic_row in response.topics:
            for row in topic_row.partitions:
                partition = TopicPartition(topic_row.name, row.partition_index)
                if row.error_code == NOT_LEADER_OR_FOLLOWER:
                    moved[partition] = error_of(row.error_code)
                else:
                    found[partition] = error_of(row.error_code) if row.error_code else row.low_watermark
        for partition in partitions:
            if partition not in moved:
                found.setdefault(partition, error_of(UNKNOWN_SERVER_ERROR))
    return moved


class Replica(msgspec.Struct, frozen=True):
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(msgspec.Struct, frozen=True):
    """A log directory of one broker. `error` is set if it is offline."""

    path: str
    error: KafkaError | None
    replicas: tuple[Replica, ...]
    total_bytes: int
    usable_bytes: int


def describe_log_dirs(
    admin: ClusterAdmin, broker_id: int, partitions: Iterable[TopicPartition] | None = None
) -> list[LogDirectory]:
    """The log directories of one broker, each with its replicas of these partitions (None: of all)."""
    from moldau.wire.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    topics = None
    if partitions is not None:
        topics = tuple(
            DescribableLogDirTopic(topic, tuple(row.partition for row in rows))
            for topic, rows in by_topic(partitions).items()
        )
    request = DescribeLogDirsRequest(topics=topics)
    response = admin.ask_broker(broker_id, request)
    if response.error_code:
        raise error_of(response.error_code)
    return [
        LogDirectory(
            row.log_dir,
            error_of(row.error_code) if row.error_code else None,
            tuple(
                Replica(
                    TopicPartition(topic.name, part.partition_index),
                    part.partition_size,
                    part.offset_lag,
                    part.is_future_key,
                )
                for topic in row.topics
                for part in topic.partitions
            ),
            row.total_bytes,
            row.usable_bytes,
        )
        for row in response.results
    ]


def elect_leaders(
    admin: ClusterAdmin, partitions: Iterable[TopicPartition] | None, kind: int = PREFERRED
) -> dict[TopicPartition, KafkaError | None]:
    """Elects the preferred replica (with UNCLEAN any live one) as leader. None: all partitions, but returns only the
    changed ones."""
    from moldau.wire.protocol.messages.partitions import ElectionTopicPartitions, ElectLeadersRequest

    topics = None
    if partitions is not None:
        topics = tuple(
            ElectionTopicPartitions(topic=topic, partitions=tuple(row.partition for row in rows))
            for topic, rows in by_topic(partitions).items()
        )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=admin.request_timeout_ms)
    response = admin.ask(request)
    if response.error_code:
        raise error_of(response.error_code)
    return {
        TopicPartition(topic.topic, row.partition_id): (
            error_of(row.error_code, row.error_message) if row.error_code else None
        )
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


class Reassignment(NamedTuple):
    """The replicas of a partition that is being moved: all, added ones and removed ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def before(self) -> tuple[int, ...]:
        """The replicas without the added ones."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def wanted(self) -> tuple[int, ...]:
        """The target of the move: the replicas without the removed ones."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


def list_reassignments(admin: ClusterAdmin) -> dict[TopicPartition, Reassignment]:
    """The partitions that are being moved."""
    from moldau.wire.protocol.messages.partitions import ListPartitionReassignmentsRequest

    request = ListPartitionReassignmentsRequest(topics=None)
    response = admin.ask(request)
    if response.error_code:
        raise error_of(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): Reassignment(
            row.replicas, row.adding_replicas, row.removing_replicas
        )
        for topic in response.topics
        for row in topic.partitions
    }
