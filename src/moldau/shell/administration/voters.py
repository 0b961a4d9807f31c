"""Adds and removes voters of the quorum by the active controller's decision (KIP-853)."""

from __future__ import annotations

from typing import cast

from moldau.core.raft.voter_protocol import VoterRequest, VoterResponse, encode_voter_refusal
from moldau.errors import KafkaError
from moldau.shell.administration.asking import Administered, ask_controller
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER
from moldau.types import Pausing
from moldau.wire.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


async def act_add_raft_voter(
    node: Administered, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Versions 0-1. KIP-853; v1 allows an answer before the change is committed (KIP-1186).

    Ignored on purpose: nothing.
    """
    return cast(AddRaftVoterResponse, await ask_controller(node, context, ALTER_CLUSTER, request, _refused))


async def act_remove_raft_voter(
    node: Administered, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Versions 0-0. KIP-853. Ignored on purpose: nothing."""
    return cast(RemoveRaftVoterResponse, await ask_controller(node, context, ALTER_CLUSTER, request, _refused))


def _refused(request: VoterRequest, error: KafkaError) -> Pausing[VoterResponse]:
    yield
    return encode_voter_refusal(request, error)
