"""DescribeGroups and ListGroups: what people and tools ask about groups."""

from __future__ import annotations

from collections.abc import Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import DescribeGroup, GroupRequest, GroupResponse
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.network.context import CLUSTER_NAME, Operation, RequestContext, Resource
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

GROUP_AUTHORIZATION_FAILED = ERROR_CODES["GROUP_AUTHORIZATION_FAILED"]
GROUP_OPERATIONS = (3, 6, 8, 10, 11)


def act_describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Coroutine[object, object, DescribeGroupsResponse]:
    """Versions 0-6. v3 authorized operations (KIP-430), v4 static members (KIP-345), v5 flexible, v6 error 69 for an
    unknown group (KIP-1043).

    Ignored on purpose: a group that is named twice is answered once, so that a short request cannot ask for a large
    group ten thousand times.
    """
    throttle_time_ms = context.throttle()
    answers: list[GroupResponse | Coroutine[object, object, GroupResponse]] = []
    for group_id in dict.fromkeys(request.groups):
        asked = GroupRequest(DescribeGroup(group_id), context.api_version, context.client_id, context.client_address)
        if context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id):
            answers.append(broker.coordinators.ask(group_id, asked))
        else:
            answers.append(refusal(asked, GROUP_AUTHORIZATION_FAILED))

    async def finish() -> DescribeGroupsResponse:
        groups = []
        for answer in answers:
            group = cast(DescribedGroup, await answer if isinstance(answer, CoroutineType) else answer)
            if request.include_authorized_operations and not group.error_code:
                operations = sum(
                    1 << code for code in GROUP_OPERATIONS if context.authorize(code, Resource.GROUP, group.group_id)
                )
                group = msgspec.structs.replace(group, authorized_operations=operations)
            groups.append(group)
        return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=tuple(groups))

    return finish()


def act_list_groups(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse | Coroutine[object, object, ListGroupsResponse]:
    """Versions 0-5. v1 throttle time, v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848).

    The list joins all shards of this broker. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    may_list_all = context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    asked = GroupRequest(request, context.api_version, context.client_id, context.client_address)
    try:
        shards = broker.coordinators.all_shards()
    except KafkaError as error:
        return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=error.code)
    answers = [broker.coordinators.ask_shard(shard, asked) for shard in shards]

    async def finish() -> ListGroupsResponse:
        groups = []
        for answer in answers:
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
