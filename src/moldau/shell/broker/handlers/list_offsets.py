"""ListOffsets: where a partition begins and ends, and where a timestamp is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, StorageFailedError, kafka_error
from moldau.shell.network.context import Operation, RequestContext, Resource
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_FROM = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
MAX_ISOLATION_LEVEL = 1


def act_list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Versions 1-11. v2 isolation level (KIP-98), v4 leader epoch (KIP-320), v7 largest timestamp (KIP-734), v8 and v9
    local and tiered ends (KIP-405, KIP-1005), v10 timeout (KIP-1075), v11 earliest pending upload (KIP-1023).

    Ignored on purpose: the timeout and the tiered ends (nothing is tiered: they find nothing, as in Kafka without
    remote storage). Replica ids are not told apart.
    """
    counts: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            counts[key] = counts.get(key, 0) + 1
    topics = []
    for topic in request.topics:
        answers: dict[int, ListOffsetsPartitionResponse] = {}
        for asked in topic.partitions:
            try:
                if counts[topic.name, asked.partition_index] > 1:
                    raise kafka_error("INVALID_REQUEST")
                found = _look_up(broker, context, request.isolation_level, topic.name, asked)
            except KafkaError as error:
                found = ListOffsetsPartitionResponse(asked.partition_index, error.code)
            answers[asked.partition_index] = found
        topics.append(ListOffsetsTopicResponse(topic.name, tuple(answers.values())))
    return ListOffsetsResponse(throttle_time_ms=context.throttle(), topics=tuple(topics))


def _look_up(
    broker: Broker, context: RequestContext, isolation_level: int, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    """Raises KafkaError for what the partition gets instead of an offset."""
    if not context.authorize(Operation.DESCRIBE, Resource.TOPIC, topic):
        raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    if not 0 <= isolation_level <= MAX_ISOLATION_LEVEL:
        raise kafka_error("INVALID_REQUEST")
    if asked.timestamp < 0 and context.api_version < SPECIAL_FROM.get(asked.timestamp, 1 << 15):
        raise kafka_error("UNSUPPORTED_VERSION")
    partition = broker.partitions.find(topic, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    if partition.is_offline:
        raise kafka_error("KAFKA_STORAGE_ERROR")
    try:
        timestamp, offset, epoch = _find(partition, asked.timestamp)
    except StorageFailedError:
        broker.directory_failed()
        raise kafka_error("KAFKA_STORAGE_ERROR") from None
    return ListOffsetsPartitionResponse(asked.partition_index, 0, timestamp, offset, epoch)


def _find(partition: Partition, timestamp: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); (-1, -1, -1) where nothing is found. Consumers see up to the high watermark."""
    log = partition.log
    if timestamp == LATEST:
        return -1, partition.high_watermark, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.leader_epochs.epoch_for_offset(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found[0] >= partition.high_watermark:
        return -1, -1, -1
    offset, found_timestamp, epoch = found
    return found_timestamp, offset, epoch
