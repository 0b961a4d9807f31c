"""Produce: append record batches (KIP-98, 516, 890, 951)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int16, Int32, Int64, Records, Request, message, wire


class PartitionProduceData(msgspec.Struct, frozen=True):
    index: Int32 = 0
    records: Annotated[Records | None, wire(nullable="0+")] = None


class TopicProduceData(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("13+", ignorable=True)] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


@message(versions="3-13", flexible="9+")
class ProduceRequest(Request["ProduceResponse"], frozen=True):
    """Appends one record batch for each partition. `acks`: 0 none (no response), 1 the leader, -1 all in-sync replicas.

    v3 batches of format 2 and transactions (KIP-98); v7 zstd (KIP-110); v8 and v10 change the response only; v11 and
    v12 transactions of KIP-890 (v12: the produce itself adds the partition to its transaction); v13 topic ids
    (KIP-516). v0-2 are advertised for old librdkafka (KAFKA-18659) but not supported.
    """

    transactional_id: Annotated[str | None, wire(nullable="0+")] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(msgspec.Struct, frozen=True):
    batch_index: Annotated[Int32, wire("8+")] = 0
    batch_index_error_message: Annotated[str | None, wire("8+", nullable="8+")] = None


class LeaderIdAndEpoch(msgspec.Struct, frozen=True):
    leader_id: Annotated[Int32, wire("10+")] = -1
    leader_epoch: Annotated[Int32, wire("10+")] = -1


class PartitionProduceResponse(msgspec.Struct, frozen=True):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, wire("5+", ignorable=True)] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], wire("8+", ignorable=True)] = ()
    error_message: Annotated[str | None, wire("8+", nullable="8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, wire("10+", tag=0)] = LeaderIdAndEpoch()


class TopicProduceResponse(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("13+", ignorable=True)] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(msgspec.Struct, frozen=True):
    node_id: Annotated[Int32, wire("10+")] = 0
    host: Annotated[str, wire("10+")] = ""
    port: Annotated[Int32, wire("10+")] = 0
    rack: Annotated[str | None, wire("10+", nullable="10+")] = None


@message(versions="3-13", flexible="9+")
class ProduceResponse(msgspec.Struct, frozen=True):
    """The base offset for each partition, or its error.

    v5 log start offset; v8 errors of single records (KIP-467); v10 leader hints and their addresses (KIP-951); v13
    topic ids.
    """

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], wire("10+", tag=0)] = ()
