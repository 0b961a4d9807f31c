"""Section "Transactions" of the table of bad input, as far as the coordinator decides it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
)
from tests.support.wire import RawConnection
from tests.support.wire_transactions import STILL_ENDING, TRIES, Producer, asked_until

NewTopic = Callable[..., str]


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
    assert asked_until(producer.init, STILL_ENDING) == 0
    assert producer.ids == (own, epoch + 2)
    for stale in (epoch, epoch + 1):
        assert [producer.init(version, own, stale) for version in (3, 4)] == [47, 90]
    producer.name = ""
    assert producer.init() == 42


def test_add_partitions(producer: Producer, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert producer.init() == 0
    assert [producer.add((topic, 0), above=above) for above in (-1, 1)] == [[90], [90]]
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
    assert producer.init() == 0
    assert producer.init() == 0
    # in v5 the epoch before belongs to a repeated EndTxn: nothing was open, so nothing was committed
    assert [producer.end(version, above=above) for above in (-2, 1)] == [fenced, fenced]
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


@pytest.mark.slow
def test_what_is_asked_while_a_transaction_is_ending(producer: Producer, new_topic: NewTopic, is_moldau: bool) -> None:
    """Apache Kafka writes the markers after it answers EndTxn: a pipelined request may come before them. One node of
    ours answers after the markers."""
    topic, raw = new_topic(), producer.raw
    assert producer.add((topic, 0)) == [0]
    end = EndTxnRequest(producer.name, *producer.ids, True)
    rows = (AddPartitionsToTxnTopic(topic, (0,)),)
    asked = (end, 3), (AddPartitionsToTxnRequest((), producer.name, *producer.ids, rows), 3)
    seen = [set[int](), set[int]()]
    for _ in range(TRIES):
        for codes, (request, version) in zip(seen, asked, strict=True):
            assert producer.add((topic, 0)) == [0]
            started = [raw.start(end, 3), raw.start(request, version)]
            assert raw.finish(end, 3, started[0]).error_code == 0
            answer = raw.finish(request, version, started[1])
            codes.add(
                answer.error_code
                if request is end
                else answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
        if not is_moldau and all(51 in codes for codes in seen):
            break
    assert all(codes == {0} if is_moldau else 51 in codes and codes <= {0, 51} for codes in seen), seen


def test_what_is_asked_of_nobody(producer: Producer) -> None:
    described = producer.raw.ask(DescribeTransactionsRequest(("nobody", "")), 0).transaction_states
    assert [row.error_code for row in described] == [105, 42]
    for pattern in ("(", "(?=a)b", "(a)\\1", "a++"):
        assert producer.raw.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2).error_code == 128
