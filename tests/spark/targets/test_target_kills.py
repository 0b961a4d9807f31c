"""A driver is killed with -9 at each named point of a batch, and started again. Every record is in each target once; in
the mode update the rows are right.

One driver has all kinds of targets, two queries of only format("moldau"), and a target and a source in an object store:
a start of Spark takes longer than all their batches.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyarrow import fs
from rich.console import Console

from moldau.columnar.reader import read_topic
from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.spec.spec import load_spec
from tests.exactly_once.pipeline_driver import INNER_POINTS, POINTS, start_copies
from tests.exactly_once.spark_driver import POINTS as POINTS_OF_A_COPY
from tests.exactly_once.tables import KEYS, TARGET_PARTITIONS, Place, faults, spec_of

RECORDS = 6_000
FILES, ROWS_OF_A_FILE = 12, 100
LIFE_S = 900
"""The time limit of a driver that hangs, far above what one needs."""
KINDS = (
    "topic",
    "files",
    "delta",
    "delta-sums",
    "delta-history",
    "iceberg",
    "iceberg-sums",
    "postgresql",
    "postgresql-sums",
    "postgresql-changes",
    "postgresql-history",
)


def with_files_of_a_store(spec: str, bucket: str) -> str:
    """The pipeline also reads files from the bucket, and writes files to it."""
    source = f"  stored: {{files: {bucket}/in, format: parquet, max_files_per_batch: 2}}\n"
    target = f"  stored-again: {{from: stored, path: {bucket}/out}}\n"
    return spec.replace("sources:\n", f"sources:\n{source}") + target


def test_the_copies_die_at_each_point_of_theirs():
    """At the last point the whole driver is killed."""
    assert {point for points in INNER_POINTS for point in points} == {*POINTS_OF_A_COPY[:-1]}
    assert POINTS_OF_A_COPY[-1] == POINTS[-1]


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_a_target_has_every_record_once(spark, new_topic, bootstrap_servers, postgresql, bucket, tmp_path: Path):
    source, copies = new_topic(2), [new_topic(3) for _ in INNER_POINTS]
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce(source, b"%d" % number, b"%d" % (number % KEYS), number % 2)
    assert producer.flush(60) == 0
    for number in range(FILES):
        begin = ROWS_OF_A_FILE * number
        bucket.put_table(f"in/{number}.parquet", pa.table({"number": range(begin, begin + ROWS_OF_A_FILE)}))
    place = Place(tmp_path, postgresql.url, bootstrap_servers, new_topic(TARGET_PARTITIONS))
    file = tmp_path / "spec.yaml"
    file.write_text(with_files_of_a_store(spec_of(KINDS, source, place), bucket.address))
    words = [word for topic in copies for word in ("--copy", topic)]

    for number, point in enumerate(POINTS):
        # a life's first batch may be a repeated one; the point counts in it too
        command = [sys.executable, "-m", "tests.exactly_once.pipeline_driver", str(file), *words]
        command += ["--point", point, "--batch", str(number)]
        life = subprocess.run(command, capture_output=True, text=True, timeout=LIFE_S, check=False)
        assert life.returncode == -signal.SIGKILL, life.stderr[-4_000:]
    # the last driver is this process
    spec = load_spec(file)
    queries = start_copies(spark, spec, copies, RECORDS)
    with open(os.devnull, "w") as nowhere:
        states = run_pipeline(spec, once=True, console=Console(file=nowhere))
    for query in queries:
        query.awaitTermination()

    assert {state.state for state in states} == {"finished"}
    assert faults(KINDS, place, RECORDS) == []
    for topic in copies:
        batches = read_topic(bootstrap_servers, topic)
        numbers = [int(value) for batch in batches for value in batch.column("value").to_pylist()]
        assert sorted(numbers) == list(range(RECORDS))
    files, root = fs.FileSystem.from_uri(bucket.address)
    rows = pq.read_table(f"{root}/out", filesystem=files)
    assert sorted(rows.column("number").to_pylist()) == list(range(FILES * ROWS_OF_A_FILE))
    assert set(rows.column("_file").to_pylist()) == {f"{bucket.address}/in/{number}.parquet" for number in range(FILES)}
