"""A stream's reader over topics that move: records come while offsets are asked, partitions and topics appear, the
start is deleted, the broker is killed. The reader is asked as Spark asks it; only the last test runs Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from moldau.spark.offsets import DataLossError
from moldau.spark.options import parse_source_options
from moldau.spark.source import TopicStreamReader
from moldau.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


class Stream:
    """Asks a reader in the order in which Spark asks it, with offsets as they come back from the checkpoint's text."""

    def __init__(self, cluster: Cluster, **options: str) -> None:
        self.options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}
        self.reader = self.open()
        self.committed: dict | None = None

    def open(self) -> TopicStreamReader:
        return TopicStreamReader(parse_source_options(self.options, is_streaming=True), 2)

    def plan(self, limit: int | None = None) -> Mapping | None:
        """The end of the next batch; None if there is nothing new."""
        start = self.committed or through_text(self.reader.initialOffset())
        end = through_text(self.reader.latestOffset(start, ReadMaxRows(limit) if limit else ReadAllAvailable()))
        return None if end == start else end

    def read(self, end: Mapping) -> list[bytes]:
        start = self.committed or through_text(self.reader.initialOffset())
        tasks = self.reader.partitions(start, dict(end))
        rows = [
            (batch.column("topic")[row].as_py(), *(batch.column(name)[row].as_py() for name in ("partition", "offset")),
             batch.column("value")[row].as_py())
            for task in tasks
            for batch in self.reader.read(task)
            for row in range(batch.num_rows)
        ]  # fmt: skip
        return [value for *_, value in sorted(rows)]

    def batch(self, limit: int | None = None) -> list[bytes]:
        end = self.plan(limit)
        if end is None:
            return []
        rows = self.read(end)
        self.committed = dict(end)
        return rows

    def die(self) -> None:
        """The driver is killed: a new reader goes on by what the checkpoint holds."""
        self.reader.stop()
        self.reader = self.open()


def through_text(offset: Mapping) -> dict:
    return json.loads(json.dumps(offset))


def test_a_stream_from_the_latest_offset_reads_what_comes_between_the_questions(cluster: Cluster):
    topic = cluster.topic()
    cluster.produce(topic, b"old")
    stream = Stream(cluster, subscribe=topic)
    first = stream.reader.initialOffset()
    cluster.produce(topic, b"a")
    end = stream.reader.latestOffset(through_text(first), ReadAllAvailable())
    cluster.produce(topic, b"b")
    assert stream.reader.initialOffset() == first
    assert stream.read(end) == [b"a"]
    stream.committed = through_text(end)
    assert stream.batch() == [b"b"]
    assert stream.plan() is None


def test_a_first_batch_that_was_cut_short_begins_where_it_began(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic)
    stream.reader.initialOffset()
    cluster.produce(topic, b"a", b"b")
    end = stream.plan()
    assert end is not None
    cluster.produce(topic, b"c")
    stream.die()
    assert stream.read(end) == [b"a", b"b"]
    stream.committed = dict(end)
    assert stream.batch() == [b"c"]


def test_a_first_batch_with_a_limit_is_followed_by_the_rest(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic)
    stream.reader.initialOffset()
    cluster.produce(topic, *[b"%d" % number for number in range(5)])
    assert [stream.batch(2), stream.batch(2), stream.batch(2), stream.batch(2)] == [
        [b"0", b"1"], [b"2", b"3"], [b"4"], [],
    ]  # fmt: skip


def test_a_partition_that_appears_is_read_from_its_first_record(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic)
    stream.reader.initialOffset()
    add_partitions(cluster, topic, 2)
    cluster.produce(topic, b"new", partition=1)
    assert stream.batch() == [b"new"]
    add_partitions(cluster, topic, 3)
    cluster.produce(topic, b"newer", partition=2)
    assert stream.batch() == [b"newer"]


def test_a_topic_that_appears_under_a_pattern_is_read_from_its_first_record(cluster: Cluster):
    prefix = cluster.topic("pattern")
    stream = Stream(cluster, subscribePattern=f"{prefix}.*")
    stream.reader.initialOffset()
    cluster.create_topic(f"{prefix}-b")
    cluster.produce(f"{prefix}-b", b"first")
    assert stream.batch() == [b"first"]


def test_a_pattern_that_no_topic_matches_yet_waits_for_one(cluster: Cluster):
    name = cluster.topic("nobody")
    stream = Stream(cluster, subscribePattern=f"{name}-later")
    assert stream.plan() is None
    cluster.create_topic(f"{name}-later")
    cluster.produce(f"{name}-later", b"first")
    assert stream.batch() == [b"first"]


@pytest.mark.parametrize("is_planned", [False, True])
def test_records_deleted_before_they_are_read_are_named(cluster: Cluster, is_planned: bool):
    topic = cluster.topic()
    cluster.produce(topic, *[b"%d" % number for number in range(10)])
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    end = stream.plan()
    assert end is not None
    if is_planned:
        tasks = stream.reader.partitions(stream.reader.initialOffset(), end)
    delete_records(cluster, topic, 4)
    with pytest.raises(DataLossError, match=f"{topic}-0.*(offsets 0 to 3 are|offset 0 is) gone"):
        list(stream.reader.read(tasks[0])) if is_planned else stream.read(end)
    tolerant = Stream(cluster, subscribe=topic, failOnDataLoss="false")
    assert tolerant.reader.partitions(stream.reader.initialOffset(), end)[0].ranges[0].start_offset == 4


def test_a_new_partition_whose_first_records_are_gone_is_a_loss(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic)
    stream.reader.initialOffset()
    add_partitions(cluster, topic, 2)
    cluster.produce(topic, b"a", b"b", partition=1)
    delete_records(cluster, topic, 1, partition=1)
    with pytest.raises(DataLossError, match=f"{topic}-1: offset 0 is gone"):
        stream.batch()
    tolerant = Stream(cluster, subscribe=topic, failOnDataLoss="false")
    end = tolerant.reader.latestOffset({topic: {"0": 0}}, ReadAllAvailable())
    assert tolerant.reader.partitions({topic: {"0": 0}}, end)[0].ranges[0].start_offset == 1


def test_a_limited_batch_does_not_count_what_is_gone(cluster: Cluster):
    topic = cluster.topic()
    cluster.produce(topic, *[b"%d" % number for number in range(10)])
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    stream.reader.initialOffset()
    delete_records(cluster, topic, 8)
    assert stream.batch(1) == [b"8"]


def test_a_broker_that_dies_and_comes_back_does_not_end_a_stream():
    with Cluster() as cluster:
        topic = cluster.topic()
        stream = Stream(cluster, subscribe=topic)
        stream.reader.initialOffset()
        cluster.produce(topic, b"a")
        assert stream.batch() == [b"a"]
        cluster.restart(clean=False)
        cluster.produce(topic, b"b")
        end = stream.plan()
        assert end is not None
        cluster.restart(clean=False)
        assert stream.read(end) == [b"b"]


def test_a_task_that_starts_while_the_broker_is_away_tries_for_as_long_as_one_that_lost_it(cluster):
    """The driver has asked the cluster for the ranges: what a task meets is no first contact."""
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    cluster.produce(topic, b"a", b"b")
    end = stream.plan()
    assert end is not None
    tasks = stream.reader.partitions(through_text(stream.reader.initialOffset()), dict(end))
    hasty = msgspec.structs.replace(stream.reader.options, first_contact_timeout_ms=1)
    with cluster.faults.disconnect("ApiVersions", times=3) as away:
        reader = TopicStreamReader(hasty, 2)
        assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 2
        assert away.is_over


def add_partitions(cluster: Cluster, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)


def delete_records(cluster: Cluster, topic: str, before: int, partition: int = 0) -> None:
    from confluent_kafka import TopicPartition

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    next(iter(admin.delete_records([TopicPartition(topic, partition, before)]).values())).result(30)


def test_a_query_from_the_latest_offset_lives_while_records_come_partitions_appear_and_the_broker_dies(spark, tmp_path):
    """Every record behind the first that was read is there once, though writing never stops."""
    with Cluster() as cluster:
        topic = cluster.topic()
        frame = spark.readStream.format("moldau").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        frame = frame.option("subscribe", topic).load().selectExpr("partition", "offset")
        rows: list[tuple[int, int]] = []

        followed: dict[int, bool] = {}

        def tell(batches):
            import pyarrow as pa

            from moldau.spark.sink import follows_a_batch

            list(batches)
            yield pa.RecordBatch.from_pydict({"follows": [follows_a_batch()]})

        def keep(batch, batch_id) -> None:
            rows.extend((row["partition"], row["offset"]) for row in batch.collect())
            if len(followed) < 3:  # a batch without records has no task that could answer
                told = batch.limit(1).mapInArrow(tell, "follows boolean").collect()
                for row in told:
                    followed[batch_id] = row["follows"]

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(processingTime="0 seconds").start()
        sent = 0

        def feed_until(is_done) -> None:
            """Bounded by the number of turns; each turn writes, and waits a moment for the query."""
            nonlocal sent
            for _ in range(2_000):
                if is_done():
                    return
                cluster.produce(topic, *[b"x"] * 10)
                sent += 10
                assert not query.awaitTermination(0.02), query.exception()
            raise AssertionError(f"after {sent} records: {rows[-3:]}")

        try:
            feed_until(lambda: rows)
            add_partitions(cluster, topic, 2)
            feed_until(lambda: any(partition == 1 for partition, _ in rows))
            cluster.restart(clean=False)
            before = len(rows)
            feed_until(lambda: len(rows) > before + 100)
            query.processAllAvailable()
        finally:
            query.stop()
        ends = cluster.record_counts(topic)
        for partition, end in ends.items():
            offsets = sorted(offset for number, offset in rows if number == partition)
            assert offsets == list(range(offsets[0] if partition == 0 else 0, end))
        assert sum(ends.values()) == sent
        assert followed == {batch_id: batch_id > 0 for batch_id in followed}
        assert len(followed) == 3
