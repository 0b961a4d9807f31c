"""Spark Connect: topics and pipelines on a server whose JVM is not the pipeline's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from moldau.cli.main import main
from tests.exactly_once.judge import read_committed
from tests.exactly_once.tables import KEYS, TARGET_PARTITIONS, Place, faults, spec_of
from tests.support.postgresql import PostgresqlServer
from tests.support.spark_connect import ConnectServer
from tests.support.talking_process import TalkingProcess

RECORDS = 5_000
RUN_S = 400
KINDS = ("topic", "delta", "delta-sums", "iceberg", "postgresql", "postgresql-sums", "files")

COPY = """
import sys
from pyspark.sql import SparkSession
from moldau.spark import by_target_partition, register
url, servers, source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
register(spark)
reader = spark.read.format("moldau").option("kafka.bootstrap.servers", servers)
whole = reader.option("subscribe", source).load()
print("read", whole.count(), flush=True)
stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", servers)
stream = stream.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
writer = by_target_partition(stream, servers, target).writeStream.format("moldau")
writer = writer.option("kafka.bootstrap.servers", servers).option("topic", target)
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    server = ConnectServer()
    yield server
    server.stop()


@pytest.fixture
def produce_numbers(bootstrap_servers):
    """Writes the records of a range."""

    def produce(topic: str, numbers: range) -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
        for number in numbers:
            producer.produce(topic, b"%d" % number, b"%d" % (number % KEYS), number % 2)
        assert producer.flush(60) == 0

    return produce


@pytest.fixture
def place(tmp_path: Path, bootstrap_servers, new_topic) -> Iterator[Place]:
    postgresql = PostgresqlServer()
    yield Place(tmp_path / "out", postgresql.url, bootstrap_servers, new_topic(partitions=TARGET_PARTITIONS))
    postgresql.close()


def command(spec: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "moldau.cli.main", "pipeline", "run", str(spec), *words]


def run_spec(spec: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(spec, *words), capture_output=True, text=True, timeout=RUN_S, check=False)


def test_a_session_of_a_server_reads_and_writes_topics(server, produce_numbers, new_topic, bootstrap_servers, tmp_path):
    source, target = new_topic(partitions=2), new_topic(partitions=3)
    produce_numbers(source, range(RECORDS))
    words = [sys.executable, "-c", COPY, server.url, bootstrap_servers, source, target, str(tmp_path / "checkpoint")]

    copy = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False)

    assert copy.returncode == 0, copy.stderr[-4_000:]
    assert copy.stdout.splitlines() == [f"read {RECORDS}"]
    found = sorted(int(message.value()) for message in read_committed(bootstrap_servers, target, 3))
    assert found == list(range(RECORDS))


@pytest.mark.server
def test_a_pipeline_writes_to_every_target_each_record_once(server, produce_numbers, new_topic, place, tmp_path):
    source = new_topic(partitions=2)
    produce_numbers(source, range(RECORDS))
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec_of(KINDS, source, place))

    run = run_spec(spec, "--once", "--spark", f"spark.remote={server.url}")

    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-4_000:]
    assert faults(KINDS, place, RECORDS) == []


MODULE = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, udf
from pyspark.sql.types import LongType
from moldau.spark.pipelines import pipeline, source
pipeline("module", bootstrap_servers="{servers}")
source("numbers", topic="{topic}", format="json", schema="number bigint")
dp.create_sink("out", "parquet", {{"path": "out"}})
@dp.append_flow(target="out")
def doubled():
    twice = udf(lambda number: 2 * number, LongType())
    return spark.readStream.table("numbers").select(twice(col("number")).alias("number"))
"""


def test_a_module_runs_with_its_dead_letters_and_its_preview(server, produce, new_topic, bootstrap_servers, tmp_path):
    topic = new_topic()
    produce(topic, [(None, b'{"number": %d}' % number) for number in range(50)] + [(None, b"broken")])
    spec = tmp_path / "spec.py"
    spec.write_text(MODULE.format(servers=bootstrap_servers, topic=topic))
    on_server = ("--spark", f"spark.remote={server.url}")
    words = [sys.executable, "-m", "moldau.cli.main", "pipeline", "preview", str(spec), "doubled", "--json", *on_server]

    run = run_spec(spec, "--once", *on_server)
    shown = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False)

    assert run.returncode == 0, run.stderr[-4_000:]
    assert "read 51 records" in run.stdout
    assert "dead letters 1" in run.stdout
    assert sorted(pq.read_table(tmp_path / "out")["number"].to_pylist()) == list(range(0, 100, 2))
    assert shown.returncode == 0, shown.stderr[-4_000:]
    assert [row["number"] for row in json.loads(shown.stdout)] == list(range(0, 40, 2))


@pytest.mark.server
def test_a_query_that_lost_its_driver_is_taken_over_on_its_server_and_by_nobody_else(
    server, spark, produce_numbers, new_topic, place, tmp_path, capsys
):
    source, kinds = new_topic(partitions=2), ("topic", "files")
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec_of(kinds, source, place))
    on_server = ("--spark", f"spark.remote={server.url}")
    produce_numbers(source, range(1_000))
    first = TalkingProcess(command(spec, *on_server))
    try:
        assert first.wait_for(lambda line: "files: running" in line and "lag 0" in line, time.monotonic() + RUN_S)
    finally:
        first.kill()

    assert main(["pipeline", "run", "--once", str(spec)]) == 1
    assert "still writes to the checkpoint" in capsys.readouterr().err
    produce_numbers(source, range(1_000, 2_000))
    second = TalkingProcess(command(spec, *on_server))
    try:
        assert second.wait_for(lambda line: "files: running" in line and "lag 0" in line, time.monotonic() + RUN_S)
        produce_numbers(source, range(2_000, 3_000))
        assert second.wait_for(lambda line: "files: running" in line and "lag 0" in line, time.monotonic() + RUN_S)
    finally:
        os.kill(second.pid, signal.SIGTERM)
        code = second.live_on(RUN_S)
        second.kill()
    assert code == 0, second.output[-30:]
    assert main(["pipeline", "run", "--once", str(spec)]) == 0, capsys.readouterr()
    assert faults(kinds, place, 3_000) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("spark://127.0.0.1:1", "it has to be sc://HOST:PORT, the address of a Spark Connect server"),
        ("sc://127.0.0.1:1", "no Spark Connect server answers at sc://127.0.0.1:1: Connection refused"),
    ],
)
def test_what_is_no_server_is_told_in_a_sentence(url, words, new_topic, bootstrap_servers, tmp_path):
    spec = tmp_path / "spec.yaml"
    head = f"name: p\nbootstrap_servers: {bootstrap_servers}\nsource: {{topic: {new_topic()}, format: string}}\n"
    spec.write_text(f"{head}sql: select value from source\nsink: {{path: out}}\n")
    run = run_spec(spec, "--once", "--spark", f"spark.remote={url}")
    assert run.returncode == 1
    assert run.stderr.startswith("moldau pipeline: ")
    assert words in run.stderr


def test_the_terminal_is_not_where_a_server_writes(server, new_topic, bootstrap_servers, tmp_path):
    spec = tmp_path / "spec.yaml"
    head = f"name: p\nbootstrap_servers: {bootstrap_servers}\nsource: {{topic: {new_topic()}, format: string}}\n"
    spec.write_text(f"{head}sql: select value from source\nsink: {{terminal: true}}\n")
    run = run_spec(spec, "--once", "--spark", f"spark.remote={server.url}")
    assert run.returncode == 1
    assert "a Spark Connect server writes the batches, and cannot write to the terminal" in run.stderr


def test_a_server_without_the_package_is_told_with_the_line_that_installs_it(new_topic, bootstrap_servers, tmp_path):
    customized = tmp_path / "sitecustomize.py"
    customized.write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path[:] = [path for path in sys.path if not Path(path, 'moldau').is_dir()]\n"
    )
    spec = tmp_path / "spec.yaml"
    head = f"name: p\nbootstrap_servers: {bootstrap_servers}\nsource: {{topic: {new_topic()}, format: string}}\n"
    spec.write_text(f"{head}sql: select value from source\nsink: {{path: out}}\n")
    server = ConnectServer({"PYTHONPATH": str(tmp_path)})
    try:
        run = run_spec(spec, "--once", "--spark", f"spark.remote={server.url}")
    finally:
        server.stop()
    assert run.returncode == 1
    assert run.stderr == (
        "moldau pipeline: an executor has no moldau in its Python: on each machine of the cluster, "
        f"{sys.executable} -m pip install '.[spark]' from a clone of Moldau\n"
    )
