"""InitProducerId (KIP-98, 360), AllocateProducerIds (KIP-730), DescribeProducers (KIP-664)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message, wire


@message(versions="0-6", flexible="2+")
class InitProducerIdRequest(Request["InitProducerIdResponse"], frozen=True):
    """A producer id for idempotence (no transactional id), or that of a transactional id with its next epoch.

    v3 a known id and epoch, to recover from an error (KIP-360); v4 PRODUCER_FENCED in the response; v5 transactions v2
    (KIP-890); v6, two-phase commit (KIP-939), exists but is not advertised.
    """

    transactional_id: Annotated[str | None, wire(nullable="0+")] = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, wire("3+")] = -1
    producer_epoch: Annotated[Int16, wire("3+")] = -1
    enable2_pc: Annotated[bool, wire("6+")] = False
    keep_prepared_txn: Annotated[bool, wire("6+")] = False


@message(versions="0-6", flexible="2+")
class InitProducerIdResponse(msgspec.Struct, frozen=True):
    """v6 would name the open transaction (KIP-939)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, wire("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, wire("6+")] = -1


@message(versions="0", flexible="0+")
class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"], frozen=True):
    """A broker needs producer ids for its clients."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@message(versions="0", flexible="0+")
class AllocateProducerIdsResponse(msgspec.Struct, frozen=True):
    """`producer_id_len` ids from `producer_id_start` on, which no other broker gets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0


class DescribeProducersTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@message(versions="0", flexible="0+")
class DescribeProducersRequest(Request["DescribeProducersResponse"], frozen=True):
    """The active producers of partitions (KIP-664)."""

    topics: tuple[DescribeProducersTopic, ...] = ()


class ProducerState(msgspec.Struct, frozen=True):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class DescribeProducersPartitionResponse(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None
    active_producers: tuple[ProducerState, ...] = ()


class DescribeProducersTopicResponse(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[DescribeProducersPartitionResponse, ...] = ()


@message(versions="0", flexible="0+")
class DescribeProducersResponse(msgspec.Struct, frozen=True):
    """`current_txn_start_offset` -1: no open transaction. `last_timestamp` in ms."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeProducersTopicResponse, ...] = ()
