"""A stream's reader over changing topics: records come while offsets are read, partitions and topics appear, the start
is deleted, the broker is killed. The test calls the reader as Spark does; only the last test runs Spark."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from moldau.spark.options import LATEST, parse_source_options
from moldau.spark.source.offsets import DataLossError, StartError
from moldau.spark.source.source import TopicStreamReader
from moldau.spark.source.topics import SubscribedTopics
from moldau.testing import Cluster
from moldau.types import TopicPartition
from tests.spark.streams import Stream, add_partitions, delete_records, through_text


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


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


def test_a_first_batch_of_nothing_that_was_cut_short_is_run_again_where_it_was(cluster: Cluster):
    topic = cluster.topic()
    cluster.produce(topic, b"old")
    stream = Stream(cluster, subscribe=topic)
    end = stream.plan()
    assert end is not None
    cluster.produce(topic, b"new")
    stream.die()
    assert stream.read(end) == []
    stream.committed = dict(end)
    assert stream.batch() == [b"new"]
    assert stream.plan() is None


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
    assert stream.batch() == []
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


def make_anew(cluster: Cluster, topic: str, *values: bytes) -> None:
    cluster.delete_topic(topic)
    cluster.create_topic(topic)
    cluster.produce(topic, *values)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_topic_made_again_before_reading_is_a_loss_and_read_from_its_start(cluster: Cluster, is_killed: bool):
    topic, other = cluster.topic(), cluster.topic()
    options = {"subscribe": f"{topic},{other}", "startingOffsets": "earliest"}
    strict, tolerant = Stream(cluster, **options), Stream(cluster, **options, failOnDataLoss="false")
    cluster.produce(topic, b"old", b"old too")
    cluster.produce(other, b"other")
    ends = [strict.plan(), tolerant.plan()]
    assert None not in ends
    make_anew(cluster, topic, b"new", b"newer", b"newest")
    if is_killed:
        strict.die()
        tolerant.die()
    with pytest.raises(DataLossError, match=f"{topic}.* was deleted and (created|made) again"):
        strict.read(ends[0])
    assert tolerant.read(ends[1]) == [b"other"]
    tolerant.committed = dict(ends[1])
    assert tolerant.batch() == [b"new", b"newer", b"newest"]
    assert tolerant.batch() == []


def test_a_topic_made_anew_while_its_task_reads_is_a_loss(cluster: Cluster):
    topic, other = cluster.topic(), cluster.topic()
    options = {"subscribe": f"{topic},{other}", "startingOffsets": "earliest"}
    strict, tolerant = Stream(cluster, **options), Stream(cluster, **options, failOnDataLoss="false")
    cluster.produce(topic, b"old")
    cluster.produce(other, b"other")
    tasks = []
    for stream in (strict, tolerant):
        end = stream.plan()
        assert end is not None
        tasks.append(stream.reader.partitions(through_text(stream.reader.initialOffset()), dict(end)))
    make_anew(cluster, topic, b"new")
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        [list(strict.reader.read(task)) for task in tasks[0]]
    read = [batch for task in tasks[1] for batch in tolerant.reader.read(task)]
    assert [value for batch in read for value in batch.column("value").to_pylist()] == [b"other"]


def test_a_topic_deleted_before_its_task_reads_is_a_loss_or_left_out(cluster: Cluster):
    topic, other = cluster.topic(), cluster.topic()
    options = {"subscribe": f"{topic},{other}", "startingOffsets": "earliest", "retryTimeoutMs": "500"}
    streams = [Stream(cluster, **options), Stream(cluster, **options, failOnDataLoss="false")]
    cluster.produce(topic, b"gone")
    cluster.produce(other, b"other")
    tasks = []
    for stream in streams:
        end = stream.plan()
        assert end is not None
        tasks.append(stream.reader.partitions(through_text(stream.reader.initialOffset()), dict(end)))
    cluster.delete_topic(topic)
    with pytest.raises(DataLossError, match=f"{topic}.*failOnDataLoss"):
        [list(streams[0].reader.read(task)) for task in tasks[0]]
    read = [batch for task in tasks[1] for batch in streams[1].reader.read(task)]
    assert [value for batch in read for value in batch.column("value").to_pylist()] == [b"other"]


def test_a_topic_of_a_pattern_that_is_deleted_is_a_loss_or_left_out(cluster: Cluster):
    prefix = cluster.topic("left")
    cluster.create_topic(f"{prefix}-b")
    options = {"subscribePattern": f"{prefix}.*", "startingOffsets": "earliest"}
    strict, tolerant = Stream(cluster, **options), Stream(cluster, **options, failOnDataLoss="false")
    for number in range(2):
        cluster.produce(f"{prefix}-b", b"b%d" % number)
        assert strict.batch() == tolerant.batch() == [b"b%d" % number]
    end = tolerant.plan()
    cluster.delete_topic(f"{prefix}-b")
    cluster.produce(prefix, b"a")
    with pytest.raises(DataLossError, match=f"{prefix}-b-0 is gone"):
        strict.batch()
    assert end is None
    assert tolerant.batch() == [b"a"]
    cluster.create_topic(f"{prefix}-b")
    cluster.produce(f"{prefix}-b", b"again")
    assert tolerant.batch() == [b"again"]


def test_a_topic_of_a_pattern_deleted_before_its_offsets_are_known_is_left_out(cluster: Cluster):
    kept = cluster.topic("short-lived")
    deleted = cluster.create_topic(f"{kept}-deleted")
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribePattern": f"{kept}.*"}
    asked: list[list[str]] = []
    with SubscribedTopics(parse_source_options({**options, "retryTimeoutMs": "300"}, is_streaming=True)) as topics:

        def ask(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            asked.append([one.topic for one in partitions])
            if len(asked) == 1:
                cluster.delete_topic(deleted)
            return topics.lookup(dict.fromkeys(partitions, LATEST))

        found, topic_ids = topics.look(ask)
    assert asked == [[kept, deleted], [kept]]
    assert found == {TopicPartition(kept, 0): 0}
    assert list(topic_ids) == [kept]


def test_available_now_goes_on_without_a_topic_that_is_deleted_on_its_way(cluster: Cluster):
    kept = cluster.topic("on-its-way")
    deleted = cluster.create_topic(f"{kept}-deleted")
    for topic in (kept, deleted):
        cluster.produce(topic, *[b"%d" % number for number in range(4)])
    options = {"subscribePattern": f"{kept}.*", "startingOffsets": "earliest", "retryTimeoutMs": "300"}
    streams = [Stream(cluster, **options, failOnDataLoss=fails) for fails in ("true", "false")]
    for stream in streams:
        stream.reader.prepareForTriggerAvailableNow()
        assert stream.batch(4) == [b"0", b"1", b"0", b"1"]
    planned = [stream.plan(2) for stream in streams]
    cluster.delete_topic(deleted)
    with pytest.raises(DataLossError, match=f"{deleted}-0 is gone"):
        streams[0].read(planned[0] or {})
    assert streams[1].read(planned[1] or {}) == [b"2"]
    streams[1].committed = dict(planned[1] or {})
    assert [streams[1].batch(1), streams[1].plan(1)] == [[b"3"], None]


def test_a_planned_batch_of_a_topic_that_was_deleted_is_a_loss_or_empty(cluster: Cluster):
    topic = cluster.topic()
    options = {"subscribePattern": f"{topic}.*", "startingOffsets": "earliest"}
    strict, tolerant = Stream(cluster, **options), Stream(cluster, **options, failOnDataLoss="false")
    cluster.produce(topic, b"old")
    ends = [strict.plan(), tolerant.plan()]
    cluster.delete_topic(topic)
    for stream in (strict, tolerant):
        stream.die()
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted"):
        strict.read(ends[0])
    assert tolerant.read(ends[1]) == []


@pytest.mark.slow
def test_a_topic_subscribed_by_name_that_is_deleted_ends_the_stream_by_its_name(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    assert stream.batch() == []
    cluster.delete_topic(topic)
    with pytest.raises(StartError, match=f"topic '{topic}' does not exist"):
        stream.batch()


def test_a_topic_that_one_broker_does_not_know_yet_is_asked_for_again(cluster: Cluster):
    topic = cluster.topic()
    cluster.produce(topic, b"a")
    for subscription in ({"subscribe": topic}, {"assign": f'{{"{topic}":[0]}}'}):
        with cluster.faults.error("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", client_id="moldau-spark") as late:
            assert Stream(cluster, **subscription, startingOffsets="earliest").batch() == [b"a"]
            assert late.is_over


def test_a_coordinator_that_is_away_holds_up_no_batches(cluster: Cluster, caplog: pytest.LogCaptureFixture):
    """The progress in the group is only for display: one try within a second, and no more for a while."""
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": "shown"})
    cluster.produce(topic, b"a")
    assert stream.batch() == [b"a"]
    with cluster.faults.error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=100) as away:
        stream.reader.commit(dict(stream.committed))
        assert "the progress was not committed to group shown" in caplog.text
        tries = away.times_happened
        assert 0 < tries < 100
        stream.reader.commit(dict(stream.committed))
        assert away.times_happened == tries


def test_available_now_reads_in_batches_up_to_what_was_there_at_its_start(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    cluster.produce(topic, b"0", b"1", b"2")
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.batch(2) == [b"0", b"1"]
    cluster.produce(topic, b"3")
    add_partitions(cluster, topic, 2)
    cluster.produce(topic, b"4", partition=1)
    assert [stream.batch(2), stream.batch(2)] == [[b"2"], []]
    stream.die()
    stream.reader.prepareForTriggerAvailableNow()
    assert [stream.batch(), stream.batch()] == [[b"3", b"4"], []]


def test_what_comes_between_the_first_questions_of_available_now_is_no_loss(cluster: Cluster):
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic)  # from the latest offset
    stream.reader.prepareForTriggerAvailableNow()
    cluster.produce(topic, b"0")
    add_partitions(cluster, topic, 2)
    assert stream.batch() == []


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


def test_a_task_whose_broker_is_lost_in_mid_batch_reads_each_record_once():
    with Cluster() as cluster:
        topic = cluster.topic()
        for number in range(6):
            cluster.produce(topic, *[b"%d" % number] * 10)
        small = {"kafka.fetch.max.bytes": "200"}
        stream = Stream(cluster, subscribe=topic, startingOffsets="earliest", **small)
        end = stream.plan()
        assert end is not None
        (task,) = stream.reader.partitions(through_text(stream.reader.initialOffset()), dict(end))
        rows = stream.reader.read(task)
        values = next(rows).column("value").to_pylist()
        assert len(values) == 10
        cluster.restart(clean=False)
        for batch in rows:
            values += batch.column("value").to_pylist()
        assert values == [b"%d" % (number // 10) for number in range(60)]


def test_a_task_that_starts_without_a_broker_tries_as_long_as_one_that_lost_it(cluster):
    """The driver has read the ranges from the cluster, so a task's connection is not a first contact."""
    topic = cluster.topic()
    stream = Stream(cluster, subscribe=topic, startingOffsets="earliest")
    cluster.produce(topic, b"a", b"b")
    end = stream.plan()
    assert end is not None
    tasks = stream.reader.partitions(through_text(stream.reader.initialOffset()), dict(end))
    options = stream.reader.options
    hasty = msgspec.structs.replace(options, access=msgspec.structs.replace(options.access, first_contact_timeout_ms=1))
    with cluster.faults.disconnect("ApiVersions", times=3) as away:
        reader = TopicStreamReader(hasty, 2)
        assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 2
        assert away.is_over


@pytest.mark.slow
def test_a_query_from_latest_survives_new_partitions_and_a_broker_that_dies(spark, tmp_path):
    """Every record after the first one that was read is there once, while writing never stops."""
    with Cluster() as cluster:
        topic = cluster.topic()
        frame = spark.readStream.format("moldau").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        frame = frame.option("subscribe", topic).load().selectExpr("partition", "offset")
        rows: list[tuple[int, int]] = []

        followed: dict[int, bool] = {}

        def tell(batches):
            import pyarrow as pa

            from moldau.spark.sink.sink import follows_a_batch

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
