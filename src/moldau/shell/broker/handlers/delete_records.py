"""DeleteRecords: moves the log start offsets of partitions forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, KafkaError, StorageFullError, kafka_error
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DELETE_TOPIC
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

HIGH_WATERMARK = -1
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]

Result = tuple[int, int]
"""Low watermark, error code."""


async def act_delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Versions 0-2. All of KIP-107; v2 flexible (KIP-482).

    Answers once the new log start offsets are on the disk: unlike in Apache Kafka, deleted records do not come back
    after a crash. The next retention check removes the files. A partition that is named twice counts once, with its
    last offset. Followers delete the records too: the answer waits for the live ones, at most for the timeout (7).
    Ignored on purpose: nothing.
    """
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            asked.setdefault(topic.name, {})[partition.partition_index] = partition.offset
            await context.pause()
    results: dict[str, dict[int, Result]] = {}
    accepted: list[tuple[Partition, bool]] = []
    context.run_to_end()
    for name, offsets in asked.items():
        results[name] = {}
        for index, offset in offsets.items():
            results[name][index] = _delete_one(broker, context, name, index, offset, accepted)
            await context.pause()
    if accepted:
        # also if no offset moved: an earlier request's may not be on the disk yet
        await _save(broker, context, results, accepted)
        deadline_s = broker.own_node.loop.time() + max(0, request.timeout_ms) / 1_000
        for each, is_moved in accepted:
            if each.has_followers and not each.is_offline:
                if is_moved:
                    broker.waits.changed(each)  # followers learn the new offset with their next answer
                await _wait_for_followers(broker, context, results, each, deadline_s)
            await context.pause()
    topics = []
    for name, found in results.items():
        rows = tuple(DeleteRecordsPartitionResult(index, *result) for index, result in found.items())
        topics.append(DeleteRecordsTopicResult(name, rows))
        await context.pause(len(found))
    return DeleteRecordsResponse(throttle_time_ms=context.throttle(), topics=tuple(topics))


def _delete_one(
    broker: Broker, context: RequestContext, name: str, index: int, offset: int, accepted: list[tuple[Partition, bool]]
) -> Result:
    """Deletes records of one partition. Adds to `accepted` the partition, and whether its log start offset moved."""
    try:
        found = _deletable_partition(broker, context, name, index)
        accepted.append((found, _delete(found, offset)))
    except KafkaError as error:
        return -1, error.code
    return found.log.log_start_offset, 0


def _deletable_partition(broker: Broker, context: RequestContext, topic: str, index: int) -> Partition:
    """The partition, if its records may be deleted. Raises 29, 3, 17, 56, 6."""
    if not context.authorize(DELETE_TOPIC, topic):
        raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    partition = broker.partitions.find(topic, index)
    if broker.partitions.by_name[topic.encode()].is_internal:
        raise kafka_error("INVALID_TOPIC_EXCEPTION", "only the broker deletes records of an internal topic")
    if partition.is_offline:
        raise kafka_error("KAFKA_STORAGE_ERROR")
    partition.check_leader()
    return partition


def _delete(partition: Partition, offset: int) -> bool:
    """Returns whether the log start offset moved. Raises 44 for a topic that is only compacted, 1 past the high
    watermark."""
    log = partition.log
    policy = log.settings.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise kafka_error("POLICY_VIOLATION", "records of a compacted topic cannot be deleted by offset")
    if offset == HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise kafka_error("OFFSET_OUT_OF_RANGE", f"{offset} is not between 0 and the high watermark")
    return log.advance_log_start_offset(offset)


async def _save(
    broker: Broker,
    context: RequestContext,
    results: dict[str, dict[int, Result]],
    accepted: list[tuple[Partition, bool]],
) -> None:
    for partition, is_moved in accepted:
        if is_moved:
            broker.partitions.touched[partition.number] = partition
            broker.partitions.flusher.request(partition)
    try:
        await context.wait(broker.partitions.flusher.save_log_start_offsets([partition for partition, _ in accepted]))
    except StorageFullError:
        # the deletion holds until a crash, as in Apache Kafka; the periodic checkpoint tries again
        broker.partitions.checkpoints.changed()
    for partition, _ in accepted:
        if partition.is_offline:
            topic_partition = partition.topic_partition
            results[topic_partition.topic][topic_partition.partition] = (-1, KAFKA_STORAGE_ERROR)


async def _wait_for_followers(
    broker: Broker,
    context: RequestContext,
    results: dict[str, dict[int, Result]],
    partition: Partition,
    deadline_s: float,
) -> None:
    code = 0
    try:
        reached = broker.waits.wait_deleted(partition, partition.log.log_start_offset, partition.leader_epoch)
        await context.wait(reached, deadline_s)
    except KafkaError as error:
        code = error.code
    topic_partition = partition.topic_partition
    results[topic_partition.topic][topic_partition.partition] = (partition.low_watermark, code)
