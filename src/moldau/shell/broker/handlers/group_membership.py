"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: group membership, decided by the group's coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.groups.requests import GroupResponse
from moldau.shell.broker.handlers.groups import ask_group
from moldau.shell.network.context import RequestContext, throttled
from moldau.shell.network.rights import READ_GROUP
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

FEW_PROTOCOLS = 50
"""Clients usually have fewer. The sizes of this many are added up without a pause."""


async def act_join_group(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> GroupResponse:
    """Versions 0-9. v1 rebalance timeout (KIP-62), v4 member id first (KIP-394), v5 static members (KIP-345), v7
    protocol type (KIP-559), v8 reason (KIP-800), v9 the leader may skip the assignment (KIP-814).

    Answers when the join phase ends. Ignored on purpose: the reason, which Kafka only logs.
    """
    if len(request.protocols) <= FEW_PROTOCOLS:
        context.holds_values(sum(len(protocol.metadata) for protocol in request.protocols))
    return await _asked(broker, context, request)


async def act_sync_group(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> GroupResponse:
    """Versions 0-5. v3 static members (KIP-345), v4 flexible (KIP-482), v5 protocol type and name (KIP-559).

    Answers when the leader has sent the assignment. Ignored on purpose: nothing.
    """
    return await _asked(broker, context, request)


async def act_heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> GroupResponse:
    """Versions 0-4. v1 throttle time, v3 static members (KIP-345), v4 flexible (KIP-482).

    Ignored on purpose: nothing.
    """
    return await _asked(broker, context, request)


async def act_leave_group(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> GroupResponse:
    """Versions 0-5. v1 throttle time, v3 many members (KIP-345), v4 flexible (KIP-482), v5 reason (KIP-800).

    Ignored on purpose: the reason, which Kafka only logs.
    """
    return await _asked(broker, context, request)


async def _asked(
    broker: Broker,
    context: RequestContext,
    request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest,
) -> GroupResponse:
    throttle_time_ms = context.throttle()
    return throttled(await ask_group(broker, context, READ_GROUP, request.group_id, request), throttle_time_ms)
