"""The response to DescribeQuorum (KIP-595, 836, 853)."""

from __future__ import annotations

import msgspec

from moldau.core.controller.requests import QuorumDescription, QuorumReplica
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from moldau.errors import ERROR_CODES
from moldau.types import ZERO_UUID
from moldau.wire.protocol.messages.cluster import (
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumReplicaState,
    QuorumTopic,
)

DIRECTORIES_AND_NODES_FROM = 2
NOT_LEADER_OR_FOLLOWER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]


def quorum_response(quorum: QuorumDescription) -> DescribeQuorumResponse:
    """The response in its highest version. Only the leader knows the progress of the replicas. Other nodes name the
    leader, with NOT_LEADER_OR_FOLLOWER."""
    partition = QuorumPartition(
        error_code=0 if quorum.voters else NOT_LEADER_OR_FOLLOWER,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=tuple(_state(replica) for replica in quorum.voters),
        observers=tuple(_state(replica) for replica in quorum.observers),
    )
    nodes = tuple(
        QuorumNode(node_id, tuple(QuorumListener(point.name, point.host, point.port) for point in points))
        for node_id, points in sorted(quorum.listeners.items())
    )
    return DescribeQuorumResponse(topics=(QuorumTopic(CLUSTER_METADATA_TOPIC, (partition,)),), nodes=nodes)


def _state(replica: QuorumReplica) -> QuorumReplicaState:
    return QuorumReplicaState(
        replica_id=replica.replica_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=-1 if replica.fetched_ms is None else replica.fetched_ms,
        last_caught_up_timestamp=-1 if replica.caught_up_ms is None else replica.caught_up_ms,
    )


def in_version(response: DescribeQuorumResponse, version: int) -> DescribeQuorumResponse:
    """`response` without fields that an older version lacks."""
    if version >= DIRECTORIES_AND_NODES_FROM:
        return response
    topics = tuple(
        msgspec.structs.replace(topic, partitions=tuple(_without_directories(each) for each in topic.partitions))
        for topic in response.topics
    )
    return msgspec.structs.replace(response, topics=topics, nodes=())


def _without_directories(partition: QuorumPartition) -> QuorumPartition:
    voters, observers = (
        tuple(msgspec.structs.replace(state, replica_directory_id=ZERO_UUID) for state in states)
        for states in (partition.current_voters, partition.observers)
    )
    return msgspec.structs.replace(partition, current_voters=voters, observers=observers)
