"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and WriteTxnMarkers: the life of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import INTERNAL_TOPICS, OFFSETS_TOPIC
from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.transactions.requests import AddOrVerify, AddPartitions, EndTransaction, VerifyPartitions
from moldau.core.transactions.state import TRANSACTIONS_V2
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.first_step import Ended, Waiting, all_ended, begun
from moldau.shell.network.rights import ALTER_CLUSTER, CLUSTER_ACTION, READ_GROUP, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from moldau.types import Pausing, TopicPartition, all_of, each_of
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

INVALID_PRODUCER_EPOCH = ERROR_CODES["INVALID_PRODUCER_EPOCH"]
OPERATION_NOT_ATTEMPTED = ERROR_CODES["OPERATION_NOT_ATTEMPTED"]
PRODUCER_FENCED = ERROR_CODES["PRODUCER_FENCED"]
UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]

BROKERS_FROM = 4
"""The first version of AddPartitionsToTxn for brokers."""
FENCED_FROM = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn with PRODUCER_FENCED (KIP-588)."""
TRANSACTIONS_AT_ONCE = 200
"""The most transactions of one AddPartitionsToTxn that are asked for before the first wait."""
EPOCH_FOR_EACH_FROM = 5
"""The first version of EndTxn in transactions v2."""


def known_code(code: int, version: int, fenced_from: int = FENCED_FROM) -> int:
    """INVALID_PRODUCER_EPOCH for clients that do not know PRODUCER_FENCED."""
    return INVALID_PRODUCER_EPOCH if code == PRODUCER_FENCED and version < fenced_from else code


def may_write(context: RequestContext, transactional_id: str) -> bool:
    """Whether the client may write with this transactional id."""
    return context.authorize(WRITE_TRANSACTIONAL_ID, transactional_id)


async def act_add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Versions 0-5. KIP-98; v2 PRODUCER_FENCED (KIP-588), v4 many transactions, from brokers, and verification, v5
    TRANSACTION_ABORTABLE (both KIP-890).

    If one partition cannot join, no other of its transaction does (55). Ignored on purpose: nothing; a partition that
    is named twice is answered once.
    """
    throttle_time_ms = context.throttle()
    if context.api_version < BROKERS_FROM:
        transaction = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await context.wait(await _asked(broker, context, transaction))
        results = await context.finish(_rows(codes, context.api_version))
        return AddPartitionsToTxnResponse(throttle_time_ms, results_by_topic_v3_and_below=results)
    try:
        context.check(CLUSTER_ACTION)
    except KafkaError as error:
        return AddPartitionsToTxnResponse(throttle_time_ms, error.code)
    answers: list[AddPartitionsToTxnResult] = []
    for begin in range(0, len(request.transactions), TRANSACTIONS_AT_ONCE):
        answers += await _add_all(broker, context, request.transactions[begin : begin + TRANSACTIONS_AT_ONCE])
    return AddPartitionsToTxnResponse(throttle_time_ms, results_by_transaction=tuple(answers))


async def _add_all(
    broker: Broker, context: RequestContext, transactions: Sequence[AddPartitionsToTxnTransaction]
) -> list[AddPartitionsToTxnResult]:
    """Asks for all transactions, in order, before it waits for the first answer: their records are replicated together,
    in the time of one."""
    asked = []
    for transaction in transactions:
        asked.append(await _asked(broker, context, transaction))
        await context.pause()
    answers = []
    for transaction, codes in zip(transactions, await context.wait(all_ended(asked)), strict=True):
        rows = await context.finish(_rows(codes, context.api_version))
        answers.append(AddPartitionsToTxnResult(transaction.transactional_id, rows))
        await context.pause()
    return answers


async def _asked(
    broker: Broker, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Ended[dict[TopicPartition, int]] | Waiting[dict[TopicPartition, int]]:
    """An error code for each partition. If all may join, the coordinator has started to decide."""
    name, version = transaction.transactional_id, context.api_version
    places = await context.finish(_places(transaction.topics))
    if version < BROKERS_FROM and not may_write(context, name):
        return Ended(dict.fromkeys(places, WRITE_TRANSACTIONAL_ID.refusal))
    codes = await context.finish(_faults(broker, context, places))
    if codes:
        return Ended(codes)
    context.run_to_end()
    asked: AddOrVerify
    ids = name, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:
        asked = VerifyPartitions(*ids, tuple(places))
    else:
        asked = AddPartitions(*ids, tuple(places), 0 if version < BROKERS_FROM else TRANSACTIONS_V2)
    return begun(broker.coordination.transactions.add_partitions(asked))


def _places(topics: tuple[AddPartitionsToTxnTopic, ...]) -> Pausing[dict[TopicPartition, None]]:
    places: dict[TopicPartition, None] = {}
    for topic in topics:
        for index in topic.partitions:
            places[TopicPartition(topic.name, index)] = None
            yield
        yield
    return places


def _faults(
    broker: Broker, context: RequestContext, places: Mapping[TopicPartition, None]
) -> Pausing[dict[TopicPartition, int]]:
    """Every partition with its code; empty if all may join."""
    is_of_client = context.api_version < BROKERS_FROM
    topics = broker.image.topics_by_name
    codes: dict[TopicPartition, int] = {}
    is_any_wrong = False
    for place in places:
        known = topics.get(place.topic)
        code = OPERATION_NOT_ATTEMPTED
        if is_of_client and (place.topic in INTERNAL_TOPICS or not context.authorize(WRITE_TOPIC, place.topic)):
            code = WRITE_TOPIC.refusal
        elif known is None or place.partition not in known.partitions:
            code = UNKNOWN_TOPIC_OR_PARTITION
        is_any_wrong = is_any_wrong or code != OPERATION_NOT_ATTEMPTED
        codes[place] = code
        yield
    return codes if is_any_wrong else {}


def _rows(codes: Mapping[TopicPartition, int], version: int) -> Pausing[tuple[AddPartitionsToTxnTopicResult, ...]]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for place, code in codes.items():
        row = AddPartitionsToTxnPartitionResult(place.partition, known_code(code, version))
        topics.setdefault(place.topic, []).append(row)
        yield
    return (yield from each_of(AddPartitionsToTxnTopicResult(name, tuple(rows)) for name, rows in topics.items()))


async def act_add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Versions 0-4. KIP-98; v2 PRODUCER_FENCED (KIP-588), v3 flexible, v4 TRANSACTION_ABORTABLE (KIP-890).

    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    if not may_write(context, request.transactional_id):
        return AddOffsetsToTxnResponse(throttle_time_ms, WRITE_TRANSACTIONAL_ID.refusal)
    if not context.authorize(READ_GROUP, request.group_id):
        return AddOffsetsToTxnResponse(throttle_time_ms, READ_GROUP.refusal)
    try:
        await context.wait(broker.coordination.groups.ensure_topic())
    except KafkaError as error:
        return AddOffsetsToTxnResponse(throttle_time_ms, error.code)
    count = len(broker.image.topics_by_name[OFFSETS_TOPIC].partitions)
    place = TopicPartition(OFFSETS_TOPIC, partition_for_group(request.group_id, count))
    asked = AddPartitions(request.transactional_id, request.producer_id, request.producer_epoch, (place,))
    codes = await context.wait(broker.coordination.transactions.add_partitions(asked))
    return AddOffsetsToTxnResponse(throttle_time_ms, known_code(codes[place], context.api_version))


async def act_end_txn(broker: Broker, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Versions 0-5. KIP-98; v2 PRODUCER_FENCED (KIP-588), v3 flexible, v4 TRANSACTION_ABORTABLE, v5 transactions v2,
    where each end raises the epoch (both KIP-890).

    Answers once the decision is committed. The markers follow; on a single node they are written before the answer.
    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    if not may_write(context, request.transactional_id):
        return EndTxnResponse(throttle_time_ms, WRITE_TRANSACTIONAL_ID.refusal)
    asked = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        TRANSACTIONS_V2 if context.api_version >= EPOCH_FOR_EACH_FROM else 0,
    )
    answer = await context.wait(broker.coordination.transactions.change(asked))
    code = known_code(answer.error_code, context.api_version)
    return EndTxnResponse(throttle_time_ms, code, answer.producer_id, answer.producer_epoch)


async def act_write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Versions 1-2. KIP-98; v2 the transaction version (KIP-1228).

    Coordinators on other brokers send it, and administrators to end a hanging transaction (KIP-664). As in Kafka no
    quota applies, as it would delay the ends of transactions. Ignored on purpose: nothing.
    """
    if not context.authorize(ALTER_CLUSTER):
        try:
            context.check(CLUSTER_ACTION)
        except KafkaError as error:
            refused = all_of(_refused(marker, error.code) for marker in request.markers)
            return WriteTxnMarkersResponse(await context.finish(refused))
    return await context.wait(broker.coordination.transactions.own_port.write_markers(request))


def _refused(marker: WritableTxnMarker, code: int) -> Pausing[WritableTxnMarkerResult]:
    topics = []
    for topic in marker.topics:
        rows = []
        for index in topic.partition_indexes:
            rows.append(WritableTxnMarkerPartitionResult(index, code))
            yield
        topics.append(WritableTxnMarkerTopicResult(topic.name, tuple(rows)))
        yield
    return WritableTxnMarkerResult(marker.producer_id, tuple(topics))
