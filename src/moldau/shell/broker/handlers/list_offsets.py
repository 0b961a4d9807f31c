"""ListOffsets: the start and end offsets of partitions, and offsets of timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from moldau.core.log.recovery.damage import DamagedBatchError
from moldau.core.replication.partition import CONSUMER_REPLICA_ID, Partition
from moldau.errors import ERROR_CODES, KafkaError, StorageFailedError, kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DESCRIBE_TOPIC
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from moldau.core.log.log import Log
    from moldau.core.log.timestamp_search import FoundOffset, MaxTimestampSearch, TimestampSearch
    from moldau.ports import Workers
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
OFFSET_NOT_AVAILABLE_FROM = 5
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]

Found = tuple[int, int, int, int]
"""Error code, timestamp, offset, leader epoch."""
MAX_TRIES = 5
"""The most searches of a partition that moves to another log directory meanwhile."""


class Search(msgspec.Struct, frozen=True):
    """A search off the loop. `log`: the log of `partition` that `planned` searches."""

    partition: Partition
    timestamp_ms: int
    log: Log
    planned: TimestampSearch | MaxTimestampSearch

    @classmethod
    def plan(cls, partition: Partition, timestamp_ms: int) -> Search:
        """Plans the search of a timestamp. Raises StorageFailedError."""
        log = partition.log
        if timestamp_ms == MAX_TIMESTAMP:
            return cls(partition, timestamp_ms, log, log.plan_max_timestamp_search())
        return cls(partition, timestamp_ms, log, log.plan_timestamp_search(timestamp_ms))

    async def look(self, context: RequestContext, workers: Workers) -> FoundOffset | None:
        """Runs the search. Raises KafkaError, DamagedBatchError, and StorageFailedError (the directory is offline
        then)."""
        search = self
        for _ in range(MAX_TRIES):
            with search.log.health.watched():
                found = await context.wait(workers.run(search.planned.run))
            if search.partition.log is search.log:
                return found
            # the log is in another directory now, and the searched files are closed
            search = Search.plan(self.partition, self.timestamp_ms)
        raise kafka_error("NOT_LEADER_OR_FOLLOWER", "the partition moves between log directories")


async def act_list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Versions 1-11. v2 isolation level (KIP-98), v4 leader epoch (KIP-320), v5 OFFSET_NOT_AVAILABLE (KIP-207), v7
    largest timestamp (KIP-734), v8 and v9 local and tiered ends (KIP-405, KIP-1005), v10 timeout (KIP-1075), v11
    earliest pending upload (KIP-1023).

    A partition that is named twice is answered once, with 42. Ignored on purpose: the timeout and the tiered ends
    (which find nothing, as in Kafka without remote storage). A follower gets the log end.
    """
    counts: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            counts[key] = counts.get(key, 0) + 1
            await context.pause()
    topics = []
    for topic in request.topics:
        rows: dict[int, ListOffsetsPartitionResponse] = {}
        for asked in topic.partitions:
            found = _find(broker, context, request, counts, topic.name, asked)
            if isinstance(found, Search):
                found = await _search(broker, context, request, found)
            rows[asked.partition_index] = _row(context, asked, found)
            await context.pause()
        topics.append(ListOffsetsTopicResponse(topic.name, tuple(rows.values())))
        await context.pause()
    return ListOffsetsResponse(throttle_time_ms=context.throttle(), topics=tuple(topics))


def _find(
    broker: Broker,
    context: RequestContext,
    request: ListOffsetsRequest,
    counts: dict[tuple[str, int], int],
    name: str,
    partition: ListOffsetsPartition,
) -> Found | Search:
    try:
        if counts[name, partition.partition_index] > 1:
            raise kafka_error("INVALID_REQUEST")
        return _look_up(broker, context, request, name, partition)
    except KafkaError as error:
        return error.code, -1, -1, -1


async def _search(broker: Broker, context: RequestContext, request: ListOffsetsRequest, search: Search) -> Found:
    """Runs the search off the loop."""
    try:
        record = await search.look(context, broker.own_node.workers)
    except StorageFailedError:
        broker.directory_failed()
        return KAFKA_STORAGE_ERROR, -1, -1, -1
    except DamagedBatchError as error:
        search.partition.log.health.found(error.path, f"position {error.position}: {error.reason}")
        return error.code, -1, -1, -1
    except KafkaError as error:
        return error.code, -1, -1, -1
    if record is None or record.offset >= _read_bound(search.partition, request):
        if _is_end_unknown(search.partition, request):
            return _end_unknown(context).code, -1, -1, -1
        return 0, -1, -1, -1
    return 0, record.timestamp_ms, record.offset, record.leader_epoch


def _read_bound(partition: Partition, request: ListOffsetsRequest) -> int:
    return partition.read_bound(request.replica_id, request.isolation_level == READ_COMMITTED)


def _is_end_unknown(partition: Partition, request: ListOffsetsRequest) -> bool:
    """Whether a consumer that gets the log end now could later see it go back."""
    return request.replica_id == CONSUMER_REPLICA_ID and partition.is_high_watermark_behind


def _end_unknown(context: RequestContext) -> KafkaError:
    is_named = context.api_version >= OFFSET_NOT_AVAILABLE_FROM
    return kafka_error("OFFSET_NOT_AVAILABLE" if is_named else "LEADER_NOT_AVAILABLE")


def _row(context: RequestContext, asked: ListOffsetsPartition, found: Found) -> ListOffsetsPartitionResponse:
    code, timestamp, offset, leader_epoch = found
    if context.api_version < LEADER_EPOCH_FROM:
        leader_epoch = -1
    return ListOffsetsPartitionResponse(asked.partition_index, code, timestamp, offset, leader_epoch)


def _look_up(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> Found | Search:
    """The answer, or the search to run in Workers. Raises KafkaError."""
    if not context.authorize(DESCRIBE_TOPIC, topic):
        raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    if not 0 <= request.isolation_level <= READ_COMMITTED:
        raise kafka_error("INVALID_REQUEST")
    timestamp = asked.timestamp
    if timestamp < 0 and context.api_version < SPECIAL_FROM.get(timestamp, 1 << 15):
        raise kafka_error("UNSUPPORTED_VERSION")
    partition = broker.partitions.find(topic, asked.partition_index)
    partition.check_leader(asked.current_leader_epoch)
    if partition.is_offline:
        raise kafka_error("KAFKA_STORAGE_ERROR")
    log = partition.log
    if timestamp == LATEST:
        if _is_end_unknown(partition, request):
            raise _end_unknown(context)
        return 0, -1, _read_bound(partition, request), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return 0, -1, log.log_start_offset, log.leader_epochs.epoch_of_offset(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return 0, -1, -1, -1
    try:
        return Search.plan(partition, timestamp)
    except StorageFailedError:
        broker.directory_failed()
        raise kafka_error("KAFKA_STORAGE_ERROR") from None
