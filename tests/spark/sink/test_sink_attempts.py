"""Spark runs a whole stage again, and both attempts at its task count as the first: their rows are never mixed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.reader import read_topic
from moldau.columnar.writer import TopicWriter
from moldau.spark.options import SinkOptions
from moldau.spark.sink.transactions import (
    BatchAbortedError,
    SinkError,
    SinkTransaction,
    TaskReport,
    abort_transaction,
    begin_transaction,
    commit_transaction,
)

PATIENCE_S = 60
"""The time limit of a sink that writes nothing, far above what it needs."""


def test_a_stage_that_ran_twice_aborts_its_batch(spark, new_topic, bootstrap_servers, tmp_path):
    """The output of the map tasks is lost while the task that reads it has already written some rows."""
    topic, attempts = new_topic(), tmp_path / "attempts"

    def lose_input(batches):
        for number, batch in enumerate(batches):
            if number == 0:
                with attempts.open("a") as file:
                    file.write("began\n")
            if number == 8 and attempts.read_text().count("began") == 1:
                end_s = time.monotonic() + PATIENCE_S
                while not any(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")):
                    assert time.monotonic() < end_s, "the sink writes nothing"
                for folder in os.environ["SPARK_LOCAL_DIRS"].split(","):
                    for file in Path(folder).glob("*/shuffle_*"):
                        file.unlink()
            yield batch

    def write() -> None:
        rows = spark.range(0, 4_000, 1, 4).selectExpr(
            "cast(id as string) as key", "repeat(cast(id as string), 500) as value"
        )
        rows = rows.repartition(1).mapInArrow(lose_input, "key string, value string")
        writer = rows.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        writer.option("topic", topic).mode("append").save()

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        with pytest.raises(Exception, match="Spark has run the stage again, and an earlier attempt wrote there"):
            write()
        assert attempts.read_text().count("began") == 2
        assert not any(read_topic(bootstrap_servers, topic))
        write()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    keys = [int(key) for batch in read_topic(bootstrap_servers, topic) for key in batch.column("key").to_pylist()]
    assert sorted(keys) == list(range(4_000))


def test_a_partition_that_no_report_tells_of_aborts_the_batch(new_topic, bootstrap_servers, read_back):
    """The rows of a lost attempt went to another partition than those of the attempt that reports."""
    topic = new_topic(3)
    options = SinkOptions(access=ClusterAccess(bootstrap_servers), topic=topic)

    def write(transaction: SinkTransaction, partition: int, attempt: int):
        rows = pa.table({"value": [f"of attempt {attempt}"], "partition": pa.array([partition], pa.int32())})
        with TopicWriter(bootstrap_servers, topic, producer=transaction.producer, claim=attempt) as writer:
            writer.write(rows)
            return writer.flush()

    for lost in (2, None):
        transaction = begin_transaction(options, is_streaming=False)
        if lost is not None:
            write(transaction, lost, attempt=1)
        written = write(transaction, 0, attempt=2) | write(transaction, 1, attempt=2)
        report = TaskReport(transaction, 3, partition_id=0, attempt=0, query=None, batch_id=None, written=written)
        if lost is not None:
            with pytest.raises(BatchAbortedError, match=f"^{topic}-2 is in the transaction, and no task has reported"):
                commit_transaction(options, [report], None)
            abort_transaction(options, [report], transaction)
        else:
            commit_transaction(options, [report], None)
    assert read_back(topic) == [(None, b"of attempt 2")] * 2


def test_a_driver_that_was_fenced_leaves_no_note_of_the_batch_that_it_left_out(new_topic, bootstrap_servers):
    """It slept while another driver took over, which may have written further batches since."""
    topic = new_topic()
    options = SinkOptions(
        access=ClusterAccess(bootstrap_servers), topic=topic, transactional_id=f"job-{topic}", batch_id=0
    )
    first = begin_transaction(options, is_streaming=False)
    with TopicWriter(bootstrap_servers, topic, producer=first.producer) as writer:
        writer.write(pa.table({"value": ["a"]}))
        report = TaskReport(first, 3, partition_id=0, attempt=0, query="q", batch_id=0, written=writer.flush(), run="r")
    commit_transaction(options, [report], 0)
    asleep = replace(
        report, transaction=begin_transaction(options, is_streaming=False), written={}, is_skipped=True, run="of one"
    )
    another = replace(asleep, transaction=begin_transaction(options, is_streaming=False), run="of another")
    commit_transaction(options, [another], 0)
    with pytest.raises(SinkError, match="another driver has taken over"):
        commit_transaction(options, [asleep], 0)
    by_query = begin_transaction(options, is_streaming=False).by_query
    assert by_query == {"q": {"query": "q", "batch": 0, "topic": topic, "run": "of another"}}
