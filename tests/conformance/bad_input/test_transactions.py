"""Section "Transactions" of the table of bad input, as far as the coordinator decides it."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
)
from tests.support.wire import RawConnection

NewTopic = Callable[..., str]
LATER = (14, 15, 16)
TRIES = 2_000


class Producer:
    """One transactional id, on a broker that may still be ending its last transaction (51)."""

    def __init__(self, raw: RawConnection) -> None:
        self.raw = raw
        self.name = f"tx-{uuid.uuid4().hex[:8]}"
        find = FindCoordinatorRequest(key=self.name, key_type=1)
        for _ in range(TRIES):
            if not raw.ask(find, 3).error_code and self.init() not in LATER:
                break

    def init(self, version: int = 4, *own: int, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(self.name, timeout_ms, *own)
        answer = self.raw.ask(request, version)
        if answer.error_code == 0:
            self.ids = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def add(self, *topics: tuple[str, int], above: int = 0, other: int = 0) -> list[int]:
        """Error codes; `above` and `other`: how far from its own epoch and producer id."""
        rows = tuple(AddPartitionsToTxnTopic(topic, (index,)) for topic, index in topics)
        request = AddPartitionsToTxnRequest((), self.name, self.ids[0] + other, self.ids[1] + above, rows)
        for _ in range(TRIES):
            found = self.raw.ask(request, 3).results_by_topic_v3_and_below
            codes = {topic.name: row.partition_error_code for topic in found for row in topic.results_by_partition}
            if 51 not in codes.values():
                break
        return [codes[topic] for topic, _ in topics]

    def end(self, version: int, *, commit: bool = True, above: int = 0, other: int = 0, name: str | None = None) -> int:
        ids = self.ids[0] + other, self.ids[1] + above
        request = EndTxnRequest(self.name if name is None else name, *ids, commit)
        for _ in range(TRIES):
            answer = self.raw.ask(request, version)
            if answer.error_code != 51:
                break
        if answer.error_code == 0 and version >= 5:
            self.ids = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)


@pytest.fixture
def producer(raw: RawConnection) -> Producer:
    return Producer(raw)


def test_init_producer_id(producer: Producer, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert [producer.init(timeout_ms=each) for each in (0, -1, 900_001)] == [50, 50, 50]
    own, epoch = producer.ids
    assert producer.init(4, own, -1) == 42
    for strange in ((own, epoch + 1), (own + 1_000_000, epoch)):
        assert [producer.init(version, *strange) for version in (3, 4)] == [47, 90]
    assert producer.add((topic, 0)) == [0]
    assert producer.init() == 51
    producer.name = ""
    assert producer.init() == 42


def test_add_partitions(producer: Producer, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert producer.add((topic, 0), above=1) == [90]
    assert producer.add((topic, 0), other=1_000_000) == [49]
    assert producer.add((topic, 0), ("unknown", 0)) == [55, 3]
    assert producer.add((topic, 0), ("__consumer_offsets", 0)) == [55, 29]
    verify = AddPartitionsToTxnTransaction(producer.name, *producer.ids, True, (AddPartitionsToTxnTopic(topic, (0,)),))
    (result,) = producer.raw.ask(AddPartitionsToTxnRequest((verify,)), 4).results_by_transaction
    assert result.topic_results[0].results_by_partition[0].partition_error_code == 120


@pytest.mark.parametrize(("version", "fenced"), [(1, 47), (3, 90), (5, 90)])
def test_end_txn(producer: Producer, new_topic: NewTopic, version: int, fenced: int) -> None:
    topic = new_topic()
    assert producer.end(version) == 48
    assert producer.end(version, above=1) == fenced
    assert producer.end(version, other=1_000_000) == 49
    assert producer.end(version, name="") == 42
    assert producer.end(version, commit=False) == (0 if version == 5 else 48)
    assert producer.add((topic, 0)) == [0]
    assert producer.end(version) == 0
    repeated = -1 if version == 5 else 0
    ids = producer.ids
    assert producer.end(version, above=repeated) == 0
    producer.ids = ids
    assert producer.end(version, commit=False, above=repeated) == 48


def test_what_is_asked_of_nobody(producer: Producer) -> None:
    described = producer.raw.ask(DescribeTransactionsRequest(("nobody", "")), 0).transaction_states
    assert {row.error_code for row in described} <= {105, 42}
    for pattern in ("(", "(?=a)b", "(a)\\1", "a++"):
        assert producer.raw.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2).error_code == 128
