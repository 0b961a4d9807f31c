"""Transactions (KIP-664): lists, describes and aborts them, and finds hanging ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.client.protocol.offsets import by_topic
from moldau.client.protocol.transactions import TRANSACTION_KEY
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.producer_ids import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    InitProducerIdRequest,
)
from moldau.wire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
PRODUCERS_OF_A_REQUEST = 500
"""The number of partitions in one DescribeProducers request."""


class TransactionListing(msgspec.Struct, frozen=True):
    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class TransactionDescription(msgspec.Struct, frozen=True):
    """Times are in ms. `start_time_ms` is -1 without an open transaction."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    """Sorted."""


class ProducerDescription(msgspec.Struct, frozen=True):
    """The state of a producer at the leader of a partition. `start_offset`: the first offset of its open transaction,
    or -1."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open on a partition."""

    partition: TopicPartition
    producer: ProducerDescription


def list_transactions(
    admin: ClusterAdmin,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
    broker_ids: Iterable[int] | None = None,
) -> list[TransactionListing]:
    """The transactional ids of all coordinators, or of `broker_ids`, by coordinator and name. `pattern`: a regular
    expression for the whole id. Raises UNSUPPORTED_VERSION if a broker does not support a filter, and
    INVALID_REGULAR_EXPRESSION."""
    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    found: list[TransactionListing] = []
    for broker_id in admin.cluster().broker_ids() if broker_ids is None else broker_ids:
        response = admin.ask_coordinators_of(broker_id, request)
        if response.error_code:
            raise error_of(response.error_code)
        found += [
            TransactionListing(row.transactional_id, broker_id, row.producer_id, row.transaction_state)
            for row in sorted(response.transaction_states, key=lambda row: row.transactional_id)
        ]
    return found


def describe_open_transactions(
    admin: ClusterAdmin, limit: int, broker_ids: Iterable[int] | None = None
) -> tuple[int, list[TransactionDescription]]:
    """The number of transactions that are open or ending, at all coordinators or at `broker_ids`, and the `limit`
    oldest of them, oldest first. Raises UNSUPPORTED_VERSION if a broker does not serve ListTransactions."""
    asked_of = None if broker_ids is None else tuple(broker_ids)
    listed = list_transactions(admin, states=OPEN_STATES, broker_ids=asked_of)
    asked: dict[int, list[str]] = {}
    chosen = {row.transactional_id: row for row in (*_oldest(admin, listed, limit, asked_of), *listed)}
    for row in [*chosen.values()][:limit]:
        asked.setdefault(row.coordinator_id, []).append(row.transactional_id)
    found: list[TransactionDescription] = []
    for coordinator_id, names in asked.items():
        response = admin.ask_broker(coordinator_id, DescribeTransactionsRequest(tuple(names)))
        # a transaction with an error has ended or moved since it was listed
        found += [_description(row, coordinator_id) for row in response.transaction_states if not row.error_code]
    still_open = [row for row in found if row.state in OPEN_STATES]
    return len(listed), sorted(still_open, key=lambda row: (row.start_time_ms, row.transactional_id))


def _oldest(
    admin: ClusterAdmin, listed: list[TransactionListing], limit: int, broker_ids: Sequence[int] | None
) -> list[TransactionListing]:
    """About the `limit` oldest open transactions, or fewer. A list does not contain start times, but it can be limited
    to transactions open for longer than a given time."""
    longer_than_ms = 1_000
    while len(listed) > limit:
        try:
            older = list_transactions(admin, states=OPEN_STATES, longer_than_ms=longer_than_ms, broker_ids=broker_ids)
        except KafkaError as error:
            if error.name != "UNSUPPORTED_VERSION":
                raise
            return listed  # a broker before Apache Kafka 3.8 cannot filter by time
        if not older:
            return listed
        listed = older
        longer_than_ms *= 2
    return listed


def describe_transaction(admin: ClusterAdmin, transactional_id: str) -> TransactionDescription:
    """The state of a transactional id. Raises TRANSACTIONAL_ID_NOT_FOUND."""

    def describe() -> TransactionDescription:
        coordinator_id, connection = admin.coordinator(transactional_id, TRANSACTION_KEY)
        response = connection.request(DescribeTransactionsRequest((transactional_id,)))
        row = response.transaction_states[0]
        if row.error_code:
            raise error_of(row.error_code)
        return _description(row, coordinator_id)

    return admin.retry(describe)


def _description(row: DescribedTransaction, coordinator_id: int) -> TransactionDescription:
    partitions = (TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions)
    return TransactionDescription(
        row.transactional_id,
        coordinator_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms,
        tuple(sorted(partitions)),
    )


def describe_producers(
    admin: ClusterAdmin, partitions: Iterable[TopicPartition], broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerDescription] | KafkaError]:
    """The producers of each partition as its leader knows them, or its error. An unreachable leader does not affect
    other partitions. With `broker_id`, asks the replicas there instead, and raises an error of the whole request."""
    found: dict[TopicPartition, list[ProducerDescription] | KafkaError] = {}
    asked: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        try:
            node = admin.client.leader_of(partition).leader_id if broker_id is None else broker_id
            asked.setdefault(node, []).append(partition)
        except KafkaError as error:
            found[partition] = error
    for node, rows in asked.items():
        try:
            for begin in range(0, len(rows), PRODUCERS_OF_A_REQUEST):
                _describe_producers(admin, node, rows[begin : begin + PRODUCERS_OF_A_REQUEST], found)
        except KafkaError as error:
            if broker_id is not None:
                raise
            for row in rows:
                found.setdefault(row, error)
    return found


def _describe_producers(
    admin: ClusterAdmin,
    node: int,
    partitions: Sequence[TopicPartition],
    found: dict[TopicPartition, list[ProducerDescription] | KafkaError],
) -> None:
    topics = tuple(
        DescribeProducersTopic(topic, tuple(row.partition for row in rows))
        for topic, rows in by_topic(partitions).items()
    )
    for topic in admin.ask_broker(node, DescribeProducersRequest(topics)).topics:
        for row in topic.partitions:
            found[TopicPartition(topic.name, row.partition_index)] = (
                error_of(row.error_code, row.error_message)
                if row.error_code
                else [
                    ProducerDescription(
                        one.producer_id,
                        one.producer_epoch,
                        one.coordinator_epoch,
                        one.last_sequence,
                        one.last_timestamp,
                        one.current_txn_start_offset,
                    )
                    for one in row.active_producers
                ]
            )


def find_hanging(
    admin: ClusterAdmin,
    partitions: Iterable[TopicPartition],
    *,
    broker_id: int | None = None,
    longer_than_ms: int,
    now_ms: int,
) -> tuple[list[OpenTransaction], dict[TopicPartition, KafkaError]]:
    """The transactions in these partitions that are open for longer than `longer_than_ms`, counted from their last
    record, and that no coordinator will end: either no coordinator knows the producer, or its transaction does not
    include the partition. Second result: the partitions that could not be examined."""
    candidates: list[OpenTransaction] = []
    failed: dict[TopicPartition, KafkaError] = {}
    for partition, producers in describe_producers(admin, partitions, broker_id).items():
        if isinstance(producers, KafkaError):
            failed[partition] = producers
            continue
        candidates += [
            OpenTransaction(partition, producer)
            for producer in producers
            if producer.start_offset >= 0 and now_ms - producer.last_timestamp_ms > longer_than_ms
        ]
    if not candidates:
        return [], failed
    producer_ids = sorted({one.producer.producer_id for one in candidates})
    known = {
        listed.producer_id: _known_partitions(admin, listed.transactional_id)
        for listed in list_transactions(admin, producer_ids=producer_ids)
    }
    return [one for one in candidates if one.partition not in known.get(one.producer.producer_id, ())], failed


def _known_partitions(admin: ClusterAdmin, transactional_id: str) -> tuple[TopicPartition, ...]:
    """The partitions to which the coordinator will still write a marker."""
    try:
        return describe_transaction(admin, transactional_id).partitions
    except KafkaError as error:
        if error.name != "TRANSACTIONAL_ID_NOT_FOUND":
            raise
        return ()  # it has expired since it was listed


def open_transaction_at(
    admin: ClusterAdmin, partition: TopicPartition, start_offset: int
) -> ProducerDescription | None:
    """The producer whose open transaction begins at this offset of the partition. Raises the leader's error for the
    partition."""
    producers = describe_producers(admin, [partition])[partition]
    if isinstance(producers, KafkaError):
        raise producers
    return next((producer for producer in producers if producer.start_offset == start_offset), None)


def abort_transaction(
    admin: ClusterAdmin,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Writes an abort marker to the partition, for a hanging transaction that no coordinator will end.

    `coordinator_epoch`: that of the producer's last marker; -1 (no marker yet) counts as 0. Raises
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, CLUSTER_AUTHORIZATION_FAILED, ...
    """
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(partition.topic, (partition.partition,)),),
        coordinator_epoch=max(coordinator_epoch, 0),
    )
    admin.ask_leader(partition, WriteTxnMarkersRequest((marker,)))


def terminate_transaction(admin: ClusterAdmin, transactional_id: str) -> None:
    """Makes the coordinator abort the open transaction of the id, and fences its producer (KIP-939's
    forceTerminateTransaction). Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ..."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=admin.request_timeout_ms)

    def fence() -> None:
        _, connection = admin.coordinator(transactional_id, TRANSACTION_KEY)
        response = connection.request(request)
        if response.error_code:
            raise error_of(response.error_code)

    admin.retry(fence)
