"""DescribeLogDirs: which partition lies in which log directory, and how large it is."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.shell.io.disk import space_of
from moldau.shell.network.context import CLUSTER_NAME, Operation, RequestContext, Resource
from moldau.wire.protocol.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from moldau.core.log.directory import LogDirectory
    from moldau.shell.broker.role import Broker

CLUSTER_AUTHORIZATION_FAILED = ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]

Wanted = dict[str, dict[int, None]] | None
"""Partitions asked for, by topic; None: all."""


def act_describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Coroutine[object, object, DescribeLogDirsResponse]:
    """Versions 1-5. v1 throttling (KIP-219), v2 flexible (KIP-482), v3 error of the request (KIP-784), v4 total and
    usable bytes (KIP-827), v5 cordoned directories (KIP-1066).

    Every directory is told, also one without any of the partitions asked for; the metadata log is not, as in Apache
    Kafka. Ignored on purpose: nothing.
    """
    if not context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(throttle_time_ms=context.throttle(), error_code=CLUSTER_AUTHORIZATION_FAILED)
    wanted: Wanted = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return _describe(broker, context, wanted)


async def _describe(broker: Broker, context: RequestContext, wanted: Wanted) -> DescribeLogDirsResponse:
    logs = broker.partitions.logs
    results = []
    for directory in logs:
        if directory.health.is_offline:
            results.append(DescribeLogDirsResult(KAFKA_STORAGE_ERROR, directory.path))
            continue
        # it asks the file system, which may be one of the network
        total_bytes, usable_bytes = await broker.workers.run(partial(space_of, directory.disk))
        results.append(
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=_topics(directory, wanted),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=logs.is_cordoned(directory),
            )
        )
    results += [DescribeLogDirsResult(KAFKA_STORAGE_ERROR, path) for path in logs.unopened_paths]
    return DescribeLogDirsResponse(throttle_time_ms=context.throttle(), results=tuple(results))


def _topics(directory: LogDirectory, wanted: Wanted) -> tuple[DescribeLogDirsTopic, ...]:
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic_partition, log in directory.logs.items():
        name, index = topic_partition.topic, topic_partition.partition
        if wanted is None or index in wanted.get(name, ()):
            # the leader is its own replica: it lags behind nobody
            found.setdefault(name, []).append(DescribeLogDirsPartition(index, log.size_bytes))
    return tuple(DescribeLogDirsTopic(name, tuple(partitions)) for name, partitions in found.items())
