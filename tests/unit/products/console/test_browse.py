"""The newest records of a topic, with any distribution and anything between them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.browse import MAX_HELD_BYTES, Browser, Found
from moldau.products.console.cluster import Cluster as ConsoleCluster
from moldau.products.console.core.browsing import Question
from moldau.testing import Cluster


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def newest(broker: Cluster, name: str, count: int) -> Found:
    page = ConsoleCluster(ClusterAccess(broker.bootstrap_servers))
    [topic] = page.with_offsets([topic for topic in page.overview().topics if topic.name == name])
    browser = Browser(ClusterAccess(broker.bootstrap_servers), topic)
    try:
        return browser.find(Question(count=count))
    finally:
        browser.close()


def values(found: Found) -> list[int]:
    return [int(message.value() or b"-1") for message in found.messages]


def test_all_of_the_newest_may_lie_in_one_partition(broker: Cluster) -> None:
    broker.create_topic("one-of-many", partitions=12)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(1_000):
        producer.produce("one-of-many", str(number).encode(), partition=7)
    assert producer.flush(30) == 0
    found = newest(broker, "one-of-many", 50)
    assert (values(found), found.is_complete) == ([*range(999, 949, -1)], True)


def test_aborted_records_and_markers_hide_no_record_before_them(broker: Cluster) -> None:
    broker.create_topic("hidden", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "browsed"})
    producer.init_transactions(30)
    for records, is_committed in ((200, True), (100, False), (1, True), (1, True)):
        producer.begin_transaction()
        for number in range(records):
            producer.produce("hidden", str(number).encode())
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    found = newest(broker, "hidden", 50)
    assert (values(found), found.is_complete) == ([0, 0, *range(199, 151, -1)], True)


def test_old_records_of_one_partition_do_not_stand_for_the_newer_ones_of_another(broker: Cluster) -> None:
    broker.create_topic("old-and-new", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(60):
        producer.produce("old-and-new", str(number).encode(), partition=0, timestamp=1_000 + number)
    assert producer.flush(30) == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "old-and-new"})
    producer.init_transactions(30)
    for records, is_committed in ((60, True), (100, False)):
        producer.begin_transaction()
        for number in range(records):
            producer.produce("old-and-new", str(100 + number).encode(), partition=1, timestamp=5_000 + number)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    found = newest(broker, "old-and-new", 50)
    assert (values(found), found.is_complete) == ([*range(159, 109, -1)], True)


def write_large(broker: Cluster, topic: str, partitions: list[int]) -> None:
    """Writes numbers from 0 on into these partitions; a hundred of the values fill the limit of a look."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"})
    rest = b" " * (MAX_HELD_BYTES // 100)
    for number, partition in enumerate(partitions):
        producer.produce(topic, str(number).encode() + rest, partition=partition, timestamp=1_000 + number)
        producer.poll(0)
    assert producer.flush(30) == 0


def test_large_values_of_many_partitions_hide_none_of_the_newest(broker: Cluster) -> None:
    broker.create_topic("large", partitions=3)
    write_large(broker, "large", [number // 50 for number in range(150)])
    found = newest(broker, "large", 50)
    assert (values(found), found.is_complete) == ([*range(149, 99, -1)], True)


def test_values_that_are_too_large_together_leave_out_the_oldest(broker: Cluster) -> None:
    broker.create_topic("too-large", partitions=2)
    write_large(broker, "too-large", [number % 2 for number in range(300)])
    found = newest(broker, "too-large", 120)
    assert (values(found), found.is_complete) == ([*range(299, 200, -1)], False)
