"""DeleteGroups and OffsetDelete: remove groups and committed offsets on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import DeleteGroup, GroupResponse
from moldau.errors import ERROR_CODES
from moldau.shell.broker.handlers.groups import ask_group, group_request
from moldau.shell.network.context import RequestContext, throttled
from moldau.shell.network.first_step import begun
from moldau.shell.network.rights import DELETE_GROUP, READ_TOPIC
from moldau.types import Pausing, distinct, each_of
from moldau.wire.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]


async def act_delete_groups(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Versions 0-3. KIP-229; v1 throttle time, v2 flexible (KIP-482), v3 error messages (KIP-1331), which are always
    null: in Kafka only a plugin for streams groups sets one.

    A group that is named twice is deleted once, with one result. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    deletions: deque[Awaitable[GroupResponse]] = deque()
    for group_id in distinct(request.groups_names):
        # starts all before it waits for the first: one flush is enough for many
        deletions.append(begun(ask_group(broker, context, DELETE_GROUP, group_id, DeleteGroup(group_id))))
        await context.pause()
    results = []
    while deletions:
        results.append(cast(DeletableGroupResult, await context.wait(deletions.popleft())))
        await context.pause()
    return DeleteGroupsResponse(throttle_time_ms=throttle_time_ms, results=tuple(results))


async def act_offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Versions 0-0. KIP-496.

    Asks the group even if none of the topics is known, as in Kafka: the group's error comes first. Ignored on purpose:
    nothing.
    """
    throttle_time_ms = context.throttle()
    whole = group_request(context, request)
    if not context.authorize(DELETE_GROUP, request.group_id):
        refused_whole = await context.finish(refusal(whole, DELETE_GROUP.refusal))
        return throttled(cast(OffsetDeleteResponse, refused_whole), throttle_time_ms)
    accepted: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        known, codes = await _sorted(broker, context, topic)
        if known:
            accepted.append(OffsetDeleteRequestTopic(topic.name, tuple(known)))
        if codes:
            refused.append(OffsetDeleteResponseTopic(topic.name, tuple(codes)))
        await context.pause()
    asked = group_request(context, msgspec.structs.replace(request, topics=tuple(accepted)))
    answer = cast(OffsetDeleteResponse, await context.wait(broker.coordination.groups.ask(request.group_id, asked)))
    return throttled(await context.finish(_join(refused, answer)), throttle_time_ms)


async def _sorted(
    broker: Broker, context: RequestContext, topic: OffsetDeleteRequestTopic
) -> tuple[list[OffsetDeleteRequestPartition], list[OffsetDeleteResponsePartition]]:
    """The partitions for the coordinator, and the partitions rejected before: 29 without the right, 3 for an unknown
    topic or partition."""
    known: list[OffsetDeleteRequestPartition] = []
    codes: list[OffsetDeleteResponsePartition] = []
    is_allowed = context.authorize(READ_TOPIC, topic.name)
    image = broker.image.topics_by_name.get(topic.name)
    for partition in topic.partitions:
        index = partition.partition_index
        if not is_allowed:
            codes.append(OffsetDeleteResponsePartition(index, READ_TOPIC.refusal))
        elif image is None or index not in image.partitions:
            codes.append(OffsetDeleteResponsePartition(index, UNKNOWN_TOPIC_OR_PARTITION))
        else:
            known.append(partition)
        await context.pause()
    return known, codes


def _join(refused: list[OffsetDeleteResponseTopic], answer: OffsetDeleteResponse) -> Pausing[OffsetDeleteResponse]:
    """Merges both into one entry for each topic name. An error of the group stands alone, without topics."""
    if answer.error_code or not refused:
        return answer
    joined: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in (*refused, *answer.topics):
        joined.setdefault(topic.name, []).extend(topic.partitions)
        yield
    # takes out one by one, as freeing 100,000 lists at once takes 10 ms
    topics = each_of(OffsetDeleteResponseTopic(name, tuple(joined.pop(name))) for name in list(joined))
    return msgspec.structs.replace(answer, topics=(yield from topics))
