"""Spark's official Kafka connector reads and writes, as a batch and as a stream.

Needs a Python with pyspark (MOLDAU_BENCH_SPARK_PYTHON), the connector's jars for it (MOLDAU_SPARK_KAFKA_JARS, separated
by commas) and a Java: run by `pytest -m java`, as the benchmarks are.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.clients import CLIENTS, Received

NEEDED = ("MOLDAU_BENCH_SPARK_PYTHON", "MOLDAU_SPARK_KAFKA_JARS")
JOB_S = 300

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(any(name not in os.environ for name in NEEDED), reason=f"{' and '.join(NEEDED)} are not set"),
]


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
