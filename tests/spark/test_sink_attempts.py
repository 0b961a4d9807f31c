"""Spark runs a whole stage again, and both attempts at its task count as the first: nothing of the two is mixed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from moldau.columnar.reader import read_topic

PATIENCE_S = 60
"""A bound for a sink that writes nothing, far above what it needs."""


def test_a_stage_that_ran_twice_aborts_its_batch(spark, new_topic, bootstrap_servers, tmp_path):
    """The output of the map tasks is lost while the task that reads it has written some rows already."""
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
