"""OffsetCommit and OffsetFetch: where a group stands, asked of the group's coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.offset_topics import join_commit, join_fetch, plan_commit, plan_fetch
from moldau.core.groups.refusals import refusal
from moldau.core.metadata.image import MetadataImage
from moldau.errors import ERROR_CODES
from moldau.shell.broker.handlers.groups import GROUP_AUTHORIZATION_FAILED, ask_group, group_request
from moldau.shell.network.context import Operation, RequestContext, Resource, throttled
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


async def act_offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Versions 2-10. v6 leader epoch (KIP-320), v7 static members (KIP-345), v8 flexible, v9 member epoch (KIP-848),
    v10 topic ids (KIP-516).

    Ignored on purpose: nothing; an empty group id gets 24, where Kafka accepts it.
    """
    throttle_time_ms = context.throttle()
    return throttled(await _commit(broker, context, request), throttle_time_ms)


async def _commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    whole = group_request(context, request)
    if not context.authorize(Operation.READ, Resource.GROUP, request.group_id):
        return cast(OffsetCommitResponse, await context.finish(refusal(whole, GROUP_AUTHORIZATION_FAILED)))
    if request.group_id == "":
        return cast(OffsetCommitResponse, await context.finish(refusal(whole, INVALID_GROUP_ID)))

    def may_read(name: str) -> bool:
        return context.authorize(Operation.READ, Resource.TOPIC, name)

    plan = await context.finish(plan_commit(request, context.api_version, ImageLookup(broker.image), may_read))
    answer = OffsetCommitResponse()
    if plan.accepted.topics or not plan.refused:
        asked = group_request(context, plan.accepted)
        answer = cast(OffsetCommitResponse, await context.wait(broker.coordinators.ask(request.group_id, asked)))
    return await context.finish(join_commit(request, plan, answer)) if plan.refused else answer


async def act_offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Versions 1-10. v2 all topics and an error of the whole (KIP-88), v5 leader epoch (KIP-320), v7 require stable
    (KIP-447), v8 many groups (KIP-709), v9 member epoch (KIP-848), v10 topic ids (KIP-516).

    A group all of whose topics are asked for more than once is answered once: a short request would make a long answer.
    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()

    def may_describe(name: str) -> bool:
        return context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)

    groups = await _once_each(context, request.groups)
    found: list[OffsetFetchResponseGroup] = []
    response = OffsetFetchResponse()
    # version 8 and later ask of many groups, those before of one, which stands in the request itself
    for group in groups or (None,):
        some = () if group is None else (group,)
        asked = request if some == request.groups else msgspec.structs.replace(request, groups=some)
        plans = await context.finish(plan_fetch(asked, context.api_version, ImageLookup(broker.image), may_describe))
        answers = []
        for plan in plans:
            group_id = plan.request.group.group_id
            answer = await ask_group(broker, context, Operation.DESCRIBE, group_id, plan.request)
            answers.append(cast(OffsetFetchResponseGroup, answer))
        lookup = ImageLookup(broker.image)
        response = await context.finish(join_fetch(plans, tuple(answers), context.api_version, lookup, may_describe))
        found += response.groups
        await context.pause()
    if len(groups) > 1:
        response = OffsetFetchResponse(groups=tuple(found))
    return throttled(response, throttle_time_ms)


async def _once_each(
    context: RequestContext, groups: tuple[OffsetFetchRequestGroup, ...]
) -> Sequence[OffsetFetchRequestGroup]:
    if len(groups) < 2:
        return groups
    wanted: dict[str, None] = {}
    kept = []
    for group in groups:
        await context.pause()
        if group.topics is None:
            if group.group_id in wanted:
                continue
            wanted[group.group_id] = None
        kept.append(group)
    return kept
