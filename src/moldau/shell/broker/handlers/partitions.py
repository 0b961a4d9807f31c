"""DescribeTopicPartitions: a page of partitions with their replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import INTERNAL_TOPICS
from moldau.core.controller.topic_names import topic_name_fault
from moldau.core.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from moldau.errors import ERROR_CODES
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DESCRIBE_TOPIC, TOPIC_RIGHTS
from moldau.wire.protocol.messages.partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

SORTED_AT_ONCE = 1_000
LEADER_NOT_AVAILABLE = ERROR_CODES["LEADER_NOT_AVAILABLE"]
UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
INVALID_TOPIC_EXCEPTION = ERROR_CODES["INVALID_TOPIC_EXCEPTION"]
INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]


async def act_describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Versions 0-0. KIP-966: a page of partitions with their eligible leader replicas, and the start of the next page.

    A page holds at most `max.request.partition.size.limit` partitions. Ignored on purpose: nothing.
    """
    cursor = request.cursor
    is_for_all = not request.topics
    names = await _in_order(
        context, broker.image.topics_by_name if is_for_all else [one.name for one in request.topics]
    )
    is_misplaced = cursor is not None and not is_for_all and cursor.topic_name not in names
    if cursor is not None and (cursor.partition_index < 0 or is_misplaced):
        refused = tuple(_no_topic(topic.name, INVALID_REQUEST) for topic in request.topics)
        return DescribeTopicPartitionsResponse(throttle_time_ms=context.throttle(), topics=refused)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    allowed: list[str] = []
    unauthorized: list[str] = []
    for name in names:
        is_allowed = context.authorize(DESCRIBE_TOPIC, name)
        (allowed if is_allowed else unauthorized).append(name)
        await context.pause()
    if is_for_all:
        unauthorized = []
    limit = max(1, min(request.response_partition_limit, broker.settings.max_request_partition_size_limit))
    topics, next_cursor = await _page(broker, context, allowed, cursor, limit)
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=context.throttle(),
        topics=(*topics, *(_no_topic(name, DESCRIBE_TOPIC.refusal) for name in unauthorized)),
        next_cursor=next_cursor,
    )


async def _in_order(context: RequestContext, names: Iterable[str]) -> list[str]:
    """The names sorted, each once, with pauses: sorting 100,000 at once takes 40 ms."""
    rest = iter(names)
    parts = []
    while part := sorted(islice(rest, SORTED_AT_ONCE)):
        parts.append(part)
        await context.pause(SORTED_AT_ONCE)
    in_order: list[str] = []
    for name in merge(*parts):
        if not in_order or in_order[-1] != name:
            in_order.append(name)
        await context.pause()
    return in_order


async def _page(
    broker: Broker,
    context: RequestContext,
    names: Sequence[str],
    cursor: DescribeTopicPartitionsCursor | None,
    limit: int,
) -> tuple[list[DescribeTopicPartitionsResponseTopic], DescribeTopicPartitionsCursor | None]:
    """The topics of one page, and the start of the next. The cursor's partition applies to the cursor's topic only."""
    image, serving = broker.image, broker.addresses.serving(context)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        await context.pause()
        if limit == 0:
            return topics, DescribeTopicPartitionsCursor(name, 0)
        topic = image.topics_by_name.get(name)
        if topic is None:
            code = UNKNOWN_TOPIC_OR_PARTITION if topic_name_fault(name) is None else INVALID_TOPIC_EXCEPTION
            topics.append(_no_topic(name, code, _operations(context, name)))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), first + limit)
        described = tuple(_described(broker.image, topic, index, serving) for index in range(first, end))
        limit -= len(described)
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=described,
                topic_authorized_operations=_operations(context, name),
            )
        )
        if end < len(topic.partitions):
            return topics, DescribeTopicPartitionsCursor(name, end)
    return topics, None


def _described(
    image: MetadataImage, topic: TopicImage, index: int, serving: Mapping[int, tuple[str, int]]
) -> DescribeTopicPartitionsResponsePartition:
    partition: PartitionImage = topic.partitions[index]
    has_leader = partition.leader in serving
    return DescribeTopicPartitionsResponsePartition(
        error_code=0 if has_leader else LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=image.offline_replicas(partition, serving),
    )


def _no_topic(name: str, code: int, operations: int = -(1 << 31)) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_authorized_operations=operations)


def _operations(context: RequestContext, name: str) -> int:
    return context.authorized_operations(TOPIC_RIGHTS, name)
