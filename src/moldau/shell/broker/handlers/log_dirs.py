"""DescribeLogDirs and AlterReplicaLogDirs: describe log directories, and move partitions between them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.io.disk import space_of
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from moldau.core.log.directories.moving import FutureLog
    from moldau.core.log.log import Log
    from moldau.shell.broker.role import Broker
    from moldau.types import TopicPartition

KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]
NOT_LEADER_OR_FOLLOWER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
REPLICA_NOT_AVAILABLE = ERROR_CODES["REPLICA_NOT_AVAILABLE"]

Wanted = dict[str, dict[int, None]] | None
"""Partitions asked for, by topic; None: all."""


async def act_describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Versions 1-5. v1 throttling (KIP-219), v2 flexible (KIP-482), v3 error of the request (KIP-784), v4 total and
    usable bytes (KIP-827), v5 cordoned directories (KIP-1066).

    The answer has every directory, even without any of the requested partitions. It leaves out the metadata log, as in
    Apache Kafka. Ignored on purpose: nothing.
    """
    if not context.authorize(DESCRIBE_CLUSTER):
        return DescribeLogDirsResponse(throttle_time_ms=context.throttle(), error_code=DESCRIBE_CLUSTER.refusal)
    wanted: Wanted = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
            await context.pause(1 + len(topic.partitions))
    logs = broker.partitions.logs
    results = []
    # all at one instant: a partition that moves meanwhile occurs once in the answer
    lying = {directory.path: list(directory.logs.items()) for directory in logs}
    moving = list(broker.moves.futures.items())
    for directory in logs:
        if directory.health.is_offline:
            results.append(DescribeLogDirsResult(KAFKA_STORAGE_ERROR, directory.path))
            continue
        # asks the file system, which may be a network file system
        total_bytes, usable_bytes = await context.wait(broker.own_node.workers.run(partial(space_of, directory.disk)))
        results.append(
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=await _topics(
                    context, lying[directory.path], [entry for entry in moving if entry[1].target is directory], wanted
                ),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=logs.is_cordoned(directory),
            )
        )
    results += [DescribeLogDirsResult(KAFKA_STORAGE_ERROR, path) for path in logs.unopened_paths]
    return DescribeLogDirsResponse(throttle_time_ms=context.throttle(), results=tuple(results))


async def _topics(
    context: RequestContext,
    lying: list[tuple[TopicPartition, Log]],
    moving: list[tuple[TopicPartition, FutureLog]],
    wanted: Wanted,
) -> tuple[DescribeLogDirsTopic, ...]:
    found: dict[str, list[DescribeLogDirsPartition]] = {}

    def add(topic_partition: TopicPartition, size_bytes: int, offset_lag: int, is_future: bool) -> None:
        name, index = topic_partition.topic, topic_partition.partition
        if wanted is None or index in wanted.get(name, ()):
            partition = DescribeLogDirsPartition(index, size_bytes, offset_lag, is_future)
            found.setdefault(name, []).append(partition)

    for topic_partition, log in lying:
        # a leader has no lag
        add(topic_partition, log.size_bytes, 0, False)
        await context.pause()
    for topic_partition, future in moving:
        add(topic_partition, future.size_bytes, future.offset_lag, True)
    topics = []
    for name, partitions in found.items():
        topics.append(DescribeLogDirsTopic(name, tuple(partitions)))
        await context.pause()
    return tuple(topics)


async def act_alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Versions 1-2. All of KIP-113; v2 flexible (KIP-482).

    0 means that the move has started: a new copy of the log catches up, then replaces the log (DescribeLogDirs shows
    both). A partition that is named twice goes to its last target. Ignored on purpose: nothing.
    """
    is_allowed = context.authorize(ALTER_CLUSTER)
    targets: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                targets.setdefault(topic.name, {})[index] = directory.path
                await context.pause()
    results = []
    context.run_to_end()
    for name in list(targets):
        partitions = []
        # takes out one by one, as freeing 100,000 dictionaries at once takes 10 ms
        for index, path in targets.pop(name).items():
            code = ALTER_CLUSTER.refusal
            if is_allowed:
                code = _move(broker, name, index, path)
            partitions.append(AlterReplicaLogDirPartitionResult(index, code))
            await context.pause()
        results.append(AlterReplicaLogDirTopicResult(name, tuple(partitions)))
    return AlterReplicaLogDirsResponse(throttle_time_ms=context.throttle(), results=tuple(results))


def _move(broker: Broker, topic: str, index: int, path: str) -> int:
    """Starts the move. Returns an error code: 57 for a path that is not in `log.dirs`, 56, 3, and 9 without a replica
    here."""
    logs = broker.partitions.logs
    target = logs.by_path(path)
    try:
        if target is None and path not in logs.unopened_paths:
            raise kafka_error("LOG_DIR_NOT_FOUND")
        if target is None or target.health.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        partition = broker.partitions.find(topic, index)
        if partition.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
    except KafkaError as error:
        # this API has always used 9 in place of 6
        return REPLICA_NOT_AVAILABLE if error.code == NOT_LEADER_OR_FOLLOWER else error.code
    broker.moves.move(partition, target)
    return 0
