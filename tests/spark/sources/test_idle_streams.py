"""An idle stream waits for its next record at the broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from moldau.spark.source.idle import IDLE_WAIT_MS, IdleStream, Streams
from moldau.spark.source.record_watch import RecordWatch
from moldau.testing import Cluster
from moldau.transport.access import open_client
from moldau.types import TopicPartition
from tests.spark.streams import Stream

LONG_MS = 60_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def watch(cluster: Cluster) -> Iterator[RecordWatch]:
    with open_client(cluster.access()) as client:
        made = RecordWatch(client, "read_committed")
        yield made
        made.close()


def ask(streams: Streams, *asked: IdleStream) -> None:
    for stream in asked:
        streams.asked(stream)
        streams.answered(stream)


# -- which streams may belong to one query


def test_streams_asked_in_turn_may_belong_to_one_query():
    streams, one, two = Streams(), IdleStream(), IdleStream()
    ask(streams, *(one, two) * 5)
    assert (streams.companions(one), streams.companions(two)) == ([two], [one])
    assert (streams.is_first(one), streams.is_first(two)) == (True, False)


def test_a_stream_asked_twice_in_a_row_is_not_in_the_query_of_the_other():
    streams, one, two, three = Streams(), IdleStream(), IdleStream(), IdleStream()
    ask(streams, one, two, three, one, two, one)
    assert streams.companions(one) == [two]
    assert streams.companions(three) == [two], "one was asked twice without it"
    ask(streams, one)
    assert streams.companions(one) == []


def test_streams_asked_at_the_same_time_are_of_two_queries():
    streams, one, two = Streams(), IdleStream(), IdleStream()
    streams.asked(one)
    streams.asked(two)
    assert (streams.companions(one), streams.companions(two)) == ([], [])


def test_a_stream_that_has_ended_is_forgotten():
    streams, one, two = Streams(), IdleStream(), IdleStream()
    ask(streams, one, two)
    streams.ended(two)
    assert streams.companions(one) == []
    streams.answered(two)


def test_a_process_that_does_not_answer_for_all_streams_never_waits(cluster: Cluster):
    stream = Stream(cluster, subscribe=cluster.topic(), startingOffsets="earliest")
    assert stream.batch() == []
    begin = time.monotonic()
    for _ in range(3):
        assert stream.plan() is None
    assert time.monotonic() - begin < IDLE_WAIT_MS / 1_000
    assert requests(cluster) == 0


# -- the wait


def test_a_wait_ends_with_the_time(cluster: Cluster, watch: RecordWatch):
    offsets = {TopicPartition(cluster.topic(), 0): 0}
    begin = time.monotonic()
    for _ in range(2):
        watch.wait(offsets, 100)
    assert time.monotonic() - begin >= 0.2
    assert requests(cluster) == 1, "the Fetch stays in flight"


def requests(cluster: Cluster) -> int:
    """The fetches that wait at the broker."""
    return cluster.node.broker.fetches.parked


def test_a_wait_ends_with_the_first_record_of_any_partition(cluster: Cluster, watch: RecordWatch):
    one, two = cluster.topic(partitions=2), cluster.topic()
    offsets = {TopicPartition(one, 0): 0, TopicPartition(one, 1): 0, TopicPartition(two, 0): 0}
    with ThreadPoolExecutor(1) as pool:
        for number in range(3):
            waiting = pool.submit(watch.wait, dict(offsets), LONG_MS)
            cluster.wait_for(lambda: requests(cluster) == 1)
            assert not waiting.done()
            cluster.produce(two, b"%d" % number)
            waiting.result(30)
            offsets[TopicPartition(two, 0)] += 1


def test_records_of_an_open_transaction_end_no_wait(cluster: Cluster, watch: RecordWatch):
    topic = cluster.topic()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush(30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch.wait, {TopicPartition(topic, 0): 0}, LONG_MS)
        cluster.wait_for(lambda: requests(cluster) == 1)
        assert not waiting.done()
        producer.commit_transaction(30)
        waiting.result(30)


@pytest.mark.parametrize("trouble", ["a topic that is gone", "an offset after the end", "a broker that is gone"])
def test_a_wait_ends_with_an_error_and_the_next_one_works(cluster: Cluster, watch: RecordWatch, trouble: str):
    topic = cluster.topic()
    offsets = {TopicPartition(topic, 0): 0}
    watch.wait(offsets, 1)
    if trouble == "a topic that is gone":
        cluster.delete_topic(topic)
        watch.wait(offsets, LONG_MS)
        topic = cluster.topic()
    elif trouble == "an offset after the end":
        watch.wait({TopicPartition(topic, 0): 5}, LONG_MS)
    else:
        cluster.restart()
        watch.wait(offsets, LONG_MS)
    cluster.produce(topic, b"a")
    watch.wait({TopicPartition(topic, 0): 0}, LONG_MS)
    watch.wait({TopicPartition(topic, 0): 0}, LONG_MS)


def test_a_wait_sees_records_that_came_before_it(cluster: Cluster, watch: RecordWatch):
    topic = cluster.topic()
    cluster.produce(topic, b"a")
    watch.wait({TopicPartition(topic, 0): 0}, LONG_MS)


# -- with Spark


def test_an_idle_query_waits_at_the_broker_and_a_record_ends_the_wait(spark, cluster: Cluster, tmp_path):
    topics = [cluster.topic() for _ in range(3)]
    rows: list[bytes] = []

    def started(*read: str):
        frames = [
            spark.readStream.format("moldau")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .select("value")
            for topic in read
        ]
        frame = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(row.value for row in batch.collect()))
        return writer.option("checkpointLocation", str(tmp_path / "-".join(read))).start()

    queries = [started(topics[0]), started(topics[1], topics[2])]
    try:
        for number in range(3):
            for topic in topics:
                value = f"{topic} {number}".encode()
                cluster.wait_for(lambda: requests(cluster) >= 2, timeout=60)
                cluster.produce(topic, value)
                cluster.wait_for(lambda value=value: value in rows, timeout=60)
    finally:
        for query in queries:
            query.stop()
