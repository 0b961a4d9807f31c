"""Requests of a transactional producer to coordinators, as functions over a ClusterClient.

Each retries retriable errors, within the client's time limits. A repeated EndTxn ends the transaction only once,
because it contains the epoch (KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.blocking.offsets import find_coordinator, find_coordinator_id
from moldau.client.protocol.offsets import check_commit
from moldau.client.protocol.transactions import (
    END_TXN_FROM,
    TRANSACTION_KEY,
    TXN_OFFSET_COMMIT_BY_NAME,
    TXN_OFFSET_COMMIT_FROM,
    GroupMember,
    TransactionalProducer,
    offsets_request,
    take_next_producer,
    take_partitions,
    take_producer,
)
from moldau.errors import kafka_error
from moldau.types import TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import DescribeTransactionsRequest, EndTxnRequest

DEFAULT_TRANSACTION_MAX_TIMEOUT_MS = 900_000
"""The default of `transaction.max.timeout.ms`, here and in Apache Kafka."""

_TRANSACTION_MAX_TIMEOUT = "transaction.max.timeout.ms"
_BROKER_RESOURCE = 4


def transaction_max_timeout_ms(client: ClusterClient, transactional_id: str) -> int:
    """The longest transaction timeout that the coordinator of `transactional_id` allows. The default of
    `transaction.max.timeout.ms` if it does not answer (the principal may not be allowed to see broker settings)."""

    def ask() -> int:
        broker_id = find_coordinator_id(client, transactional_id, TRANSACTION_KEY)
        resource = DescribeConfigsResource(_BROKER_RESOURCE, str(broker_id), (_TRANSACTION_MAX_TIMEOUT,))
        response = client.connection_to(broker_id).request(DescribeConfigsRequest((resource,)))
        values = [setting.value for row in response.results for setting in row.configs]
        return next((int(value) for value in values if value), DEFAULT_TRANSACTION_MAX_TIMEOUT_MS)

    return client.retry(ask)


def begin_producer(client: ClusterClient, transactional_id: str, transaction_timeout_ms: int) -> TransactionalProducer:
    """A new producer of `transactional_id`. Fences the earlier producer and aborts its open transaction.

    Raises INVALID_TRANSACTION_TIMEOUT above `transaction.max.timeout.ms`, and UNSUPPORTED_VERSION if the cluster has no
    transactions v2.
    """
    request = InitProducerIdRequest(transactional_id, transaction_timeout_ms)

    def begin() -> TransactionalProducer:
        coordinator = find_coordinator(client, transactional_id, TRANSACTION_KEY)
        _check_version(coordinator, ApiKey.END_TXN, END_TXN_FROM)
        return take_producer(transactional_id, coordinator.request(request))

    return client.retry(begin)


def commit_offsets_in_transaction(
    client: ClusterClient,
    producer: TransactionalProducer,
    member: GroupMember,
    offsets: Mapping[TopicPartition, int],
    metadata: str = "",
) -> None:
    """Adds the group's next offsets to the transaction. `metadata` is stored with each offset.

    Raises INVALID_PRODUCER_EPOCH if another producer has taken over.
    """
    request = offsets_request(producer, member, offsets, metadata)

    def commit() -> None:
        coordinator = find_coordinator(client, member.group_id)
        _check_version(coordinator, ApiKey.TXN_OFFSET_COMMIT, TXN_OFFSET_COMMIT_FROM)
        check_commit(coordinator.request(request, max_version=TXN_OFFSET_COMMIT_BY_NAME), member.group_id)

    if offsets:
        client.retry(commit)


def end_transaction(
    client: ClusterClient, producer: TransactionalProducer, *, committed: bool
) -> TransactionalProducer:
    """Commits or aborts, and returns the producer for the next transaction.

    Raises PRODUCER_FENCED if another producer has taken over, and INVALID_TXN_STATE without an open transaction to
    commit.
    """
    request = EndTxnRequest(
        producer.transactional_id, producer.producer_id, producer.producer_epoch, committed=committed
    )

    def end() -> TransactionalProducer:
        coordinator = find_coordinator(client, producer.transactional_id, TRANSACTION_KEY)
        return take_next_producer(producer, coordinator.request(request))

    return client.retry(end)


def partitions_of_transaction(client: ClusterClient, producer: TransactionalProducer) -> list[TopicPartition]:
    """The partitions in this producer's open transaction; empty if another producer has taken over."""

    def ask() -> list[TopicPartition]:
        coordinator = find_coordinator(client, producer.transactional_id, TRANSACTION_KEY)
        response = coordinator.request(DescribeTransactionsRequest((producer.transactional_id,)))
        return take_partitions(producer, response)

    return client.retry(ask)


def _check_version(coordinator: ClientConnection, api_key: ApiKey, needed: int) -> None:
    if coordinator.version_of(api_key) < needed:
        raise kafka_error(
            "UNSUPPORTED_VERSION",
            f"{coordinator} serves {api_key.name} only up to version {coordinator.version_of(api_key)}: transactions "
            "need transaction.version 2 (Apache Kafka 4.0 and later)",
        )
