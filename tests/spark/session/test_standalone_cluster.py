"""A pipeline on a standalone Spark cluster, with a checkpoint that driver and executors share: the same rows as on one
machine, with Moldau and Apache Kafka. Executors without the package are reported before the first batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.spark import QUICK_START
from tests.exactly_once.spark_cluster import SparkCluster, children_of, kill
from tests.exactly_once.tables import KEYS, TARGET_PARTITIONS, Place, faults, spec_of
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, apache_kafka
from tests.support.postgresql import PostgresqlServer
from tests.support.talking_process import TalkingProcess

RECORDS = 10_000
RUN_S = 400
QUICK = QUICK_START["spark.driver.defaultJavaOptions"]
KINDS = ("topic", "delta", "delta-sums", "iceberg", "postgresql", "postgresql-sums", "files")

pytestmark = pytest.mark.slow


@pytest.fixture
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "moldau":
        yield request.getfixturevalue("bootstrap_servers")
        return
    with apache_kafka(tmp_path / "kafka", tmp_path / "kafka-data") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def only_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"), environments=())
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(only_master: SparkCluster) -> Iterator[SparkCluster]:
    """A test starts the workers that it needs."""
    yield only_master
    only_master.stop_workers()


@pytest.fixture
def master(request: pytest.FixtureRequest) -> str:
    if request.param == "one machine":
        return "local[2]"
    cluster = request.getfixturevalue("cluster")
    cluster.start_workers(({}, {}))
    return cluster.url


@pytest.fixture
def postgresql() -> Iterator[PostgresqlServer]:
    """Each run begins with an empty one."""
    server = PostgresqlServer()
    yield server
    server.close()


def moldau_pipeline(verb: str, spec: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau.cli.main", "pipeline", verb, str(spec)]
    own = ("spark.executor.memory=512m", f"spark.executor.defaultJavaOptions={QUICK}")
    words = [word for setting in (*own, *settings) for word in ("--spark", setting)]
    command += ["--once"] * (verb == "run") + words
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)


@pytest.mark.parametrize(
    ("servers", "master"),
    [
        pytest.param("moldau", "a cluster", marks=pytest.mark.server),
        pytest.param("Apache Kafka", "a cluster", marks=NEEDS_APACHE_KAFKA),
        pytest.param("Apache Kafka", "one machine", marks=NEEDS_APACHE_KAFKA),
    ],
    indirect=True,
)
def test_every_target_has_every_record_once(servers, master, new_name, postgresql, tmp_path):
    source, target = new_name("source"), new_name("target")
    topics = [NewTopic(source, 2, 1), NewTopic(target, TARGET_PARTITIONS, 1)]
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(topics).values():
        future.result(timeout=30)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce(source, b"%d" % number, b"%d" % (number % KEYS), number % 2)
    assert producer.flush(60) == 0
    place, spec = Place(tmp_path / "out", postgresql.url, servers, target), tmp_path / "spec.yaml"
    spec.write_text(spec_of(KINDS, source, place))

    run = moldau_pipeline("run", spec, f"spark.master={master}")

    assert run.returncode == 0, run.stderr[-4_000:]
    assert faults(KINDS, place, RECORDS) == []


@pytest.fixture
def spec(new_topic, bootstrap_servers, tmp_path: Path) -> Path:
    text = f"name: p\nbootstrap_servers: {bootstrap_servers}\nsource: {{topic: {new_topic()}, format: string}}\n"
    file = tmp_path / "spec.yaml"
    file.write_text(f"{text}sql: select value from source\nsink: {{path: out}}\n")
    return file


def test_an_executor_that_lacks_the_package_is_told_with_the_line_that_installs_it(cluster, spec, tmp_path):
    """One of two: the package is not on its Python's path."""
    customized = tmp_path / "sitecustomize.py"
    customized.write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path[:] = [path for path in sys.path if not Path(path, 'moldau').is_dir()]\n"
    )
    cluster.start_workers(({}, {"PYTHONPATH": str(tmp_path)}))
    plan = moldau_pipeline("plan", spec, f"spark.master={cluster.url}")
    assert plan.returncode == 1
    assert plan.stderr == (
        "moldau pipeline: an executor has no moldau in its Python: on each machine of the cluster, "
        f"{sys.executable} -m pip install '.[spark]' from a clone of Moldau\n"
    )


def test_a_cluster_without_a_worker_is_told(cluster, spec):
    waits = "spark.scheduler.maxRegisteredResourcesWaitingTime=1s"
    plan = moldau_pipeline("plan", spec, f"spark.master={cluster.url}", waits)
    assert plan.returncode == 1
    assert plan.stderr.startswith(f"moldau pipeline: {cluster.url} gave no executor within 1 s: does it run, and has")


def test_a_campaign_that_is_ended_by_sigterm_leaves_no_process():
    campaign = TalkingProcess([sys.executable, "-m", "tests.exactly_once.spark", "--records", "100"])
    started: list[int] = []
    end_s = time.monotonic() + RUN_S
    try:
        while len(started) < 4:  # broker, master and two workers; they may not know each other yet
            assert campaign.live_on(0.2) is None, campaign.output
            assert time.monotonic() < end_s, campaign.output
            started = children_of([campaign.pid])
        os.kill(campaign.pid, signal.SIGTERM)
        assert campaign.live_on(RUN_S) == 128 + signal.SIGTERM
        assert [process for process in started if Path(f"/proc/{process}").exists()] == []
    finally:
        for process in started:
            kill(process)
        campaign.kill()
