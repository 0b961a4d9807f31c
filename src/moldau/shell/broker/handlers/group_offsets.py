"""OffsetCommit and OffsetFetch: where a group stands, asked of the group's coordinator."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.offset_topics import CommitPlan, FetchPlan, join_commit, join_fetch, plan_commit, plan_fetch
from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import GroupRequest, GroupResponse
from moldau.core.metadata.image import MetadataImage
from moldau.errors import ERROR_CODES
from moldau.shell.broker.handlers.slices import slices
from moldau.shell.broker.handlers.throttled import throttled
from moldau.shell.network.context import Operation, RequestContext, Resource
from moldau.types import Uuid
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

GROUPS_AT_ONCE = 10
"""Groups that are asked for their positions between two turns of the loop: each may have thousands."""
GROUP_AUTHORIZATION_FAILED = ERROR_CODES["GROUP_AUTHORIZATION_FAILED"]
INVALID_GROUP_ID = ERROR_CODES["INVALID_GROUP_ID"]


class ImageLookup:
    """Topics as the metadata has them."""

    __slots__ = ("_image",)

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def name_of(self, topic_id: Uuid) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def id_of(self, name: str) -> Uuid | None:
        topic = self._image.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self._image.topics_by_name.get(name)
        return topic is not None and partition in topic.partitions


def act_offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[object, object, OffsetCommitResponse]:
    """Versions 2-10. v6 leader epoch (KIP-320), v7 static members (KIP-345), v8 flexible, v9 member epoch (KIP-848),
    v10 topic ids (KIP-516).

    Ignored on purpose: nothing; an empty group id gets 24, where Kafka accepts it.
    """
    return throttled(_commit(broker, context, request), context.throttle())


def _commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[object, object, OffsetCommitResponse]:
    whole = GroupRequest(request, context.api_version, context.client_id, context.client_address)
    if not context.authorize(Operation.READ, Resource.GROUP, request.group_id):
        return cast(OffsetCommitResponse, refusal(whole, GROUP_AUTHORIZATION_FAILED))
    if request.group_id == "":
        return cast(OffsetCommitResponse, refusal(whole, INVALID_GROUP_ID))

    def may_read(name: str) -> bool:
        return context.authorize(Operation.READ, Resource.TOPIC, name)

    plan = plan_commit(request, context.api_version, ImageLookup(broker.image), may_read)
    if not plan.accepted.topics and plan.refused:
        return join_commit(request, plan, OffsetCommitResponse())
    accepted = GroupRequest(plan.accepted, context.api_version, context.client_id, context.client_address)
    answer = broker.coordinators.ask(request.group_id, accepted)
    if isinstance(answer, CoroutineType):
        return _join_commit_later(request, plan, answer)
    return join_commit(request, plan, cast(OffsetCommitResponse, answer))


async def _join_commit_later(
    request: OffsetCommitRequest, plan: CommitPlan, waiting: Coroutine[object, object, GroupResponse]
) -> OffsetCommitResponse:
    return join_commit(request, plan, cast(OffsetCommitResponse, await waiting))


def act_offset_fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Coroutine[object, object, OffsetFetchResponse]:
    """Versions 1-10. v2 all topics and an error of the whole (KIP-88), v5 leader epoch (KIP-320), v7 require stable
    (KIP-447), v8 many groups (KIP-709), v9 member epoch (KIP-848), v10 topic ids (KIP-516).

    A group all of whose topics are asked for more than once is answered once: a short request would make a long answer.
    Many groups are asked in slices. Ignored on purpose: nothing.
    """
    request = msgspec.structs.replace(request, groups=_once_each(request.groups))
    return throttled(_fetch(broker, context, request), context.throttle())


def _fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Coroutine[object, object, OffsetFetchResponse]:
    lookup = ImageLookup(broker.image)

    def may_describe(name: str) -> bool:
        return context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)

    if len(request.groups) > GROUPS_AT_ONCE:
        return _fetch_in_slices(broker, context, request, may_describe)
    plans = plan_fetch(request, context.api_version, lookup, may_describe)
    answers = [_ask_for_offsets(broker, context, plan) for plan in plans]
    if not any(isinstance(answer, CoroutineType) for answer in answers):
        groups = tuple(cast(OffsetFetchResponseGroup, answer) for answer in answers)
        return join_fetch(plans, groups, context.api_version, lookup, may_describe)

    async def finish() -> OffsetFetchResponse:
        groups = []
        for answer in answers:
            group = await answer if isinstance(answer, CoroutineType) else answer
            groups.append(cast(OffsetFetchResponseGroup, group))
        return join_fetch(plans, tuple(groups), context.api_version, ImageLookup(broker.image), may_describe)

    return finish()


def _once_each(groups: tuple[OffsetFetchRequestGroup, ...]) -> tuple[OffsetFetchRequestGroup, ...]:
    if len(groups) < 2:
        return groups
    wanted: dict[str, None] = {}
    kept = []
    for group in groups:
        if group.topics is None:
            if group.group_id in wanted:
                continue
            wanted[group.group_id] = None
        kept.append(group)
    return tuple(kept)


async def _fetch_in_slices(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest, may_describe: Callable[[str], bool]
) -> OffsetFetchResponse:
    """The answer to all groups, a slice of them asked at a time."""
    found: list[OffsetFetchResponseGroup] = []
    async for some in slices(request.groups, GROUPS_AT_ONCE):
        answer = _fetch(broker, context, msgspec.structs.replace(request, groups=tuple(some)))
        response = await answer if isinstance(answer, CoroutineType) else cast(OffsetFetchResponse, answer)
        found += response.groups
    return OffsetFetchResponse(groups=tuple(found))


def _ask_for_offsets(
    broker: Broker, context: RequestContext, plan: FetchPlan
) -> GroupResponse | Coroutine[object, object, GroupResponse]:
    group_id = plan.request.group.group_id
    request = GroupRequest(plan.request, context.api_version, context.client_id, context.client_address)
    if not context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id):
        return refusal(request, GROUP_AUTHORIZATION_FAILED)
    return broker.coordinators.ask(group_id, request)
