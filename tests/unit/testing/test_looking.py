"""moldau.testing: a test's view of topics and groups without a client, and its waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.errors import KafkaError, MoldauError, kafka_error
from moldau.testing import Cluster, GroupView, NotReachedError, Record
from moldau.testing.partitioning import partition_for_key
from moldau.testing.waiting import make_check
from moldau.types import TopicPartition
from tests.unit.testing.clients import make_consumer


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    with Cluster() as running:
        yield running


def test_records_are_those_that_clients_wrote(cluster: Cluster) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = cluster.topic(codec, partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec})
        for number in range(300):
            producer.produce(topic, b"v%d" % number, b"k", number % 3, headers=[("h", b"%d" % number), ("n", None)])
        assert producer.flush(30) == 0
        records = list(cluster.records(topic))
        assert [(record.partition, record.offset) for record in records] == [
            (partition, offset) for partition in range(3) for offset in range(100)
        ]
        for record in records:
            number = record.offset * 3 + record.partition
            assert (record.key, record.value) == (b"k", b"v%d" % number)
            assert record.headers == [("h", b"%d" % number), ("n", None)]
            assert abs(record.timestamp - cluster.now_ms()) < 60_000
        assert list(cluster.records(topic, partition=1)) == records[100:200]


def test_headers_equal_those_that_clients_give(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.produce(topic, "with", headers={"waiter": "Ada", "empty": None})
    cluster.produce(topic, "without")
    consumer = make_consumer(cluster, topic)
    consumer.subscribe([topic])
    read = consumer.consume(2, 30)
    consumer.close()
    with_headers, without = cluster.records(topic)
    assert with_headers.headers == read[0].headers() == [("waiter", b"Ada"), ("empty", None)]
    assert without.headers == []
    assert read[1].headers() is None
    assert len({with_headers, without, *cluster.records(topic)}) == 2


def test_many_records_come_in_slices(cluster: Cluster) -> None:
    topic = cluster.topic()
    for _ in range(40):
        cluster.produce(topic, *(b"x" * 1000 for _ in range(100)))
    assert [record.offset for record in cluster.records(topic)] == list(range(4000))


def test_produce_is_terse_and_puts_keys_where_kafka_does(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    written = cluster.produce(topic, "a", "b", "c", "d")
    assert [(record.value, record.partition, record.offset) for record in written] == [
        (b"a", 0, 0),
        (b"b", 1, 0),
        (b"c", 2, 0),
        (b"d", 0, 1),
    ]
    (record,) = cluster.produce(topic, "text", key="k", headers={"h": "v"}, timestamp=5)
    assert (record.key, record.value, record.headers, record.timestamp) == (b"k", b"text", [("h", b"v")], 5)
    assert record in list(cluster.records(topic, partition=record.partition))
    (record,) = cluster.produce(topic, None, key=b"k", partition=2)
    assert (record.partition, record.value) == (2, None)
    keys = [b"", b"a", b"ab", b"abc", b"abcd", b"customer-4711"]
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
    clients = cluster.topic(partitions=7)
    for key in keys:
        producer.produce(clients, key, key)
    assert producer.flush(30) == 0
    for record in cluster.records(clients):
        if record.key:  # librdkafka treats an empty key as none
            assert record.partition == partition_for_key(record.key, 7)


def test_topics_are_their_own_and_come_in_milliseconds(cluster: Cluster) -> None:
    names = [cluster.topic("t") for _ in range(50)]
    assert len(set(names)) == 50
    assert [list(cluster.records(name)) for name in names] == [[]] * 50
    cluster.delete_topic(names[0])
    with pytest.raises(KafkaError, match="there is no topic"):
        cluster.records(names[0])
    with pytest.raises(KafkaError, match="already exists"):
        cluster.create_topic(names[1])
    with pytest.raises(KafkaError, match="no partition 1"):
        cluster.records(names[1], partition=1)
    with pytest.raises(KafkaError, match="no partition 5"):
        cluster.produce(names[1], "v", partition=5)


def test_a_topic_of_ones_own_passes_over_names_that_are_taken(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("orders-1")
        cluster.create_topic("orders-2")
        assert [cluster.topic("orders"), cluster.topic("orders")] == ["orders-3", "orders-4"]
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.topic("orders") == "orders-5"
        with pytest.raises(KafkaError, match="no/name"):
            cluster.topic("no/name")


def test_lag_counts_what_is_not_committed(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=2)
    cluster.produce(topic, *map(str, range(10)), partition=0)
    cluster.produce(topic, *map(str, range(4)), partition=1)
    with pytest.raises(KafkaError, match="no member"):
        cluster.lag(topic)
    consumer = make_consumer(cluster, topic)
    consumer.subscribe([topic])
    first = consumer.poll(30)
    cluster.wait_for(group=topic, members=1)
    both = (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert cluster.group(topic).assignments == {consumer.memberid(): both}
    assert cluster.lag(topic) == 14  # nothing is committed: the lag is everything
    consumer.commit(first, asynchronous=False)
    assert cluster.lag(topic) == 13
    by_partition = cluster.lag(topic, by_partition=True)
    assert by_partition == {(topic, 0): 10, (topic, 1): 4} | {
        (topic, first.partition()): [10, 4][first.partition()] - 1
    }
    assert len(consumer.consume(13, 30)) == 13
    consumer.commit(asynchronous=False)
    cluster.wait_for(group=topic, lag=0, members=1)
    consumer.close()
    cluster.wait_for(group=topic, lag=0, members=0)
    assert (cluster.group(topic).state, cluster.group(topic).assignments) == ("Empty", {})


def test_waiting_in_vain_says_what_was_seen(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=2)
    cluster.produce(topic, "1", "2", "3")
    with pytest.raises(NotReachedError, match=r"has 3 of 100 records \(0: 2, 1: 1\)"):
        cluster.wait_for(topic=topic, records=100, timeout=0.02)
    with pytest.raises(TimeoutError, match="no topic 'absent'"):
        cluster.wait_for(topic="absent", records=1, timeout=0.02)
    with pytest.raises(NotReachedError, match="the predicate gave 0"):
        cluster.wait_for(lambda: 0, timeout=0.02)
    with pytest.raises(NotReachedError, match="group 'absent' has no member"):
        cluster.wait_for(group="absent", lag=0, timeout=0.02)

    def asserts() -> bool:
        assert topic == "another", "still this one"
        return True

    with pytest.raises(NotReachedError, match="still this one"):
        cluster.wait_for(asserts, timeout=0.02)
    with pytest.raises(ZeroDivisionError):
        cluster.wait_for(lambda: 1 // 0)
    for wrong in ({}, {"topic": topic}, {"group": "g"}, {"lag": 0}):
        with pytest.raises(ValueError, match=r"give|wait for what"):
            cluster.wait_for(**wrong)


class LookedAt:
    """A topic of one partition as conditions see it; counts the reads of its records."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        """None: a marker."""
        self.reads = 0
        self.is_there = True

    def stable_spans(self, topic: str) -> dict[int, tuple[int, int]]:
        if not self.is_there:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", "gone")
        return {0: (0, len(self.values))}

    def records(self, topic: str) -> Iterator[Record]:
        self.reads += 1
        pairs = enumerate(self.values)
        return iter([Record(topic, 0, offset, 0, None, value) for offset, value in pairs if value is not None])

    def isr_by_partition(self, topic: str) -> dict[int, frozenset[int]]:
        return {0: frozenset([1])}

    def group(self, group_id: str) -> GroupView:
        return GroupView("Empty", (), {}, {})


def test_records_are_read_only_when_there_may_be_enough_of_them() -> None:
    seen = LookedAt()
    nothing = {"isr": None, "group": None, "lag": None, "members": None}
    check = make_check(seen, None, topic="t", records=4, **nothing)
    for values, holds, reads in (
        ([b"1", b"2", b"3"], False, 0),  # three offsets cannot be four records
        ([None, None], False, 1),
        ([], False, 1),  # nothing is new
        ([b"4"], True, 2),
        ([], True, 2),
        ([b"5"], True, 3),
    ):
        seen.values += values
        assert (check(False)[0], seen.reads) == (holds, reads)
    seen.is_there = False
    assert check(False) == (False, "gone")
    seen.is_there, seen.values = True, [b"of", b"another", b"topic"]
    assert (check(False)[0], seen.reads) == (False, 3)
    assert check(True) == (False, "topic 't' has 3 of 4 records")


def test_waiting_ends_when_it_comes(cluster: Cluster) -> None:
    topic = cluster.topic()
    writer = threading.Thread(target=lambda: cluster.produce(topic, "1", "2"))
    writer.start()
    cluster.wait_for(topic=topic, records=2)
    writer.join(60)


def test_a_coroutine_waits_without_holding_its_loop() -> None:
    async def host() -> list[bytes | None]:
        async with Cluster() as cluster:
            turns = 0

            async def beside() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    if turns == 5:
                        cluster.produce("t", "1")
                    await asyncio.sleep(0)

            task = asyncio.create_task(beside())
            with pytest.raises(MoldauError, match=r"await cluster\.wait_for_async"):
                cluster.wait_for(lambda: True)
            await cluster.wait_for_async(topic="t", records=1)
            await cluster.wait_for_async(lambda: turns > 10)
            task.cancel()
            return [record.value for record in cluster.records("t")]

    assert asyncio.run(host()) == [b"1"]


def test_a_broker_that_ends_answers_who_waits() -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        runtime = cluster._members[1].runtime
        seen: list[BaseException] = []

        def ask() -> None:
            try:
                runtime.wait(asyncio.Event().wait)
            except MoldauError as error:
                seen.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        cluster.wait_for(lambda: runtime._calls)
        cluster.kill()
        asking.join(30)
        assert len(seen) == 1
        cluster.restart()
