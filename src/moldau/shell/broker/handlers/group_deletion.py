"""DeleteGroups and OffsetDelete: groups and positions that somebody wants to be gone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from types import CoroutineType
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import DeleteGroup, GroupRequest, GroupResponse
from moldau.errors import ERROR_CODES
from moldau.shell.broker.handlers.slices import SLICE, slices
from moldau.shell.broker.handlers.throttled import throttled
from moldau.shell.network.context import Operation, RequestContext, Resource
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

GROUP_AUTHORIZATION_FAILED = ERROR_CODES["GROUP_AUTHORIZATION_FAILED"]
TOPIC_AUTHORIZATION_FAILED = ERROR_CODES["TOPIC_AUTHORIZATION_FAILED"]
UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def act_delete_groups(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Coroutine[object, object, DeleteGroupsResponse]:
    """Versions 0-2. KIP-229; v1 throttle time, v2 flexible (KIP-482).

    A group that stands twice is deleted once, with one result; many are deleted in slices. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()

    def delete(group_id: str) -> GroupResponse | Coroutine[object, object, GroupResponse]:
        asked = GroupRequest(DeleteGroup(group_id), context.api_version, context.client_id, context.client_address)
        if not context.authorize(Operation.DELETE, Resource.GROUP, group_id):
            return refusal(asked, GROUP_AUTHORIZATION_FAILED)
        return broker.coordinators.ask(group_id, asked)

    names = list(dict.fromkeys(request.groups_names))
    if len(names) > SLICE:
        return _delete_in_slices(names, delete, throttle_time_ms)
    answers = [delete(name) for name in names]
    if not any(isinstance(answer, CoroutineType) for answer in answers):
        results = tuple(cast(DeletableGroupResult, answer) for answer in answers)
        return DeleteGroupsResponse(throttle_time_ms=throttle_time_ms, results=results)

    async def finish() -> DeleteGroupsResponse:
        results = []
        for answer in answers:
            result = await answer if isinstance(answer, CoroutineType) else answer
            results.append(cast(DeletableGroupResult, result))
        return DeleteGroupsResponse(throttle_time_ms=throttle_time_ms, results=tuple(results))

    return finish()


async def _delete_in_slices(
    names: list[str],
    delete: Callable[[str], GroupResponse | Coroutine[object, object, GroupResponse]],
    throttle_time_ms: int,
) -> DeleteGroupsResponse:
    results: list[DeletableGroupResult] = []
    async for some in slices(names):
        for answer in [delete(name) for name in some]:
            result = await answer if isinstance(answer, CoroutineType) else answer
            results.append(cast(DeletableGroupResult, result))
    return DeleteGroupsResponse(throttle_time_ms=throttle_time_ms, results=tuple(results))


def act_offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Coroutine[object, object, OffsetDeleteResponse]:
    """Versions 0-0. KIP-496.

    The group is asked even if none of its topics is known, as in Kafka: its error comes first. Many topics are looked
    up in slices. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    whole = GroupRequest(request, context.api_version, context.client_id, context.client_address)
    if not context.authorize(Operation.DELETE, Resource.GROUP, request.group_id):
        return throttled(cast(OffsetDeleteResponse, refusal(whole, GROUP_AUTHORIZATION_FAILED)), throttle_time_ms)
    if len(request.topics) > SLICE:
        return throttled(_delete_offsets_in_slices(broker, context, request), throttle_time_ms)
    plan = _Plan([], [])
    _sort_topics(broker, context, request.topics, plan)
    return throttled(_ask_for_deletion(broker, context, request, plan), throttle_time_ms)


class _Plan(NamedTuple):
    """What the coordinator is asked, and what is refused before: no right 29, unknown topic or partition 3."""

    accepted: list[OffsetDeleteRequestTopic]
    refused: list[OffsetDeleteResponseTopic]


async def _delete_offsets_in_slices(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    plan = _Plan([], [])
    async for some in slices(request.topics):
        _sort_topics(broker, context, some, plan)
    answer = _ask_for_deletion(broker, context, request, plan)
    return await answer if isinstance(answer, CoroutineType) else cast(OffsetDeleteResponse, answer)


def _ask_for_deletion(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest, plan: _Plan
) -> OffsetDeleteResponse | Coroutine[object, object, OffsetDeleteResponse]:
    asked = GroupRequest(
        msgspec.structs.replace(request, topics=tuple(plan.accepted)),
        context.api_version,
        context.client_id,
        context.client_address,
    )
    answer = broker.coordinators.ask(request.group_id, asked)
    if isinstance(answer, CoroutineType):
        return _join_later(plan.refused, answer)
    return _join(plan.refused, cast(OffsetDeleteResponse, answer))


def _sort_topics(
    broker: Broker, context: RequestContext, topics: Iterable[OffsetDeleteRequestTopic], plan: _Plan
) -> None:
    for topic in topics:
        known: list[OffsetDeleteRequestPartition] = []
        codes: list[OffsetDeleteResponsePartition] = []
        is_allowed = context.authorize(Operation.READ, Resource.TOPIC, topic.name)
        image = broker.image.topics_by_name.get(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            if not is_allowed:
                codes.append(OffsetDeleteResponsePartition(index, TOPIC_AUTHORIZATION_FAILED))
            elif image is None or index not in image.partitions:
                codes.append(OffsetDeleteResponsePartition(index, UNKNOWN_TOPIC_OR_PARTITION))
            else:
                known.append(partition)
        if known:
            plan.accepted.append(OffsetDeleteRequestTopic(topic.name, tuple(known)))
        if codes:
            plan.refused.append(OffsetDeleteResponseTopic(topic.name, tuple(codes)))


async def _join_later(
    refused: list[OffsetDeleteResponseTopic], waiting: Coroutine[object, object, GroupResponse]
) -> OffsetDeleteResponse:
    return _join(refused, cast(OffsetDeleteResponse, await waiting))


def _join(refused: list[OffsetDeleteResponseTopic], answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """One entry for each topic name; an error of the group leaves nothing to say of topics."""
    if answer.error_code or not refused:
        return answer
    joined: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in (*refused, *answer.topics):
        joined.setdefault(topic.name, []).extend(topic.partitions)
    topics = tuple(OffsetDeleteResponseTopic(name, tuple(partitions)) for name, partitions in joined.items())
    return msgspec.structs.replace(answer, topics=topics)
