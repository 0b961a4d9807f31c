"""Requests of the other nodes of the quorum: votes, epochs, the metadata log and its snapshots.

Each request becomes an event of the step machine, and the machine's answer becomes the response. A sender without the
right to act for the cluster gets 31, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.core.raft.protocol import QuorumRequest, QuorumResponse, encode_answer, encode_refusal
from moldau.errors import KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import CLUSTER_ACTION
from moldau.wire.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.wire.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole


async def act_vote(quorum: QuorumRole, context: RequestContext, request: VoteRequest) -> VoteResponse:
    """Versions 0-2. KIP-595; v1 directories (KIP-853), v2 pre-votes (KIP-996). Ignored on purpose: nothing."""
    return cast(VoteResponse, await _answered(quorum, context, request))


async def act_begin_quorum_epoch(
    quorum: QuorumRole, context: RequestContext, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    """Versions 0-1. KIP-595; v1 directories and addresses (KIP-853).

    Ignored on purpose: the leader's addresses, because the voters' addresses include them.
    """
    return cast(BeginQuorumEpochResponse, await _answered(quorum, context, request))


async def act_end_quorum_epoch(
    quorum: QuorumRole, context: RequestContext, request: EndQuorumEpochRequest
) -> EndQuorumEpochResponse:
    """Versions 0-1. KIP-595; v1 candidates with their directories (KIP-853).

    Ignored on purpose: the leader's addresses, because the voters' addresses include them.
    """
    return cast(EndQuorumEpochResponse, await _answered(quorum, context, request))


async def act_fetch(quorum: QuorumRole, context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Versions 4-18. KIP-595: of `__cluster_metadata` only; v17 the replica's directory (KIP-853), v18 its high
    watermark (KIP-1166).

    Ignored on purpose: sessions, which Kafka's quorum does not use either; the requested size (an answer has at most 1
    MiB).
    """
    return cast(FetchResponse, await _answered(quorum, context, request))


async def act_fetch_snapshot(
    quorum: QuorumRole, context: RequestContext, request: FetchSnapshotRequest
) -> FetchSnapshotResponse:
    """Versions 0-1. KIP-630; v1 the replica's directory (KIP-853).

    Ignored on purpose: the requested size (an answer has at most 1 MiB).
    """
    return cast(FetchSnapshotResponse, await _answered(quorum, context, request))


async def _answered(quorum: QuorumRole, context: RequestContext, request: QuorumRequest) -> QuorumResponse:
    context.throttle()
    try:
        context.check(CLUSTER_ACTION)
        asked, answer = quorum.asked(request)
        known = await context.wait(answer)
    except KafkaError as error:
        return encode_refusal(request, error)
    return encode_answer(request, asked, known, quorum.listener_of(known.leader_id, context.session.listener_name))
