"""Rejects consumer groups with server-side assignment (KIP-848), as Kafka does at `group.version` 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.shell.network.context import RequestContext
from moldau.shell.network.event_log import escape
from moldau.shell.network.rights import DESCRIBE_GROUP, READ_GROUP
from moldau.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]


async def act_consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Versions 0-1. KIP-848; v1 subscriptions by pattern. 35 for every group. Ignored on purpose: nothing."""
    code = UNSUPPORTED_VERSION
    if not context.authorize(READ_GROUP, request.group_id):
        code = READ_GROUP.refusal
    broker.own_node.log.warn(
        "not served: group.protocol=consumer",
        f"client {escape(context.client_id or '')} at {context.session.client_address} asks for "
        f"group.protocol=consumer (group {escape(request.group_id)}), which is not served: use group.protocol=classic",
    )
    return ConsumerGroupHeartbeatResponse(throttle_time_ms=context.throttle(), error_code=code)


async def act_consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Versions 0-1. KIP-848; v1 member types. 35 for every group. Ignored on purpose: nothing."""
    groups = []
    for group_id in request.group_ids:
        may_describe = context.authorize(DESCRIBE_GROUP, group_id)
        code = UNSUPPORTED_VERSION if may_describe else DESCRIBE_GROUP.refusal
        groups.append(DescribedConsumerGroup(code, group_id=group_id))
        await context.pause()
    return ConsumerGroupDescribeResponse(throttle_time_ms=context.throttle(), groups=tuple(groups))
