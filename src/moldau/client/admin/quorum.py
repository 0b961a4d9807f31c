"""The quorum of the metadata log: leader, voters, observers and their lag (KIP-595, 836)."""

from __future__ import annotations

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.errors import KafkaError, kafka_error
from moldau.types import METADATA_PARTITION, ZERO_UUID, Uuid
from moldau.wire.protocol.messages.cluster import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    QuorumReplicaState,
)
from moldau.wire.protocol.messages.raft_records import Endpoint
from moldau.wire.protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest

LEADER, FOLLOWER, OBSERVER = "Leader", "Follower", "Observer"
_WITHOUT_CONTROLLER = (
    "BROKER_NOT_AVAILABLE",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
)


class QuorumReplica(msgspec.Struct, frozen=True):
    """One node. Times are in ms since 1970; None if the leader has not heard from it. `endpoints`:
    listener://host:port, for voters only. `directory_id` is None if the voters are static settings instead of records
    in the log."""

    node_id: int
    directory_id: Uuid | None
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    status: str
    endpoints: tuple[str, ...] = ()


class QuorumInfo(msgspec.Struct, frozen=True):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def leader(self) -> QuorumReplica:
        """Raises LEADER_NOT_AVAILABLE if the leader is no longer a voter."""
        for replica in (*self.voters, *self.observers):
            if replica.node_id == self.leader_id:
                return replica
        raise kafka_error("LEADER_NOT_AVAILABLE", "the quorum has no leader")

    def lag_of(self, replica: QuorumReplica) -> int:
        """The number of records that `replica` is behind the leader."""
        return self.leader.log_end_offset - replica.log_end_offset


def add_voter(
    admin: ClusterAdmin, node_id: int, directory_id: Uuid, endpoints: tuple[tuple[str, str, int], ...]
) -> None:
    """Makes an observer a voter. `endpoints`: listener, host and port. Raises KafkaError: DUPLICATE_VOTER;
    REQUEST_TIMED_OUT if the node is not reachable or not near the end of the log."""
    points = tuple(Endpoint(*point) for point in endpoints)
    answer = admin.ask(AddRaftVoterRequest(None, admin.request_timeout_ms, node_id, directory_id, points))
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)


def remove_voter(admin: ClusterAdmin, node_id: int, directory_id: Uuid) -> None:
    """Makes a voter an observer. Raises KafkaError: VOTER_NOT_FOUND."""
    answer = admin.ask(RemoveRaftVoterRequest(None, node_id, directory_id))
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)


def has_controller(admin: ClusterAdmin) -> bool:
    """Whether the contacted broker has an active controller. True also if the client may not ask, or cannot."""
    try:
        describe_quorum(admin)
    except KafkaError as error:
        return not is_without_controller(error)
    return True


def is_without_controller(error: KafkaError) -> bool:
    """Whether DescribeQuorum failed because the contacted broker knows no active controller."""
    return error.name in _WITHOUT_CONTROLLER


def describe_quorum(admin: ClusterAdmin) -> QuorumInfo:
    """Also raises KafkaError while the quorum has no leader."""
    topic = DescribeQuorumTopic(METADATA_PARTITION.topic, (DescribeQuorumPartition(0),))
    answer = admin.ask(DescribeQuorumRequest((topic,)))
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        raise error_of(partition.error_code, partition.error_message)
    endpoints = {
        node.node_id: tuple(f"{point.name}://{point.host}:{point.port}" for point in node.listeners)
        for node in answer.nodes
    }

    def replica(row: QuorumReplicaState, status: str) -> QuorumReplica:
        return QuorumReplica(
            row.replica_id,
            None if row.replica_directory_id == ZERO_UUID else row.replica_directory_id,
            row.log_end_offset,
            row.last_fetch_timestamp if row.last_fetch_timestamp >= 0 else None,
            row.last_caught_up_timestamp if row.last_caught_up_timestamp >= 0 else None,
            LEADER if row.replica_id == partition.leader_id else status,
            endpoints.get(row.replica_id, ()),
        )

    return QuorumInfo(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        tuple(replica(row, FOLLOWER) for row in partition.current_voters),
        tuple(replica(row, OBSERVER) for row in partition.observers),
    )
