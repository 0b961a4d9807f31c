"""The broker goes away in the middle of a batch, or the checkpoint cannot be written: every record is there once."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from moldau.columnar import write_table
from moldau.columnar.reader import read_topic
from moldau.testing import Cluster

ROWS = 2_000
PATIENCE_S = 60
"""The time limit of each wait, far above what it needs."""


def rows(first: int, end: int) -> pa.Table:
    """Numbers of 2,000 digits: the pipes between Spark's processes hold only some of them."""
    return pa.table({"value": [f"{number:02000}" for number in range(first, end)]})


def numbers(servers: str, topic: str) -> list[int]:
    return [int(value) for batch in read_topic(servers, topic) for value in batch.column("value").to_pylist()]


def wait_for(path: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end_s, f"no {path.name}"
        threading.Event().wait(0.02)


@pytest.fixture
def start(spark):
    """`start(servers, source, target, checkpoint, step)` copies in one task; `step` sees each Arrow batch in it."""

    def run(servers: str, source: str, target: str, checkpoint: Path, step):
        stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", servers)
        stream = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
        copied = stream.select("value").coalesce(1).mapInArrow(step, "value binary")
        writer = copied.writeStream.format("moldau").option("kafka.bootstrap.servers", servers).option("topic", target)
        return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    yield run
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """The test's own broker: it dies."""
    with Cluster() as made:
        yield made


def test_a_batch_goes_on_when_the_broker_is_back_after_a_minute(cluster, start, tmp_path):
    source, target = cluster.topic("source"), cluster.topic("target")
    write_table(cluster.bootstrap_servers, source, rows(0, ROWS))
    is_midway, is_gone = tmp_path / "midway", tmp_path / "gone"

    def step(batches):
        for number, batch in enumerate(batches):
            if number == ROWS // 100:
                is_midway.touch()
                wait_for(is_gone)
            yield batch

    query = start(cluster.bootstrap_servers, source, target, tmp_path / "checkpoint", step)
    cluster.wait_for(is_midway.exists, timeout=PATIENCE_S)
    cluster.wait_for(lambda: any(cluster.record_counts(target).values()), timeout=PATIENCE_S)  # not committed yet
    cluster.kill()
    cluster.advance(minutes=1)
    is_gone.touch()
    cluster.restart()
    assert query.awaitTermination(PATIENCE_S)
    assert numbers(cluster.bootstrap_servers, target) == list(range(ROWS))


def test_the_client_options_of_a_sink_reach_all_of_its_clients(spark, cluster):
    """A missing response is given up after the given time: by default these three take a minute and a half."""
    topic = cluster.topic()
    faults = [
        cluster.faults.drop(api, when="after", client_id="orders-job")
        for api in ("InitProducerId", "Produce", "EndTxn")
    ]
    frame = spark.sql("select 'v' as value").write.format("moldau").option("topic", topic)
    frame = frame.option("kafka.bootstrap.servers", cluster.bootstrap_servers).option("kafka.client.id", "orders-job")
    began_s = time.monotonic()
    frame.option("kafka.request.timeout.ms", "300").mode("append").save()
    assert time.monotonic() - began_s < 80
    assert [fault.times_happened for fault in faults] == [1, 1, 1]
    assert [record.value for record in cluster.records(topic)] == [b"v"]


@pytest.mark.slow
@pytest.mark.parametrize("full", ["before the batch", "after the commit of the sink"])
def test_a_disk_that_is_full_under_the_checkpoint_ends_the_query_and_doubles_nothing(
    spark, start, new_topic, bootstrap_servers, tmp_path, full
):
    """Spark's process can no longer write a file, as on a full disk: first its offsets, then its commit log."""
    source, target = new_topic(), new_topic()
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    limits = resource.prlimit(jvm, resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, (0, limits[1]))

    def step(batches):
        yield from batches
        if (tmp_path / "fill").exists():
            fill()

    def copy():
        query = start(bootstrap_servers, source, target, tmp_path / "checkpoint", step)
        query.awaitTermination()

    write_table(bootstrap_servers, source, rows(0, ROWS))
    copy()
    write_table(bootstrap_servers, source, rows(ROWS, 2 * ROWS))
    try:
        if full == "before the batch":
            fill()
        else:
            (tmp_path / "fill").touch()
        with pytest.raises(Exception, match="File too large"):
            copy()
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, limits)
        (tmp_path / "fill").unlink(missing_ok=True)
    is_written = full != "before the batch"
    assert numbers(bootstrap_servers, target) == list(range(2 * ROWS if is_written else ROWS))
    copy()
    assert numbers(bootstrap_servers, target) == list(range(2 * ROWS))
