"""The console's own consumer reads the same records as librdkafka's."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.products.console.cluster import ClusterError
from moldau.products.console.own_consumer import OwnConsumer, OwnMessage
from moldau.products.console.tail import make_consumer
from moldau.testing import allow
from moldau.testing.cluster import Cluster

TOPIC = "orders"
Row = tuple[int, int, tuple[int, int], bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic(TOPIC, partitions=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "compression.type": "zstd"})
        for number in range(50):
            producer.produce(TOPIC, str(number), key=b"k" if number % 3 else None, headers=[("a", b"1"), ("b", None)])
        producer.produce(TOPIC, None, key=b"gone")
        producer.flush(60)
        for ends_well in (True, False, True):
            transactional = Producer(
                {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"one-{ends_well}"}
            )
            transactional.init_transactions(60)
            transactional.begin_transaction()
            for number in range(10):
                transactional.produce(TOPIC, f"{ends_well} {number}", partition=number % 2)
            transactional.flush(60)
            if ends_well:
                transactional.commit_transaction(60)
            else:
                transactional.abort_transaction(60)
        yield cluster


def rows_of(consumer: Consumer | OwnConsumer) -> list[Row]:
    """Of both partitions from 3 on, to their ends."""
    consumer.assign([TopicPartition(TOPIC, index, 3) for index in (0, 1)])
    found: list[Row] = []
    ends, deadline_s = 0, time.monotonic() + 60
    while ends < 2:
        assert time.monotonic() < deadline_s
        for each in consumer.consume(7, 1.0):
            if each.error() is not None:
                ends += 1
                continue
            found.append(
                (each.partition(), each.offset(), each.timestamp(), each.key(), each.value(), each.headers() or [])
            )
    consumer.close()
    return sorted(found)


def test_it_reads_the_same_records_and_none_of_aborted_transactions(cluster: Cluster) -> None:
    own = rows_of(OwnConsumer(cluster.access(), tells_ends=True, max_wait_ms=100))
    other = rows_of(make_consumer(cluster.access(), "test", {"enable.partition.eof": True}))
    assert own == other
    assert len(own) == 51 + 20 - 6
    assert not [row for row in own if (row[4] or b"").startswith(b"False")]


def test_it_finds_the_ends_and_times_of_partitions(cluster: Cluster) -> None:
    own = OwnConsumer(cluster.access(), tells_ends=False, max_wait_ms=100)
    other = make_consumer(cluster.access(), "test", {})
    for index in (0, 1):
        place = TopicPartition(TOPIC, index)
        assert own.get_watermark_offsets(place, timeout=60) == other.get_watermark_offsets(place, timeout=60)
    for when in (0, 4_000_000_000_000):
        found = [
            [each.offset for each in consumer.offsets_for_times([TopicPartition(TOPIC, 0, when)], timeout=60)]
            for consumer in (own, other)
        ]
        assert found[0] == found[1]
    assert own.consume(10, 0.0) == []
    own.close()
    other.close()


def test_it_waits_no_longer_than_it_is_told_where_nothing_comes(cluster: Cluster) -> None:
    own = OwnConsumer(cluster.access(), tells_ends=False, max_wait_ms=50)
    _, end = own.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
    own.assign([TopicPartition(TOPIC, 0, end)])
    assert own.consume(10, 0.2) == []
    own.close()


def test_a_topic_that_may_not_be_read_is_said_in_words() -> None:
    with Cluster(
        security="sasl_plaintext", users={"alice": "secret"}, acls=[allow("alice", "describe", topic=TOPIC)]
    ) as cluster:
        cluster.create_topic(TOPIC)
        own = OwnConsumer(cluster.access("alice"), tells_ends=True, max_wait_ms=50)
        own.assign([TopicPartition(TOPIC, 0, 0)])
        with pytest.raises(ClusterError, match="uthoriz"):
            own.consume(10, 1.0)
        own.close()


def test_a_message_without_a_time_has_none() -> None:
    from moldau.wire.records.record import Record

    message = OwnMessage("orders", 0, Record(1, -1, None, None))
    assert message.timestamp() == (0, -1)
