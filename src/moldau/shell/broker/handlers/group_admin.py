"""DescribeGroups and ListGroups: requests of administrators about groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.groups.describe import shortened
from moldau.core.groups.requests import DescribeGroup
from moldau.shell.broker.handlers.groups import ask_group, group_request
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP, GROUP_RIGHTS
from moldau.types import distinct
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

ONE_SHARD = 10
"""Asking a shard without groups takes as long as listing this many groups."""


async def act_describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Versions 0-6. v3 authorized operations (KIP-430), v4 static members (KIP-345), v5 flexible, v6 error 69 for an
    unknown group (KIP-1043).

    Ignored on purpose: a group that is named twice is answered once. A short request cannot ask for a large group ten
    thousand times.
    """
    throttle_time_ms = context.throttle()
    groups = []
    for group_id in distinct(request.groups):
        group = await ask_group(broker, context, DESCRIBE_GROUP, group_id, DescribeGroup(group_id))
        group = cast(DescribedGroup, group)
        if request.include_authorized_operations and not group.error_code:
            operations = context.authorized_operations(GROUP_RIGHTS, group_id)
            group = msgspec.structs.replace(group, authorized_operations=operations)
        groups.append(group)
        await context.pause(1 + len(group.members))
    return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=tuple(groups))


async def act_list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Versions 0-5. v1 throttle time, v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848).

    The list joins all shards of this broker that serve. Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    may_list_all = context.authorize(DESCRIBE_CLUSTER)
    asked = group_request(context, await context.finish(shortened(request)))
    groups: list[ListedGroup] = []
    for shard in broker.coordination.groups.all_shards():
        part = cast(ListGroupsResponse, await context.wait(broker.coordination.groups.ask("", asked, shard)))
        if part.error_code and shard.is_left_out_of_lists:
            continue
        if part.error_code:
            return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=part.error_code)
        groups += [group for group in part.groups if may_list_all or context.authorize(DESCRIBE_GROUP, group.group_id)]
        await context.pause(len(part.groups) + ONE_SHARD)
    return ListGroupsResponse(throttle_time_ms=throttle_time_ms, groups=tuple(groups))
