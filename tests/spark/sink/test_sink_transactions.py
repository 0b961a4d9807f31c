"""The exactly-once sink: committed, aborted and skipped batches, and fenced drivers."""

from __future__ import annotations

import itertools
import json
import shutil

import pytest

from moldau.client.blocking.offsets import commit_offsets, committed_offsets
from moldau.client.blocking.transactions import begin_producer
from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.reader import read_topic
from moldau.spark import by_target_partition
from moldau.testing import Cluster
from moldau.transport.access import open_client
from moldau.types import TopicPartition


@pytest.fixture
def copy(spark, bootstrap_servers):
    """`copy(source, target, checkpoint)` runs a stream until all present records are copied."""

    def run(source: str, target: str, checkpoint, *, sql=("key", "value"), prepare=None, **options):
        stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        stream = stream.option("subscribe", source).option("startingOffsets", "earliest")
        frame = stream.load().selectExpr(*sql)
        if prepare is not None:
            frame = prepare(frame, target)
        writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
        query = writer.options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return run


@pytest.fixture
def apart(bootstrap_servers):
    """The helper that a keyed result needs."""
    return lambda frame, target: by_target_partition(frame, bootstrap_servers, target)


@pytest.fixture
def positions(bootstrap_servers):
    def read(group: str):
        with open_client(ClusterAccess(bootstrap_servers)) as client:
            return committed_offsets(client, group)

    return read


def forget_commit(checkpoint, batch: int) -> None:
    """Leaves the checkpoint of a driver that is killed after its sink has committed, but before Spark has."""
    forget(checkpoint / "commits", batch)


def forget(log, batch: int) -> None:
    (log / str(batch)).unlink()
    (log / f".{batch}.crc").unlink(missing_ok=True)


def query_of(checkpoint) -> str:
    return json.loads((checkpoint / "metadata").read_text())["id"]


def rows(count: int):
    return [(b"k%d" % number, b"%d" % number) for number in range(count)]


@pytest.mark.slow
def test_a_batch_whose_commit_spark_did_not_note_is_not_written_again(
    copy, apart, positions, new_topic, produce, read_back, tmp_path, bootstrap_servers
):
    source, target = new_topic(2), new_topic(3)
    produce(source, rows(200), partition=0)
    produce(source, rows(100), partition=1)
    copy(source, target, tmp_path, prepare=apart)
    assert sorted(read_back(target)) == sorted(rows(200) + rows(100))
    group = f"moldau-{query_of(tmp_path)}"
    found = positions(group)
    assert {partition: at.offset for partition, at in found.items()} == {
        TopicPartition(source, 0): 200,
        TopicPartition(source, 1): 100,
    }
    assert {at.metadata for at in found.values()} == {json.dumps({"query": query_of(tmp_path), "batch": 0})}
    with open_client(ClusterAccess(bootstrap_servers)) as client:
        # as by a client that copies the group's offsets and ends each text with a NUL
        for partition, at in found.items():
            commit_offsets(client, group, {partition: at.offset}, at.metadata + "\0")
    forget_commit(tmp_path, 0)
    copy(source, target, tmp_path, prepare=apart)
    assert len(read_back(target)) == 300
    produce(source, rows(10), partition=1)
    copy(source, target, tmp_path, prepare=apart)
    assert len(read_back(target)) == 310


@pytest.mark.slow
def test_the_state_of_a_skipped_batch_is_kept(spark, copy, apart, new_topic, produce, read_back, tmp_path):
    """Its rows are read to the end: otherwise the next batch would lack the state that it builds on."""
    source, target = new_topic(), new_topic(2)

    def counted(frame, target):
        return apart(frame.dropDuplicates(["value"]), target)

    produce(source, rows(20) + rows(20))
    copy(source, target, tmp_path, prepare=counted)
    assert sorted(read_back(target)) == sorted(rows(20))
    forget_commit(tmp_path, 0)
    shutil.rmtree(tmp_path / "state")
    copy(source, target, tmp_path, prepare=counted)
    produce(source, rows(25))
    copy(source, target, tmp_path, prepare=counted)
    assert sorted(read_back(target)) == sorted(rows(25))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ([2], "batch 2 of this query is to end at offset 35 of .*-0, and the group .* has batch 2 .* offset 30"),
        ([1, 2], "batch 1 of this query is to be written, and the group .* has batch 2 already"),
    ],
)
def test_a_batch_that_the_checkpoint_has_lost_is_not_taken_for_the_one_of_its_number(
    copy, apart, new_topic, produce, read_back, tmp_path, lost, why
):
    """As with a restored copy of the checkpoint: Spark plans the number again, up to the present end."""
    source, target = new_topic(), new_topic(2)
    for _ in range(3):
        produce(source, rows(10))
        copy(source, target, tmp_path, prepare=apart)
    for batch, folder in itertools.product(lost, ("offsets", "commits")):
        forget(tmp_path / folder, batch)
    produce(source, rows(5))
    for _ in range(2):
        with pytest.raises(Exception, match=f"{why}.*put back to an older state.*startingGroup"):
            copy(source, target, tmp_path, prepare=apart)
    assert sorted(read_back(target)) == sorted(rows(10) * 3)


def test_another_query_writes_its_own_batches_under_the_same_transactional_id(
    copy, apart, new_topic, produce, read_back, tmp_path
):
    source, target = new_topic(), new_topic(2)
    produce(source, rows(20))
    ids = {"kafka.transactional.id": f"job-{target}", "KAFKA.GROUP.ID": f"shown-{target}"}
    for checkpoint in ("one", "two"):
        copy(source, target, tmp_path / checkpoint, prepare=apart, **ids)
    assert sorted(read_back(target)) == sorted(rows(20) * 2)


def test_keys_of_several_tasks_are_rejected_with_the_line_to_write(copy, new_topic, produce, read_back, tmp_path):
    source, target = new_topic(2), new_topic(2)
    produce(source, rows(10))
    copy(source, target, tmp_path)
    assert len(read_back(target)) == 10
    for partition in (0, 1):
        produce(source, rows(3_000), partition=partition)
    line = rf"by_target_partition\(df, bootstrap_servers, '{target}'\)` before"
    with pytest.raises(Exception, match=line):
        copy(source, target, tmp_path)
    assert len(read_back(target)) == 10


def test_rows_without_a_key_need_no_shuffle(copy, new_topic, produce, read_back, tmp_path, bootstrap_servers):
    source, target = new_topic(2), new_topic(2)
    for partition in (0, 1):
        produce(source, rows(3_000), partition=partition)
    copy(source, target, tmp_path, sql=("value",))
    assert sorted(read_back(target)) == sorted((None, value) for _, value in rows(3_000) * 2)
    for batch in read_topic(bootstrap_servers, target):
        assert len(batch.column("partition").unique()) == 1
    assert len({batch.column("partition")[0].as_py() for batch in read_topic(bootstrap_servers, target)}) == 2


@pytest.mark.slow
def test_rows_without_a_key_that_name_their_partition_or_none_are_brought_together(
    copy, apart, new_topic, produce, read_back, tmp_path
):
    source, target = new_topic(2), new_topic(2)
    for _ in range(2):
        for partition in (0, 1):
            produce(source, rows(2_000), partition=partition)
        copy(source, target, tmp_path, sql=("value", "if(offset % 3 = 0, null, partition) as partition"), prepare=apart)
    assert sorted(value for _, value in read_back(target)) == sorted(value for _, value in rows(2_000) * 4)


def test_a_topic_is_copied_by_its_own_partitions(copy, new_topic, produce, read_back, tmp_path):
    source, target = new_topic(2), new_topic(2)
    for partition in (0, 1):
        produce(source, rows(2_000 + partition), partition=partition)
    copy(source, target, tmp_path, sql=("key", "value", "partition"))
    assert read_back(target) == read_back(source)


def test_a_query_whose_sources_have_names_is_written_once(
    spark, positions, new_topic, produce, read_back, bootstrap_servers, tmp_path
):
    """Spark then writes another version of its offsets."""
    source, target = new_topic(), new_topic()
    produce(source, rows(10))

    def run() -> None:
        stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers).name("orders")
        frame = stream.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
        writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    try:
        run()
        forget_commit(tmp_path, 0)
        run()
    finally:
        spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
    found = positions(f"moldau-{query_of(tmp_path)}")
    assert {partition: at.offset for partition, at in found.items()} == {TopicPartition(source, 0): 10}
    assert read_back(target) == rows(10)


def test_a_stream_from_elsewhere_leaves_its_note_at_a_target_partition(
    spark, positions, new_topic, read_back, bootstrap_servers, tmp_path
):
    target = new_topic()
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    spark.range(10).selectExpr("cast(id as string) as value").write.parquet(str(data))

    def run() -> None:
        frame = spark.readStream.schema("value string").parquet(str(data)).coalesce(1)
        writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    (at,) = positions(f"moldau-{query_of(checkpoint)}").items()
    assert (at[0], at[1].offset) == (TopicPartition(target, 0), 10)
    forget_commit(checkpoint, 0)
    run()
    assert len(read_back(target)) == 10


def test_offsets_of_a_topic_of_the_same_name_on_another_cluster_are_not_committed(
    spark, positions, new_topic, read_back, bootstrap_servers, tmp_path
):
    topic = new_topic()
    with Cluster() as other:
        other.create_topic(topic, 3)
        for partition in range(3):
            other.produce(topic, *map(str, range(partition + 1)), partition=partition)

        def run() -> None:
            stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", other.bootstrap_servers)
            stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
            frame = stream.load().select("value").coalesce(1)
            writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
            writer = writer.option("topic", topic).option("checkpointLocation", str(tmp_path))
            # the time limit of retries for a group that rejects the offsets
            writer.option("retryTimeoutMs", "2000").trigger(availableNow=True).start().awaitTermination()

        run()
        found = positions(f"moldau-{query_of(tmp_path)}")
        assert {partition: at.offset for partition, at in found.items()} == {TopicPartition(topic, 0): 6}
        forget_commit(tmp_path, 0)
        run()
    assert len(read_back(topic)) == 6


def test_a_second_driver_fences_the_first(spark, new_topic, read_back, bootstrap_servers):
    """In the middle of a task; the first one's records do not count, and its error names the other driver."""
    topic = new_topic()

    def take_over(batches):
        for batch in batches:
            with open_client(ClusterAccess(bootstrap_servers)) as client:
                begin_producer(client, f"job-{topic}", 60_000)
            yield batch

    frame = spark.range(0, 10, 1, 1).selectExpr("cast(id as string) as value").mapInArrow(take_over, "value string")
    writer = frame.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic)
    with pytest.raises(Exception, match="another driver has taken over the transactional id"):
        writer.option("kafka.transactional.id", f"job-{topic}").mode("append").save()
    assert read_back(topic) == []


def test_a_write_inside_foreach_batch_says_what_it_needs(
    spark, new_topic, produce, read_back, bootstrap_servers, tmp_path
):
    source, target = new_topic(), new_topic(2)
    produce(source, rows(100))

    def run(**options: str) -> None:
        def write(batch, batch_id: int) -> None:
            given = {name: value.format(batch_id=batch_id) for name, value in options.items()}
            rows = by_target_partition(batch.select("key", "value"), bootstrap_servers, target)
            writer = rows.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
            writer.option("topic", target).options(**given).mode("append").save()

        stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        stream = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="only with the options checkpointLocation and batchId"):
        run()
    assert read_back(target) == []
    named = {"checkpointLocation": str(tmp_path), "batchId": "{batch_id}"}
    run(**named)
    forget_commit(tmp_path, 0)
    run(**named)
    assert sorted(read_back(target)) == sorted(rows(100))


@pytest.mark.slow
@pytest.mark.parametrize("is_one_topic", [False, True])
def test_a_second_write_of_a_batch_is_refused_unless_it_has_names_of_its_own(
    spark, new_topic, produce, read_back, bootstrap_servers, tmp_path, is_one_topic
):
    """Also in each later run, where the first write finds the batch committed and writes nothing."""
    source, targets = new_topic(), [new_topic(), new_topic()]
    targets = targets[:1] * 2 if is_one_topic else targets
    produce(source, rows(10))

    def run(*names: dict[str, str]) -> None:
        def write(batch, batch_id: int) -> None:
            for target, own in zip(targets, names, strict=True):
                writer = batch.select("value").write.format("moldau").option("topic", target)
                writer = writer.option("kafka.bootstrap.servers", bootstrap_servers).options(**own)
                writer = writer.option("checkpointLocation", str(tmp_path)).option("batchId", batch_id)
                writer.mode("append").save()

        stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        stream = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):
        with pytest.raises(Exception, match=r"batch 0 .* has been written .*kafka\.transactional\.id"):
            run({}, {})
    run({}, {"kafka.transactional.id": f"second-{targets[1]}"})
    for target in targets:
        assert [value for _, value in read_back(target)] == [value for _, value in rows(10)] * (1 + is_one_topic)


def test_a_stream_that_does_not_name_its_checkpoint_is_refused(spark, new_topic, bootstrap_servers, tmp_path):
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
        writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        query = writer.option("topic", new_topic()).trigger(availableNow=True).start()
        with pytest.raises(Exception, match="set the option checkpointLocation"):
            query.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_a_row_that_the_broker_refuses_aborts_the_batch_and_is_named(
    copy, apart, new_topic, produce, read_back, tmp_path
):
    source, target = new_topic(), new_topic(2, **{"max.message.bytes": "2000"})
    produce(source, [(b"k", b"x"), (b"k", b"x" * 3_000), (b"k", b"x")])
    origin = ("topic as _topic", "partition as _partition", "offset as _offset")
    with pytest.raises(Exception, match=rf"the input record is {source}-0 at offset 1\b"):
        copy(source, target, tmp_path, sql=("key", "value", *origin), prepare=apart)
    assert read_back(target) == []


def test_a_write_with_an_id_goes_on_with_the_ranges_that_are_left(
    spark, new_topic, read_back, bootstrap_servers, tmp_path
):
    """Each task is a separate transaction, so rows of a key need not be in one task."""
    topic, is_well = new_topic(2), tmp_path / "well"

    def fail_once(batches):
        for batch in batches:
            if 25 in batch.column(0).to_pylist() and not is_well.exists():
                is_well.touch()
                raise RuntimeError("the third range fails")
            yield batch

    def write(write_id: str) -> None:
        rows = spark.range(0, 30, 1, 3).mapInArrow(fail_once, "id long")
        rows = rows.selectExpr("cast(id as string) as key", "cast(id as string) as value")
        writer = rows.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        writer.option("topic", topic).option("write_id", write_id).mode("append").save()

    with pytest.raises(Exception, match="the third range fails"):
        write(f"one-{topic}")
    assert {int(value) for _, value in read_back(topic)} <= set(range(20))
    for _ in range(2):
        write(f"one-{topic}")
        assert sorted(int(value) for _, value in read_back(topic)) == list(range(30))
    write(f"two-{topic}")
    assert len(read_back(topic)) == 60


def test_a_write_with_an_id_refuses_rows_that_are_cut_otherwise(spark, new_topic, read_back, bootstrap_servers):
    topic = new_topic()

    def write(rows: int, tasks: int) -> None:
        values = spark.range(0, rows, 1, tasks).selectExpr("cast(id as string) as value")
        writer = values.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        writer.option("topic", topic).option("write_id", f"cut-{topic}").mode("append").save()

    write(30, 3)
    for rows, tasks, found in ((30, 2, 15), (33, 3, 11)):
        with pytest.raises(Exception, match=rf"is committed with 10 rows, and task \d of this run has {found}:"):
            write(rows, tasks)
    write(30, 3)
    assert sorted(int(value) for _, value in read_back(topic)) == list(range(30))
