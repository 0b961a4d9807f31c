"""Voters tell where they are reached now (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.core.raft.voter_protocol import encode_voter_refusal
from moldau.errors import KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_ACTION
from moldau.wire.protocol.messages.raft_voters import UpdateRaftVoterRequest, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole


async def act_update_raft_voter(
    quorum: QuorumRole, context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    """Version 0. KIP-853; voters that are configured (`controller.quorum.voters`) are not kept by the leader, as in a
    Kafka cluster of kraft.version 0 they would be: 35. Ignored on purpose: nothing."""
    context.throttle()
    try:
        context.check(CLUSTER_ACTION)
        response = await context.wait(quorum.change_voters(request, context.session.listener_name))
    except KafkaError as error:
        response = encode_voter_refusal(request, error)
    return cast(UpdateRaftVoterResponse, response)
