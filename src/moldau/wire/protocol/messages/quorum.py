"""The messages of the quorum, except Fetch: votes, epochs and snapshots (KIP-595, 630, 853, 996).

Between nodes only, on the controller's listener, about one partition: `__cluster_metadata`-0.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int16, Int32, Int64, Records, Request, Uint16, message, wire


class LeaderNode(msgspec.Struct, frozen=True):
    """The address of the leader in a response."""

    node_id: Annotated[Int32, wire("1+")] = 0
    host: Annotated[str, wire("1+")] = ""
    port: Annotated[Uint16, wire("1+")] = 0


class LeaderEndpoint(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("1+")] = ""
    host: Annotated[str, wire("1+")] = ""
    port: Annotated[Uint16, wire("1+")] = 0


# --- Vote ---


class VotePartition(msgspec.Struct, frozen=True):
    """`replica_epoch`: the epoch that the candidate wants to lead, in a pre-vote its own epoch."""

    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, wire("1+", ignorable=True)] = ZERO_UUID
    voter_directory_id: Annotated[Uuid, wire("1+", ignorable=True)] = ZERO_UUID
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: Annotated[bool, wire("2+")] = False


class VoteTopic(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[VotePartition, ...] = ()


@message(versions="0-2", flexible="0+")
class VoteRequest(Request["VoteResponse"], frozen=True):
    """A candidate asks `voter_id` for its vote. v1 directories (KIP-853), v2 pre-votes (KIP-996)."""

    cluster_id: Annotated[str | None, wire(nullable="0+")] = None
    voter_id: Annotated[Int32, wire("1+", ignorable=True)] = -1
    topics: tuple[VoteTopic, ...] = ()


class VotePartitionResult(msgspec.Struct, frozen=True):
    """`leader_id` -1: no known leader of `leader_epoch`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: bool = False


class VoteTopicResult(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[VotePartitionResult, ...] = ()


@message(versions="0-2", flexible="0+")
class VoteResponse(msgspec.Struct, frozen=True):
    """v1 address of the leader (KIP-853)."""

    error_code: Int16 = 0
    topics: tuple[VoteTopicResult, ...] = ()
    node_endpoints: Annotated[tuple[LeaderNode, ...], wire("1+", tag=0)] = ()


# --- BeginQuorumEpoch, EndQuorumEpoch ---


class BeginQuorumEpochPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    voter_directory_id: Annotated[Uuid, wire("1+", ignorable=True)] = ZERO_UUID
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochTopic(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[BeginQuorumEpochPartition, ...] = ()


@message(versions="0-1", flexible="1+")
class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"], frozen=True):
    """A leader announces itself to `voter_id`. v1 directories, and its address (KIP-853)."""

    cluster_id: Annotated[str | None, wire(nullable="0+")] = None
    voter_id: Annotated[Int32, wire("1+", ignorable=True)] = -1
    topics: tuple[BeginQuorumEpochTopic, ...] = ()
    leader_endpoints: Annotated[tuple[LeaderEndpoint, ...], wire("1+", ignorable=True)] = ()


class QuorumEpochPartition(msgspec.Struct, frozen=True):
    """The quorum as this node knows it."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class QuorumEpochTopic(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[QuorumEpochPartition, ...] = ()


@message(versions="0-1", flexible="1+")
class BeginQuorumEpochResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    topics: tuple[QuorumEpochTopic, ...] = ()
    node_endpoints: Annotated[tuple[LeaderNode, ...], wire("1+", tag=0)] = ()


class PreferredCandidate(msgspec.Struct, frozen=True):
    candidate_id: Annotated[Int32, wire("1+")] = 0
    candidate_directory_id: Annotated[Uuid, wire("1+")] = ZERO_UUID


class EndQuorumEpochPartition(msgspec.Struct, frozen=True):
    """The preferred successors, the best first."""

    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    preferred_successors: Annotated[tuple[Int32, ...], wire("0", ignorable=True)] = ()
    preferred_candidates: Annotated[tuple[PreferredCandidate, ...], wire("1+", ignorable=True)] = ()


class EndQuorumEpochTopic(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[EndQuorumEpochPartition, ...] = ()


@message(versions="0-1", flexible="1+")
class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"], frozen=True):
    """A leader resigns. v1 candidates with their directories in place of successors (KIP-853)."""

    cluster_id: Annotated[str | None, wire(nullable="0+")] = None
    topics: tuple[EndQuorumEpochTopic, ...] = ()
    leader_endpoints: Annotated[tuple[LeaderEndpoint, ...], wire("1+", ignorable=True)] = ()


@message(versions="0-1", flexible="1+")
class EndQuorumEpochResponse(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    topics: tuple[QuorumEpochTopic, ...] = ()
    node_endpoints: Annotated[tuple[LeaderNode, ...], wire("1+", tag=0)] = ()


# --- FetchSnapshot ---


class SnapshotId(msgspec.Struct, frozen=True):
    end_offset: Int64 = 0
    epoch: Int32 = 0


class FetchSnapshotPartition(msgspec.Struct, frozen=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = SnapshotId()
    position: Int64 = 0
    replica_directory_id: Annotated[Uuid, wire("1+", tag=0, ignorable=True)] = ZERO_UUID


class FetchSnapshotTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[FetchSnapshotPartition, ...] = ()


@message(versions="0-1", flexible="0+")
class FetchSnapshotRequest(Request["FetchSnapshotResponse"], frozen=True):
    """The bytes of a snapshot from `position` on. v1 the directory of the replica (KIP-853)."""

    cluster_id: Annotated[str | None, wire(nullable="0+", tag=0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: tuple[FetchSnapshotTopic, ...] = ()


class CurrentLeader(msgspec.Struct, frozen=True):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class FetchSnapshotPartitionResult(msgspec.Struct, frozen=True):
    """`size`: of the whole snapshot. `unaligned_records` may begin and end within a batch."""

    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = SnapshotId()
    current_leader: Annotated[CurrentLeader, wire("0+", tag=0)] = CurrentLeader()
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


class FetchSnapshotTopicResult(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[FetchSnapshotPartitionResult, ...] = ()


@message(versions="0-1", flexible="0+")
class FetchSnapshotResponse(msgspec.Struct, frozen=True):
    """v1 address of the leader (KIP-853)."""

    throttle_time_ms: Annotated[Int32, wire(ignorable=True)] = 0
    error_code: Int16 = 0
    topics: tuple[FetchSnapshotTopicResult, ...] = ()
    node_endpoints: Annotated[tuple[LeaderNode, ...], wire("1+", tag=0)] = ()
