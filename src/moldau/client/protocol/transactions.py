"""State and requests of a transactional producer: its id and epoch, offsets to commit, the end.

Transactions v2 only (KIP-890, `transaction.version` 2, Apache Kafka 4.0 and later). A partition joins with its first
records, each end returns the epoch of the next transaction, and a late end is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from moldau.client.protocol.offsets import by_topic, refusal_of
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.producer_ids import InitProducerIdResponse
from moldau.wire.protocol.messages.transactions import (
    DescribeTransactionsResponse,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TRANSACTION_KEY: Final = 1
"""FindCoordinator's key type for transactional ids."""
PRODUCE_FROM: Final = 12
TXN_OFFSET_COMMIT_FROM: Final = 5
END_TXN_FROM: Final = 5
"""The first versions of transactions v2."""
TXN_OFFSET_COMMIT_BY_NAME: Final = 5
"""The last version that names topics. Later versions use topic ids only."""


class TransactionalProducer(msgspec.Struct, frozen=True):
    """The producer of the open transaction of `transactional_id`. Anybody who has this value may write: see
    TransactionalWriter."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class GroupMember(msgspec.Struct, frozen=True):
    """The group and the member that offsets are committed for. The default is a group without members (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def take_producer(transactional_id: str, response: InitProducerIdResponse) -> TransactionalProducer:
    """The producer for the first transaction. Raises KafkaError."""
    if response.error_code:
        raise refusal_of(response.error_code, f"a producer id for transactional id {transactional_id!r}")
    return TransactionalProducer(transactional_id, response.producer_id, response.producer_epoch)


def take_next_producer(producer: TransactionalProducer, response: EndTxnResponse) -> TransactionalProducer:
    """The producer for the next transaction. Raises KafkaError."""
    if response.error_code:
        raise refusal_of(response.error_code, f"the end of a transaction of {producer.transactional_id!r}")
    return TransactionalProducer(producer.transactional_id, response.producer_id, response.producer_epoch)


def take_partitions(producer: TransactionalProducer, response: DescribeTransactionsResponse) -> list[TopicPartition]:
    """The partitions in the producer's open transaction; empty if the transaction belongs to another producer. Raises
    KafkaError."""
    found: list[TopicPartition] = []
    for state in response.transaction_states:
        if state.error_code:
            raise refusal_of(state.error_code, f"the transaction of {producer.transactional_id!r}")
        if (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.producer_epoch):
            found += [TopicPartition(row.topic, number) for row in state.topics for number in row.partitions]
    return found


def offsets_request(
    producer: TransactionalProducer, member: GroupMember, offsets: Mapping[TopicPartition, int], metadata: str
) -> TxnOffsetCommitRequest:
    """Adds the group's next offsets, which take effect when the transaction commits."""
    topics = tuple(
        TxnOffsetCommitRequestTopic(
            topic,
            partitions=tuple(
                TxnOffsetCommitRequestPartition(row.partition, offsets[row], committed_metadata=metadata)
                for row in rows
            ),
        )
        for topic, rows in by_topic(offsets).items()
    )
    return TxnOffsetCommitRequest(
        producer.transactional_id,
        member.group_id,
        producer.producer_id,
        producer.producer_epoch,
        member.generation_id,
        member.member_id,
        member.group_instance_id,
        topics,
    )
