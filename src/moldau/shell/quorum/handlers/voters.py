"""Voters are added, removed, and tell where they are reached now (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.core.raft.voter_protocol import VoterRequest, VoterResponse, encode_voter_refusal
from moldau.errors import KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER, CLUSTER_ACTION, Right
from moldau.wire.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole


async def act_add_raft_voter(
    quorum: QuorumRole, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Versions 0-1. KIP-853; v1 may be answered before the change is committed (KIP-1186).

    Ignored on purpose: nothing.
    """
    return cast(AddRaftVoterResponse, await _changed(quorum, context, ALTER_CLUSTER, request))


async def act_remove_raft_voter(
    quorum: QuorumRole, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Versions 0-0. KIP-853. Ignored on purpose: nothing."""
    return cast(RemoveRaftVoterResponse, await _changed(quorum, context, ALTER_CLUSTER, request))


async def act_update_raft_voter(
    quorum: QuorumRole, context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    """Version 0. KIP-853; voters that are configured (`controller.quorum.voters`) are not kept by the leader, as in a
    Kafka cluster of kraft.version 0 they would be: 35. Ignored on purpose: nothing."""
    return cast(UpdateRaftVoterResponse, await _changed(quorum, context, CLUSTER_ACTION, request))


async def _changed(quorum: QuorumRole, context: RequestContext, right: Right, request: VoterRequest) -> VoterResponse:
    context.throttle()
    try:
        context.check(right)
        return await context.wait(quorum.change_voters(request))
    except KafkaError as error:
        return encode_voter_refusal(request, error)
