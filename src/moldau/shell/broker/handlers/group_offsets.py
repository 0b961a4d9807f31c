"""OffsetCommit and OffsetFetch: where a group stands, asked of the group's coordinator."""

from __future__ import annotations

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
        return cast(OffsetCommitResponse, refusal(whole, GROUP_AUTHORIZATION_FAILED))
    if request.group_id == "":
        return cast(OffsetCommitResponse, refusal(whole, INVALID_GROUP_ID))

    def may_read(name: str) -> bool:
        return context.authorize(Operation.READ, Resource.TOPIC, name)

    plan = plan_commit(request, context.api_version, ImageLookup(broker.image), may_read)
    if not plan.accepted.topics and plan.refused:
        return join_commit(request, plan, OffsetCommitResponse())
    answer = await context.wait(broker.coordinators.ask(request.group_id, group_request(context, plan.accepted)))
    return join_commit(request, plan, cast(OffsetCommitResponse, answer))


async def act_offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Versions 1-10. v2 all topics and an error of the whole (KIP-88), v5 leader epoch (KIP-320), v7 require stable
    (KIP-447), v8 many groups (KIP-709), v9 member epoch (KIP-848), v10 topic ids (KIP-516).

    A group all of whose topics are asked for more than once is answered once: a short request would make a long answer.
    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()

    def may_describe(name: str) -> bool:
        return context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)

    groups = _once_each(request.groups)
    found: list[OffsetFetchResponseGroup] = []
    response = OffsetFetchResponse()
    # version 8 and later ask of many groups, those before of one, which stands in the request itself
    each: list[tuple[OffsetFetchRequestGroup, ...]] = [(group,) for group in groups] or [()]
    for some in each:
        asked = request if some == request.groups else msgspec.structs.replace(request, groups=some)
        plans = plan_fetch(asked, context.api_version, ImageLookup(broker.image), may_describe)
        answers = []
        for plan in plans:
            group_id = plan.request.group.group_id
            answer = await ask_group(broker, context, Operation.DESCRIBE, group_id, plan.request)
            answers.append(cast(OffsetFetchResponseGroup, answer))
        lookup = ImageLookup(broker.image)
        response = join_fetch(plans, tuple(answers), context.api_version, lookup, may_describe)
        found += response.groups
        await context.pause(1 + sum(len(group.topics) for group in response.groups))
    if len(groups) > 1:
        response = OffsetFetchResponse(groups=tuple(found))
    return throttled(response, throttle_time_ms)


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
