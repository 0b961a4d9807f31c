"""Reassignments of replicas (KIP-455, 860): started, listed and cancelled.

A reassignment begins with the union of both replica sets. One that only removes replicas completes at once. New
replicas join the ISR when they have caught up, and the last one completes the reassignment (elections.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from moldau.core.controller.assignments import check_assignment, default_directory
from moldau.core.controller.elections import is_moving
from moldau.core.metadata.batches import MAX_BATCH_RECORDS, batch_too_large
from moldau.core.metadata.fold import LEADER_UNCHANGED, MetadataRecord
from moldau.core.metadata.image import MetadataImage, PartitionImage, TopicImage
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing, each_of
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest
) -> Pausing[tuple[list[MetadataRecord], AlterPartitionReassignmentsResponse]]:
    """The records of started, completed and cancelled reassignments, and a result for each partition."""
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
    )
    if request.timeout_ms <= 0:
        return [], (yield from refused(request, kafka_error("REQUEST_TIMED_OUT")))
    records: list[MetadataRecord] = []
    changed: dict[tuple[str, int], None] = {}
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        partitions: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            yield
            key = (topic.name, asked.partition_index)
            try:
                record = _change(image, topic.name, asked, request.allow_replication_factor_change)
                if record is not None and key in changed:
                    raise kafka_error("INVALID_REQUEST", "The request names the partition twice.")
            except KafkaError as error:
                partitions.append(ReassignablePartitionResponse(asked.partition_index, error.code, error.message))
                continue
            if record is not None:
                records.append(record)
                changed[key] = None
            partitions.append(ReassignablePartitionResponse(asked.partition_index, 0, None))
        responses.append(ReassignableTopicResponse(topic.name, tuple(partitions)))
    if len(records) > MAX_BATCH_RECORDS:
        return [], (yield from refused(request, batch_too_large()))
    return records, msgspec.structs.replace(answer, responses=tuple(responses))


def refused(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> Pausing[AlterPartitionReassignmentsResponse]:
    """The response with `error` for the request and each partition."""
    responses = []
    for topic in request.topics:
        yield
        rows = each_of(
            ReassignablePartitionResponse(row.partition_index, error.code, error.message) for row in topic.partitions
        )
        responses.append(ReassignableTopicResponse(topic.name, (yield from rows)))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.message,
        responses=tuple(responses),
    )


def _change(
    image: MetadataImage, name: str, asked: ReassignablePartition, may_change_factor: bool
) -> PartitionChangeRecord | None:
    """The record of the change; None if nothing changes. Raises 3, 38, 39, 85."""
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"Unable to find partition {name}:{asked.partition_index}.")
    if asked.replicas is None:
        if not is_moving(partition):
            raise kafka_error("NO_REASSIGNMENT_IN_PROGRESS")
        return _written(image, topic, asked.partition_index, partition, _settled(partition))
    check_assignment(image, asked.replicas, None)
    current = _settled(partition)
    if not may_change_factor and len(asked.replicas) != len(current):
        raise kafka_error(
            "INVALID_REPLICATION_FACTOR",
            f"The replication factor is changed from {len(current)} to {len(asked.replicas)}",
        )
    return _written(image, topic, asked.partition_index, partition, asked.replicas)


def _settled(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas of the partition, without those that a reassignment adds."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)


def _written(
    image: MetadataImage, topic: TopicImage, partition_id: int, old: PartitionImage, target: tuple[int, ...]
) -> PartitionChangeRecord | None:
    """The record that moves the partition towards `target`, completely if no replica has to catch up first."""
    settled = _settled(old)
    adding = tuple(sorted(replica for replica in target if replica not in settled))
    removing = tuple(sorted(replica for replica in settled if replica not in target))
    replicas = (*target, *removing)
    isr = tuple(replica for replica in old.isr if replica in replicas)
    if all(replica in old.isr for replica in adding) and any(replica in target for replica in isr):
        replicas, adding, removing = target, (), ()
        isr = tuple(replica for replica in old.isr if replica in target)
    _check_that_one_remains(topic, partition_id, old, target, replicas)
    leader: int = old.leader
    if leader not in isr and leader >= 0:
        leader = next((replica for replica in replicas if replica in isr and image.brokers[replica].is_active), -1)
    new = (replicas, isr, adding, removing, leader)
    if new == (old.replicas, old.isr, old.adding_replicas, old.removing_replicas, old.leader):
        return None
    known = dict(zip(old.replicas, old.directories, strict=False))
    # naming the leader begins a new epoch: a removed replica must not continue in the old one
    is_new_epoch = leader != old.leader or any(replica not in replicas for replica in old.replicas)
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic.topic_id,
        isr=isr if isr != old.isr else None,
        leader=leader if is_new_epoch else LEADER_UNCHANGED,
        replicas=replicas if replicas != old.replicas else None,
        removing_replicas=removing if removing != old.removing_replicas else None,
        adding_replicas=adding if adding != old.adding_replicas else None,
        directories=tuple(known.get(replica) or default_directory(image, replica) for replica in replicas)
        if replicas != old.replicas
        else None,
    )


def _check_that_one_remains(
    topic: TopicImage, partition_id: int, old: PartitionImage, target: tuple[int, ...], replicas: tuple[int, ...]
) -> None:
    """At least one replica with all committed records must stay, otherwise the next leader lacks records. None stays if
    all in-sync replicas were added by a reassignment and are not in the target any more. Raises 39."""
    complete = old.isr or old.eligible_leader_replicas
    if complete and not any(replica in replicas for replica in complete):
        verb = "revert" if target == _settled(old) else "change"
        raise kafka_error(
            "INVALID_REPLICA_ASSIGNMENT",
            f"Unable to {verb} partition assignment for {topic.name}:{partition_id} because it would require an "
            "unclean leader election.",
        )


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Pausing[ListPartitionReassignmentsResponse]:
    """The reassignments in progress, of all topics or of the named ones. As in Kafka, unknown names are left out."""
    asked: Iterable[tuple[str, tuple[int, ...] | None]]
    if request.topics is None:
        asked = ((name, None) for name in sorted(image.topics_by_name))
    else:
        asked = ((row.name, row.partition_indexes) for row in request.topics)
    topics: list[OngoingTopicReassignment] = []
    for name, indexes in asked:
        yield
        topic = image.topics_by_name.get(name)
        if topic is None:
            continue
        moving: list[OngoingPartitionReassignment] = []
        for index in topic.partitions if indexes is None else indexes:
            partition = topic.partitions.get(index)
            if partition is not None and is_moving(partition):
                going = partition.adding_replicas, partition.removing_replicas
                moving.append(OngoingPartitionReassignment(index, partition.replicas, *going))
            yield
        if moving:
            topics.append(OngoingTopicReassignment(topic.name, tuple(moving)))
    return ListPartitionReassignmentsResponse(error_message=None, topics=tuple(topics))
