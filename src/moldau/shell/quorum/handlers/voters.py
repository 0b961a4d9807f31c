"""Updates the addresses of voters (KIP-853)."""

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
    """Version 0. KIP-853. If the voters are configured (`controller.quorum.voters`), the leader does not store them and
    answers 35, as a Kafka cluster of kraft.version 0 would. Ignored on purpose: nothing."""
    context.throttle()
    try:
        context.check(CLUSTER_ACTION)
        response = await context.wait(quorum.change_voters(request, context.session.listener_name))
    except KafkaError as error:
        response = encode_voter_refusal(request, error)
    return cast(UpdateRaftVoterResponse, response)
