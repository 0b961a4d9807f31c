"""ListOffsets: where a partition begins and ends, and where a timestamp is."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, cast

from moldau.core.replication.partition import CONSUMER_REPLICA_ID, Partition
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, StorageFailedError, kafka_error
from moldau.shell.network.context import Operation, RequestContext, Resource
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from moldau.core.log.timestamp_search import TimestampSearch
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
READ_COMMITTED = 1
LEADER_EPOCH_FROM = 4
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]

Found = tuple[int, int, int, int]
"""Error code, timestamp, offset, leader epoch."""


def act_list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[object, object, ListOffsetsResponse]:
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
    asked = [(topic.name, partition) for topic in request.topics for partition in topic.partitions]
    found: list[Found | tuple[Partition, TimestampSearch]] = []
    for name, partition in asked:
        try:
            if counts[name, partition.partition_index] > 1:
                raise kafka_error("INVALID_REQUEST")
            found.append(_look_up(broker, context, request.isolation_level, name, partition))
        except KafkaError as error:
            found.append((error.code, -1, -1, -1))
    is_read_committed = request.isolation_level == READ_COMMITTED
    searches = [(place, item) for place, item in enumerate(found) if len(item) == 2]
    if not searches:
        return _response(context, request, cast("list[Found]", found))

    async def finish() -> ListOffsetsResponse:
        for place, (partition, search) in searches:
            try:
                record = await broker.workers.run(search.run)
            except (StorageFailedError, ProtocolError) as error:
                if isinstance(error, StorageFailedError):
                    broker.directory_failed()
                found[place] = (KAFKA_STORAGE_ERROR, -1, -1, -1)
                continue
            if record is None or record.offset >= partition.read_bound(CONSUMER_REPLICA_ID, is_read_committed):
                found[place] = (0, -1, -1, -1)
            else:
                found[place] = (0, record.timestamp_ms, record.offset, record.leader_epoch)
        return _response(context, request, cast("list[Found]", found))

    return finish()


def _response(context: RequestContext, request: ListOffsetsRequest, found: list[Found]) -> ListOffsetsResponse:
    """`found` in the order of the request; a partition that stands twice is answered once."""
    has_epoch = context.api_version >= LEADER_EPOCH_FROM
    answers = iter(found if has_epoch else [(*found_one[:3], -1) for found_one in found])
    topics = []
    for topic in request.topics:
        partitions = {
            asked.partition_index: ListOffsetsPartitionResponse(asked.partition_index, *next(answers))
            for asked in topic.partitions
        }
        topics.append(ListOffsetsTopicResponse(topic.name, tuple(partitions.values())))
    return ListOffsetsResponse(throttle_time_ms=context.throttle(), topics=tuple(topics))


def _look_up(
    broker: Broker, context: RequestContext, isolation_level: int, topic: str, asked: ListOffsetsPartition
) -> Found | tuple[Partition, TimestampSearch]:
    """What is found, or the search that will find it in Workers. Raises KafkaError."""
    if not context.authorize(Operation.DESCRIBE, Resource.TOPIC, topic):
        raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    if not 0 <= isolation_level <= READ_COMMITTED:
        raise kafka_error("INVALID_REQUEST")
    timestamp = asked.timestamp
    if timestamp < 0 and context.api_version < SPECIAL_FROM.get(timestamp, 1 << 15):
        raise kafka_error("UNSUPPORTED_VERSION")
    partition = broker.partitions.find(topic, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    if partition.is_offline:
        raise kafka_error("KAFKA_STORAGE_ERROR")
    log = partition.log
    if timestamp == LATEST:
        end_offset = partition.read_bound(CONSUMER_REPLICA_ID, isolation_level == READ_COMMITTED)
        return 0, -1, end_offset, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        if log.log_start_offset == log.log_end_offset:
            # the next record will be the first: Apache Kafka notes the epoch when the leader starts, not at an append
            return 0, -1, log.log_start_offset, partition.leader_epoch
        return 0, -1, log.log_start_offset, log.leader_epochs.epoch_of_offset(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return 0, -1, -1, -1
    try:
        if timestamp == MAX_TIMESTAMP:
            return partition, log.plan_max_timestamp_search()
        return partition, log.plan_timestamp_search(timestamp)
    except StorageFailedError:
        broker.directory_failed()
        raise kafka_error("KAFKA_STORAGE_ERROR") from None
