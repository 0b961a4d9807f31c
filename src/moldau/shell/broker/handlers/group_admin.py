"""DescribeGroups and ListGroups: what people and tools ask about groups."""

from __future__ import annotations

from collections.abc import Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.classic.group import GroupState
from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import DescribeGroup, GroupRequest, GroupResponse
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.broker.handlers.slices import slices
from moldau.shell.network.context import CLUSTER_NAME, Operation, RequestContext, Resource
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

GROUP_AUTHORIZATION_FAILED = ERROR_CODES["GROUP_AUTHORIZATION_FAILED"]
GROUPS_AT_ONCE = 10
"""Described between two turns of the loop: each may have a hundred members."""
SHARDS_AT_ONCE = 10
"""Asked for their groups between two turns of the loop."""
WORDS_AT_ONCE = 2_000
STATES = tuple(state.value.lower() for state in GroupState)
TYPES = ("classic",)
GROUP_OPERATIONS = (3, 6, 8, 10, 11)


def act_describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Coroutine[object, object, DescribeGroupsResponse]:
    """Versions 0-6. v3 authorized operations (KIP-430), v4 static members (KIP-345), v5 flexible, v6 error 69 for an
    unknown group (KIP-1043).

    Many groups are described in slices. Ignored on purpose: a group that is named twice is answered once, so that a
    short request cannot ask for a large group ten thousand times.
    """
    throttle_time_ms = context.throttle()

    def describe(group_id: str) -> GroupResponse | Coroutine[object, object, GroupResponse]:
        asked = GroupRequest(DescribeGroup(group_id), context.api_version, context.client_id, context.client_address)
        if context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id):
            return broker.coordinators.ask(group_id, asked)
        return refusal(asked, GROUP_AUTHORIZATION_FAILED)

    def with_operations(group: DescribedGroup) -> DescribedGroup:
        if group.error_code or not request.include_authorized_operations:
            return group
        operations = sum(
            1 << code for code in GROUP_OPERATIONS if context.authorize(code, Resource.GROUP, group.group_id)
        )
        return msgspec.structs.replace(group, authorized_operations=operations)

    names = list(dict.fromkeys(request.groups))
    first = [describe(name) for name in names[:GROUPS_AT_ONCE]]

    async def finish() -> DescribeGroupsResponse:
        groups = [with_operations(await _described(answer)) for answer in first]
        async for some in slices(names[GROUPS_AT_ONCE:], GROUPS_AT_ONCE):
            groups += [with_operations(await _described(answer)) for answer in [describe(name) for name in some]]
        return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=tuple(groups))

    return finish()


async def _described(answer: GroupResponse | Coroutine[object, object, GroupResponse]) -> DescribedGroup:
    return cast(DescribedGroup, await answer if isinstance(answer, CoroutineType) else answer)


def act_list_groups(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse | Coroutine[object, object, ListGroupsResponse]:
    """Versions 0-5. v1 throttle time, v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848).

    The list joins all shards of this broker, a slice of them at a time. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    may_list_all = context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    try:
        shards = broker.coordinators.all_shards()
    except KafkaError as error:
        return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=error.code)

    async def finish() -> ListGroupsResponse:
        filters = ListGroupsRequest(
            states_filter=await _words(request.states_filter, STATES),
            types_filter=await _words(request.types_filter, TYPES),
        )
        asked = GroupRequest(filters, context.api_version, context.client_id, context.client_address)
        groups: list[ListedGroup] = []
        async for some in slices(shards, SHARDS_AT_ONCE):
            for answer in [broker.coordinators.ask_shard(shard, asked) for shard in some]:
                part = cast(ListGroupsResponse, await answer if isinstance(answer, CoroutineType) else answer)
                if part.error_code:
                    return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=part.error_code)
                groups += [
                    group
                    for group in part.groups
                    if may_list_all or context.authorize(Operation.DESCRIBE, Resource.GROUP, group.group_id)
                ]
        return ListGroupsResponse(throttle_time_ms=throttle_time_ms, groups=tuple(groups))

    return finish()


async def _words(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """A filter that lets the same groups through and is short: every group is compared with each of its words."""
    found: dict[str, None] = {}
    async for some in slices(names, WORDS_AT_ONCE):
        found |= {word: None for name in some if (word := name.strip().lower()) in known}
    return tuple(found) or names[:1]
