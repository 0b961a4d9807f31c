"""Fetch: read record batches, for consumers and for replicas (KIP-227, 392, 595, 951)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, Records, Request, message, wire


class ReplicaState(msgspec.Struct, frozen=True):
    replica_id: Annotated[Int32, wire("15+")] = -1
    replica_epoch: Annotated[Int64, wire("15+")] = -1


class FetchPartition(msgspec.Struct, frozen=True):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, wire("9+", ignorable=True)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, wire("12+")] = -1
    log_start_offset: Annotated[Int64, wire("5+", ignorable=True)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, wire("17+", tag=0, ignorable=True)] = ZERO_UUID
    high_watermark: Annotated[Int64, wire("18+", tag=1, ignorable=True)] = 9_223_372_036_854_775_807


class FetchTopic(msgspec.Struct, frozen=True):
    topic: Annotated[str, wire("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("13+", ignorable=True)] = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(msgspec.Struct, frozen=True):
    topic: Annotated[str, wire("7-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[Int32, ...], wire("7+")] = ()


@message(versions="4-18", flexible="12+")
class FetchRequest(Request["FetchResponse"], frozen=True):
    """Reads batches from each partition. Waits up to `max_wait_ms` for `min_bytes`.

    v4 isolation level (KIP-98); v5 log start offset (KIP-107); v7 sessions (KIP-227); v9 leader epoch (KIP-320); v10
    zstd; v11 rack (KIP-392); v12 last fetched epoch, for replicas and the quorum (KIP-595); v13 topic ids (KIP-516);
    v14 tiered storage (KIP-405); v15 the replica's state in one struct (KIP-903); v16 changes the response only; v17
    replica directory (KIP-853); v18 the replica's high watermark (KIP-1166).
    """

    cluster_id: Annotated[str | None, wire("12+", nullable="12+", tag=0, ignorable=True)] = None
    replica_id: Annotated[Int32, wire("0-14")] = -1
    replica_state: Annotated[ReplicaState, wire("15+", tag=1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2_147_483_647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, wire("7+", ignorable=True)] = 0
    session_epoch: Annotated[Int32, wire("7+", ignorable=True)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], wire("7+")] = ()
    rack_id: Annotated[str, wire("11+", ignorable=True)] = ""


class EpochEndOffset(msgspec.Struct, frozen=True):
    epoch: Annotated[Int32, wire("12+")] = -1
    end_offset: Annotated[Int64, wire("12+")] = -1


class LeaderIdAndEpoch(msgspec.Struct, frozen=True):
    leader_id: Annotated[Int32, wire("12+")] = -1
    leader_epoch: Annotated[Int32, wire("12+")] = -1


class SnapshotId(msgspec.Struct, frozen=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(msgspec.Struct, frozen=True):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, wire("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, wire("12+", tag=0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, wire("12+", tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, wire("12+", tag=2)] = SnapshotId()
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, wire(nullable="0+")] = ()
    preferred_read_replica: Annotated[Int32, wire("11+")] = -1
    records: Annotated[Records | None, wire(nullable="0+")] = None


class FetchableTopicResponse(msgspec.Struct, frozen=True):
    topic: Annotated[str, wire("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("13+", ignorable=True)] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(msgspec.Struct, frozen=True):
    node_id: Annotated[Int32, wire("16+")] = 0
    host: Annotated[str, wire("16+")] = ""
    port: Annotated[Int32, wire("16+")] = 0
    rack: Annotated[str | None, wire("16+", nullable="16+")] = None


@message(versions="4-18", flexible="12+")
class FetchResponse(msgspec.Struct, frozen=True):
    """Whole batches of each partition. The first one may be larger than requested.

    v4 last stable offset and aborted transactions (KIP-98); v5 log start offset; v7 session and top-level error
    (KIP-227); v11 preferred read replica (KIP-392); v12 diverging epoch, leader and snapshot (KIP-595); v13 topic ids;
    v16 addresses of leaders (KIP-951).
    """

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, wire("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, wire("7+")] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], wire("16+", tag=0)] = ()
