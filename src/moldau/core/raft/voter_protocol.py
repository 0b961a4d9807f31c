"""Encodes and decodes voter changes: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.

Operators send them, and a node for itself. Errors are KafkaError with Kafka's messages.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from moldau.core.metadata.features import KRAFT_VERSION
from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.messages import AddVoter, RemoveVoter, Standing, UpdateVoter, VoterChange, VoterChangeAnswer
from moldau.core.raft.voter_changes import named
from moldau.core.raft.voters import ReplicaKey
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.types import ZERO_UUID, BrokerId
from moldau.wire.protocol.messages.raft_records import KRaftVersionFeature, VotersRecordVoter
from moldau.wire.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    CurrentLeader,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

FINALIZED_KRAFT_VERSION = 1
"""The only level at which voters can change."""

VoterRequest: TypeAlias = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
VoterResponse: TypeAlias = AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse


def encode_change(change: VoterChange, cluster_id: str, timeout_ms: int) -> VoterRequest:
    """The request of a node for itself."""
    match change:
        case AddVoter():
            voter, ack = change.voter, change.is_answered_when_committed
            id_and_directory = voter.voter_id, voter.voter_directory_id
            return AddRaftVoterRequest(cluster_id, timeout_ms, *id_and_directory, voter.endpoints, ack)
        case RemoveVoter():
            return RemoveRaftVoterRequest(cluster_id, change.voter.node_id, change.voter.directory_id)
        case UpdateVoter():
            voter = change.voter
            return UpdateRaftVoterRequest(
                cluster_id,
                change.leader_epoch,
                voter.voter_id,
                voter.voter_directory_id,
                voter.endpoints,
                voter.kraft_version_feature,
            )


def decode_change(request: VoterRequest, cluster_id: str, listener: str) -> VoterChange:
    """`listener`: the controller listener, which a voter must have. The versions of a new voter are checked later, see
    `with_kraft_versions`. Raises INCONSISTENT_CLUSTER_ID, INVALID_REQUEST."""
    if request.cluster_id not in (None, cluster_id):
        raise kafka_error(
            "INCONSISTENT_CLUSTER_ID",
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"',
        )
    kind = type(request).__name__.removesuffix("RaftVoterRequest")
    key = ReplicaKey(BrokerId(request.voter_id), request.voter_directory_id)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise kafka_error("INVALID_REQUEST", f"{kind} voter request didn't include a valid voter")
    if isinstance(request, RemoveRaftVoterRequest):
        return RemoveVoter(key)
    if all(endpoint.name != listener for endpoint in request.listeners):
        shown = ", ".join(f"{each.name}={each.host}:{each.port}" for each in request.listeners)
        raise kafka_error(
            "INVALID_REQUEST",
            f"{kind} voter request didn't include the endpoint ({{{shown}}}) for the default listener {listener}",
        )
    voter = VotersRecordVoter(key.node_id, key.directory_id, request.listeners)
    if isinstance(request, AddRaftVoterRequest):
        return AddVoter(voter, request.ack_when_committed)
    supported = request.kraft_version_feature
    voter = with_kraft_versions(voter, supported.min_supported_version, supported.max_supported_version)
    return UpdateVoter(voter, is_answered_when_committed=False, leader_epoch=request.current_leader_epoch)


def with_kraft_versions(voter: VotersRecordVoter, min_version: int, max_version: int) -> VotersRecordVoter:
    """`voter` with its versions of `kraft.version`. Raises INVALID_REQUEST if they do not suffice."""
    if not min_version <= FINALIZED_KRAFT_VERSION <= max_version:
        name = named(ReplicaKey(BrokerId(voter.voter_id), voter.voter_directory_id))
        raise kafka_error(
            "INVALID_REQUEST",
            f"Aborted add voter operation for {name} since the {KRAFT_VERSION} range (min: {min_version}, "
            f"max: {max_version} doesn't support the finalized version {FINALIZED_KRAFT_VERSION}",
        )
    return msgspec.structs.replace(voter, kraft_version_feature=KRaftVersionFeature(min_version, max_version))


def encode_outcome(request: VoterRequest, outcome: Standing, leader: BrokerListener | None) -> VoterResponse:
    """The response to `request`. `leader`: the address of the node that the outcome names."""
    code = ERROR_CODES[outcome.error] if outcome.error else 0
    message = (isinstance(outcome, VoterChangeAnswer) and outcome.message) or None
    if code and message is None:
        message = kafka_error(outcome.error).message
    match request:
        case AddRaftVoterRequest():
            return AddRaftVoterResponse(0, code, message)
        case RemoveRaftVoterRequest():
            return RemoveRaftVoterResponse(0, code, message)
        case UpdateRaftVoterRequest():
            known = CurrentLeader()
            if leader is not None:
                known = CurrentLeader(outcome.leader_id, outcome.leader_epoch, leader.host, leader.port)
            return UpdateRaftVoterResponse(0, code, known)


def encode_voter_refusal(request: VoterRequest, error: KafkaError) -> VoterResponse:
    """The response to a request that is rejected before the quorum decides."""
    return encode_outcome(request, VoterChangeAnswer(error.name, message=error.message or ""), None)
