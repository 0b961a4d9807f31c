"""Where a source starts and ends: open or aborted transactions, a group's committed offsets, and batches that wait for
enough."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.spark.options import parse_source_options
from moldau.spark.source.offsets import DataLossError, StartError
from moldau.spark.source.source import TopicBatchReader
from moldau.testing import Cluster
from tests.spark.streams import Stream, through_text


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def producer(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Producer]:
    """A transactional producer with a transaction open."""
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": request.node.name, "linger.ms": 0}
    producer = Producer(config)
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer
    producer.abort_transaction(30)


def batch(cluster: Cluster, topic: str, **more: str) -> list[bytes]:
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, **more}
    reader = TopicBatchReader(parse_source_options(options, is_streaming=False), 2)
    read = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [value for one in read for value in one.column("value").to_pylist()]


def commit(cluster: Cluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, *one) for one in offsets.items()], asynchronous=False)
    consumer.close()


def test_the_latest_offset_is_the_last_stable_one_while_a_transaction_is_open(cluster: Cluster, producer: Producer):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    cluster.produce(topic, b"before")
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    cluster.produce(topic, b"behind")
    assert stream.batch() == [b"before"]
    assert stream.reader.reportLatestOffset()[topic] == {"0": 1}
    assert stream.batch() == []
    producer.commit_transaction(30)
    producer.begin_transaction()
    assert stream.batch() == [b"open", b"behind"]
    assert batch(cluster, topic) == [b"before", b"open", b"behind"]


def test_aborted_records_are_no_rows(cluster: Cluster, producer: Producer):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    producer.produce(topic, b"aborted")
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    producer.begin_transaction()
    cluster.produce(topic, b"after")
    assert stream.batch() == [b"after"]
    assert batch(cluster, topic) == [b"after"]


def test_uncommitted_records_are_read_up_to_the_high_watermark_by_option(cluster: Cluster, producer: Producer):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest", isolation="read_uncommitted")
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    cluster.produce(topic, b"behind")
    assert stream.batch() == [b"open", b"behind"]
    producer.abort_transaction(30)
    producer.begin_transaction()
    cluster.produce(topic, b"after")
    assert stream.batch() == [b"after"]
    assert batch(cluster, topic, isolation="read_uncommitted") == [b"open", b"behind", b"after"]


@pytest.mark.parametrize("limit", [None, 1])
def test_a_start_behind_the_last_stable_offset_waits_for_the_open_transaction(
    cluster: Cluster, producer: Producer, limit: int | None
):
    """At the offset of a reader of uncommitted records: Spark's own connector is one by default."""
    topic, group = cluster.topic(), f"ahead-{limit}"
    cluster.produce(topic, b"0")
    producer.produce(topic, b"1")
    assert producer.flush(30) == 0
    cluster.produce(topic, b"2", b"3", b"4")
    commit(cluster, group, topic, {0: 3})
    stream = Stream(cluster, subscribe=topic, startingGroup=group)
    moved = Stream(cluster, subscribe=topic)
    moved.committed = {topic: {"0": 3}}
    assert stream.batch(limit) == moved.batch(limit) == batch(cluster, topic, startingGroup=group) == []
    producer.commit_transaction(30)
    producer.begin_transaction()
    read = [[*one.batch(limit), *one.batch(limit)] for one in (stream, moved)]
    assert read == [[b"3", b"4"], [b"3", b"4"]]
    assert batch(cluster, topic, startingGroup=group) == [b"3", b"4"]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_beyond_the_last_stable_offset_waits_for_the_open_transaction(
    cluster: Cluster, producer: Producer, caplog: pytest.LogCaptureFixture, fails: str
):
    topic = cluster.topic()
    cluster.produce(topic, b"0")
    producer.produce(topic, b"1")
    assert producer.flush(30) == 0
    cluster.produce(topic, b"2", b"3")
    ending = {"endingOffsets": json.dumps({topic: {"0": 3}}), "failOnDataLoss": fails}
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, **ending}
    reader = TopicBatchReader(parse_source_options(options, is_streaming=False), 2)
    tasks = reader.partitions()
    assert [(span.start_offset, span.end_offset) for task in tasks for span in task.ranges] == [(0, 3)]
    assert "offsets 1 to 2 are not committed yet" in caplog.text
    producer.commit_transaction(30)
    producer.begin_transaction()
    read = [value for task in tasks for one in reader.read(task) for value in one.column("value").to_pylist()]
    assert read == [b"0", b"1", b"2"]
    with pytest.raises(DataLossError, match=f"{topic}-0: the partition ends at 5, before offset 9"):
        batch(cluster, topic, endingOffsets=json.dumps({topic: {"0": 9}}))


def test_a_time_is_looked_for_among_the_records_of_an_open_transaction_too(cluster: Cluster, producer: Producer):
    """A broker answers a reader of committed records that no record is so late, but the last stable offset is not the
    end of that time: earlier records that are committed later would be in no range."""
    topic = cluster.topic()
    cluster.produce(topic, b"0", timestamp=1_000)
    for number in (1, 2):
        producer.produce(topic, b"%d" % number, timestamp=(number + 1) * 1_000)
    assert producer.flush(30) == 0
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    first, second, later = (
        TopicBatchReader(parse_source_options({**options, **times}, is_streaming=False), 2)
        for times in (
            {"endingTimestamp": "2500"},
            {"startingTimestamp": "2500", "endingTimestamp": "9000"},
            {"startingTimestamp": "9000", "startingOffsetsByTimestampStrategy": "latest"},
        )
    )
    planned = [reader.partitions() for reader in (first, second, later)]
    ranges = [[(span.start_offset, span.end_offset) for task in tasks for span in task.ranges] for tasks in planned]
    assert ranges == [[(0, 2)], [(2, 3)], []]
    stream = Stream(cluster, subscribe=topic, startingTimestamp="2500")
    assert stream.batch() == []
    producer.commit_transaction(30)
    producer.begin_transaction()
    assert stream.batch() == [b"2"]


def test_a_stream_starts_at_the_committed_offsets_of_a_group(cluster: Cluster):
    topic, group = cluster.topic(partitions=3), "reader-before"
    for partition in range(3):
        cluster.produce(topic, *[b"%d%d" % (partition, number) for number in range(3)], partition=partition)
    commit(cluster, group, topic, {0: 2, 1: 0})
    options = {"subscribe": topic, "startingGroup": group}
    assert Stream(cluster, **options, startingOffsets="earliest").batch() == [
        b"02",
        b"10",
        b"11",
        b"12",
        b"20",
        b"21",
        b"22",
    ]
    stream = Stream(cluster, **options)  # a partition without a committed offset: from the latest
    assert stream.batch() == [b"02", b"10", b"11", b"12"]
    commit(cluster, group, topic, {0: 0})  # read once, for the first batch
    stream.die()
    assert stream.batch() == []
    assert sorted(batch(cluster, topic, startingGroup=group)) == [
        b"%d%d" % (partition, number) for partition in range(3) for number in range(3)
    ]


def test_a_first_batch_from_a_group_begins_where_it_began_when_it_is_run_again(cluster: Cluster):
    topic, group = cluster.topic(), "reader-again"
    cluster.produce(topic, b"0", b"1", b"2")
    commit(cluster, group, topic, {0: 1})
    stream = Stream(cluster, subscribe=topic, startingGroup=group)
    end = stream.plan()
    assert end is not None
    commit(cluster, group, topic, {0: 3})
    stream.die()
    assert stream.read(end) == [b"1", b"2"]


def test_a_start_at_a_group_that_has_no_offset_of_the_topic_is_refused(cluster: Cluster):
    topic, other, group = cluster.topic(), cluster.topic(), "reader-elsewhere"
    commit(cluster, group, other, {0: 0})
    for name in (group, "never-seen"):
        with pytest.raises(StartError, match=f"group '{name}' has no committed offset of {topic}-0"):
            Stream(cluster, subscribe=topic, startingGroup=name).plan()
        with pytest.raises(StartError, match="startingGroup"):
            batch(cluster, topic, startingGroup=name)


def test_a_group_that_is_ahead_of_the_topic_is_a_loss(cluster: Cluster):
    topic, group = cluster.topic(), "reader-ahead"
    cluster.produce(topic, b"0")
    commit(cluster, group, topic, {0: 5})
    with pytest.raises(DataLossError, match=f"{topic}-0: .*ends at 1"):
        batch(cluster, topic, startingGroup=group)
    stream = Stream(cluster, subscribe=topic, startingGroup=group)
    with pytest.raises(DataLossError, match=f"{topic}-0: the next offset to read was 5, but the partition ends at 1"):
        stream.batch()


def test_a_batch_waits_for_enough_records_and_not_for_ever(cluster: Cluster):
    topic = cluster.topic()
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "3"}
    stream, hasty = Stream(cluster, **options), Stream(cluster, **options, maxTriggerDelay="0ms")
    cluster.produce(topic, b"0")
    assert stream.batch() == hasty.batch() == [b"0"]  # the first one is never delayed
    cluster.produce(topic, b"1", b"2")
    assert stream.batch() == []
    assert hasty.batch() == [b"1", b"2"]
    assert stream.reader.reportLatestOffset()[topic] == {"0": 3}
    cluster.produce(topic, b"3")
    assert stream.batch() == [b"1", b"2", b"3"]
    cluster.produce(topic, b"4")
    assert stream.batch() == []
    stream.reader.prepareForTriggerAvailableNow()  # which ends when all records are read
    assert stream.batch() == [b"4"]


def test_a_task_reads_at_most_as_many_records_as_the_option_says(cluster: Cluster):
    topic = cluster.topic()
    cluster.produce(topic, *[b"%d" % number for number in range(10)])
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest", maxRecordsPerPartition="4")
    end = stream.plan()
    assert end is not None
    tasks = stream.reader.partitions(through_text(stream.reader.initialOffset()), dict(end))
    assert [sum(batch.num_rows for batch in stream.reader.read(task)) for task in tasks] == [3, 3, 4]


def test_brokers_see_the_client_id_and_small_fetches_read_everything(cluster: Cluster):
    topic = cluster.topic()
    for _ in range(5):
        cluster.produce(topic, *[b"x" * 1_000] * 10)
    options = {"kafka.client.id": "my-job", "kafka.fetch.max.bytes": "2000", "kafka.check.crcs": "false"}
    with cluster.faults.delay("Fetch", ms=1, client_id="my-job", times=2) as seen:
        assert len(batch(cluster, topic, **options)) == 50
        assert seen.is_over
