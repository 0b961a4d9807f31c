"""Spark's official Kafka connector reads and writes, as a batch and as a stream; a checkpoint moves between that
connector and Moldau's source in mid-stream.

Needs a Python with pyspark (MOLDAU_BENCH_SPARK_PYTHON), the connector's jars for it (MOLDAU_SPARK_KAFKA_JARS, separated
by commas) and a Java: run by `pytest -m java`, as the benchmarks are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.conformance.clients import CLIENTS, Received
from tests.conformance.spark_connector.needed import NEEDS_CONNECTOR

JOB_S = 300
RECORDS = 75
"""In each of two partitions; a batch takes 10 of each."""

pytestmark = NEEDS_CONNECTOR


def test_the_official_connector_reads_and_writes_in_batches_and_streams(
    bootstrap_servers: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = new_topic(partitions=2), new_topic(partitions=2)
    writer = CLIENTS["confluent-kafka"](bootstrap_servers)
    for partition in range(2):
        records = [Received(b"key-%d" % n, b"value-%d-%d" % (partition, n), (("trace", b"1"),)) for n in range(50)]
        writer.produce(source, records, codec="lz4", partition=partition)
    job = Path(__file__).with_name("job.py")
    command = [os.environ["MOLDAU_BENCH_SPARK_PYTHON"], str(job), bootstrap_servers, source, target, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    result = json.loads(line.removeprefix("RESULT "))
    expected = [[p, n, f"key-{n}", f"value-{p}-{n}", ["trace"]] for p in range(2) for n in range(50)]
    assert result["read"] == expected
    # once by the batch, once by the stream
    assert result["written"] == 200


def test_a_checkpoint_moves_to_moldau_and_back_in_mid_stream(
    bootstrap_servers: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, output, checkpoint = new_topic(partitions=2), tmp_path / "output", tmp_path / "checkpoint"
    output.mkdir()
    writer = CLIENTS["confluent-kafka"](bootstrap_servers)
    for partition in range(2):
        records = [Received(None, b"%d" % number, ()) for number in range(RECORDS)]
        writer.produce(topic, records, codec="none", partition=partition)

    def run(source_format: str, batches: int) -> None:
        job = Path(__file__).with_name("moving_job.py")
        arguments = [source_format, bootstrap_servers, topic, str(output), str(checkpoint), str(batches)]
        command = [os.environ["MOLDAU_BENCH_SPARK_PYTHON"], str(job), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_S, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    def move_back() -> None:
        command = [sys.executable, "-m", "moldau.cli.main", "pipeline", "checkpoint", "--to", "spark-kafka"]
        subprocess.run([*command, str(checkpoint)], timeout=60, check=True)

    run("kafka", 1)
    run("moldau", 2)
    move_back()
    run("kafka", 2)
    run("moldau", 0)
    move_back()
    run("kafka", 0)
    rows = [tuple(row) for path in output.iterdir() for row in json.loads(path.read_text())]
    assert sorted(rows) == [(partition, offset) for partition in range(2) for offset in range(RECORDS)]
