"""Transactions: partitions, offsets, ends and markers (KIP-98, 360, 447, 664, 890, 994, 1152, 1228, 1319)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, Request, message, wire


class AddPartitionsToTxnTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[Int32, ...] = ()


class AddPartitionsToTxnTransaction(msgspec.Struct, frozen=True):
    """`verify_only`: checks the partitions, and adds none."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"], frozen=True):
    """v0-3 come from clients and name one transaction; v4 and later come from brokers and name several (KIP-890).

    v5: TRANSACTION_ABORTABLE in the response.
    """

    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], wire("4+")] = ()
    v3_and_below_transactional_id: Annotated[str, wire("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, wire("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, wire("0-3")] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], wire("0-3")] = ()


class AddPartitionsToTxnPartitionResult(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(msgspec.Struct, frozen=True):
    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(msgspec.Struct, frozen=True):
    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(msgspec.Struct, frozen=True):
    """`error_code`: of the whole request, which only brokers send."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, wire("4+", ignorable=True)] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], wire("4+")] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], wire("0-3")] = ()


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], frozen=True):
    """Adds the group's partition of `__consumer_offsets` to the transaction. v4: TRANSACTION_ABORTABLE."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(msgspec.Struct, frozen=True):
    """v2 PRODUCER_FENCED."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@message(versions="0-5", flexible="3+")
class EndTxnRequest(Request["EndTxnResponse"], frozen=True):
    """Commits or aborts. v2 PRODUCER_FENCED (KIP-588); v5 transactions v2: each end raises the epoch (KIP-890)."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


@message(versions="0-5", flexible="3+")
class EndTxnResponse(msgspec.Struct, frozen=True):
    """v5: the producer id and epoch of the next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, wire("5+", ignorable=True)] = -1
    producer_epoch: Annotated[Int16, wire("5+", ignorable=True)] = -1


class WritableTxnMarkerTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class WritableTxnMarker(msgspec.Struct, frozen=True):
    """`transaction_result`: true commits. `transaction_version` 2: the marker's epoch is above that of its records."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, wire("2+", ignorable=True)] = 0


@message(versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], frozen=True):
    """A transaction coordinator ends transactions on their partitions. v2: the transaction version (KIP-1228)."""

    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarkerPartitionResult(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(msgspec.Struct, frozen=True):
    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


@message(versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(msgspec.Struct, frozen=True):
    """One error code for each partition of each marker."""

    markers: tuple[WritableTxnMarkerResult, ...] = ()


class TxnOffsetCommitRequestPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, wire("2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, wire(nullable="0+")] = ""


class TxnOffsetCommitRequestTopic(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-5", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("6+", ignorable=True)] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], frozen=True):
    """Offsets of a group that take effect when the transaction is committed.

    v2 leader epoch (KIP-320); v3 the member (KIP-447); v4 TRANSACTION_ABORTABLE; v5 adds the group's partition to the
    transaction (KIP-890); v6 topic ids, and the member epoch of KIP-848 instead of the generation (KIP-1319).
    """

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, wire("3+")] = -1
    member_id: Annotated[str, wire("3+")] = ""
    group_instance_id: Annotated[str | None, wire("3+", nullable="3+")] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-5", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("6+", ignorable=True)] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(msgspec.Struct, frozen=True):
    """v6 topic ids (KIP-1319)."""

    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


@message(versions="0", flexible="0+")
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"], frozen=True):
    """The state of these transactional ids (KIP-664)."""

    transactional_ids: tuple[str, ...] = ()


class DescribeTransactionsTopic(msgspec.Struct, frozen=True):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class DescribedTransaction(msgspec.Struct, frozen=True):
    """Times in ms. `topics`: the partitions of the transaction without a marker yet."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[DescribeTransactionsTopic, ...] = ()


@message(versions="0", flexible="0+")
class DescribeTransactionsResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[DescribedTransaction, ...] = ()


@message(versions="0-2", flexible="0+")
class ListTransactionsRequest(Request["ListTransactionsResponse"], frozen=True):
    """Empty filters match all. v1: those that run longer than `duration_filter` ms (KIP-994); v2: a regular expression
    for the whole transactional id (KIP-1152)."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, wire("1+")] = -1
    transactional_id_pattern: Annotated[str | None, wire("2+", nullable="2+")] = None


class ListedTransaction(msgspec.Struct, frozen=True):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


@message(versions="0-2", flexible="0+")
class ListTransactionsResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()
