"""Section "Transactions" of the table of bad input, as far as Produce decides it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.support.wire import RawConnection
from tests.support.wire_produce import batch, produce

NewTopic = Callable[..., str]
ON_ITS_WAY = (14, 15, 16)


def asked_until(ask: Callable[[], tuple[int, Any]], codes: tuple[int, ...]) -> tuple[int, Any]:
    """The first response with an error code other than these."""
    for _ in range(2_000):
        code, answer = ask()
        if code not in codes:
            break
    return code, answer


class Transaction:
    """One transactional producer, and a topic of two partitions with leaders."""

    def __init__(self, raw: RawConnection, topic: str) -> None:
        self.raw = raw
        self.topic = topic
        self.name = f"tx-{uuid.uuid4().hex[:8]}"
        # Apache Kafka reports a topic or a coordinator before it is ready
        for partition in (0, 1):
            assert asked_until(lambda index=partition: produce(raw, topic, batch(), partition=index), (3, 6))[0] == 0
        find = FindCoordinatorRequest(key=self.name, key_type=1)
        asked_until(lambda: (raw.ask(find, 3).error_code, None), ON_ITS_WAY)
        init = InitProducerIdRequest(self.name, 60_000)
        _, answer = asked_until(lambda: ((found := raw.ask(init, 4)).error_code, found), ON_ITS_WAY)
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, *partitions: int) -> None:
        topics = (AddPartitionsToTxnTopic(self.topic, partitions),)
        answer = self.raw.ask(AddPartitionsToTxnRequest((), self.name, self.producer_id, self.epoch, topics), 3)
        assert {row.partition_error_code for row in answer.results_by_topic_v3_and_below[0].results_by_partition} == {0}

    def batch(self, sequence: int = 0, *, epoch: int = 0, producer_id: int = 0, is_transactional: bool = True) -> bytes:
        """`epoch` and `producer_id`: added to its own."""
        return bytes(
            batch(
                producer_id=self.producer_id + producer_id,
                producer_epoch=self.epoch + epoch,
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
        )

    def send(self, version: int, *batches: bytes, first: int = 0, name: str | None = "") -> list[int]:
        """The error codes by partition, from `first` on. `name`: "" for its own id."""
        rows = tuple(PartitionProduceData(first + place, records) for place, records in enumerate(batches))
        request = ProduceRequest(
            transactional_id=self.name if name == "" else name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=(TopicProduceData(name=self.topic, partition_data=rows),),
        )
        answer = self.raw.ask(request, version).responses[0].partition_responses
        return [row.error_code for row in sorted(answer, key=lambda row: row.index)]


@pytest.fixture
def transaction(raw: RawConnection, new_topic: NewTopic) -> Transaction:
    return Transaction(raw, new_topic(partitions=2))


@pytest.mark.parametrize(("version", "code"), [(3, 48), (9, 48), (10, 48), (11, 120), (12, 0)])
def test_a_partition_that_was_not_added(transaction: Transaction, version: int, code: int) -> None:
    transaction.add(1)
    assert transaction.send(version, transaction.batch(), transaction.batch()) == [code, 0]


@pytest.mark.parametrize("version", [9, 11, 12])
def test_an_epoch_or_producer_or_transactional_id_that_is_not_its_own(transaction: Transaction, version: int) -> None:
    transaction.add(0)
    assert transaction.send(version, transaction.batch()) == [0]
    for first in (0, 1):
        for epoch in (-1, 1):
            assert transaction.send(version, transaction.batch(1, epoch=epoch), first=first) == [47]
    assert transaction.send(version, transaction.batch(), first=1, name="nobody") == [49]
    assert transaction.send(version, transaction.batch(producer_id=1_000_000), first=1) == [49]
    assert transaction.send(version, transaction.batch(1), transaction.batch(producer_id=1)) == [49, 49]


def test_a_transactional_id_that_did_not_begin_the_transaction(transaction: Transaction, is_moldau: bool) -> None:
    assert transaction.send(12, transaction.batch()) == [0]
    assert transaction.send(12, transaction.batch(1), name="nobody") == [48 if is_moldau else 0]


def test_no_transactional_id(transaction: Transaction, is_moldau: bool) -> None:
    assert transaction.send(12, transaction.batch()) == [0]
    assert transaction.send(12, transaction.batch(1), bytes(batch()), name=None) == [53, 0 if is_moldau else 53]


def test_a_plain_batch_inside_the_transaction_of_its_producer(transaction: Transaction) -> None:
    assert transaction.send(12, transaction.batch()) == [0]
    plain = transaction.batch(1, is_transactional=False)
    assert transaction.send(12, plain) == transaction.send(12, plain, name=None) == [48]
    assert transaction.send(12, bytes(batch())) == [0]


def test_no_producer_id(transaction: Transaction, is_moldau: bool) -> None:
    assert transaction.send(12, bytes(batch(is_transactional=True))) == [87 if is_moldau else 0]


def test_a_transaction_that_does_not_begin_with_its_first_batch(transaction: Transaction) -> None:
    assert transaction.send(12, transaction.batch(5)) == [45]
    assert transaction.send(12, transaction.batch()) == [0]
