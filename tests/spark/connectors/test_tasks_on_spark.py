"""Tasks on Spark of a user's own classes: every kind of reader, a cluster with logins, and frozen processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.testing import Cluster
from moldau.testing.connect import OFFSETS_TOPIC, ConnectorTask
from tests.products.connect.kills import frozen
from tests.support.connect_cluster import connect_cluster
from tests.support.gate import CONNECTORS, Gate
from tests.support.spark_tasks import QUICK, run_on_spark

PLAIN = {"key.converter": "bytes", "value.converter": "bytes", "poll.interval.ms": "50"}
JSON = {"key.converter": "json", "value.converter": "json", "value.converter.schemas.enable": "false"}
TEXTS = [f"line {number}" for number in range(40)]
WAIT_S = 300

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_connectors")]


@pytest.fixture
def own_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of Spark do not have this folder on their path."""
    monkeypatch.syspath_prepend(str(CONNECTORS))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        started.create_topic(OFFSETS_TOPIC, config={"cleanup.policy": "compact"})
        yield started


def values_in(cluster: Cluster, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in cluster.records(topic))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("Table", [{"part": part, "row": row} for part in range(2) for row in range(25)], id="reader"),
        pytest.param("Numbers", [{"n": n, "text": f"number {n}"} for n in range(25)], id="simpleStreamReader"),
    ],
)
def test_each_reader_and_its_end(spark: object, cluster: Cluster, kind: str, expected: list[object]) -> None:
    topic = cluster.topic(kind.lower())
    config = {"name": topic, "connector.class": f"gated:{kind}", "topic": topic, "count": "25", "batch.max.rows": "10"}
    for _ in range(2):
        reports = run_on_spark(cluster, {**PLAIN, **JSON, **config})
        assert reports.states == ["RUNNING", "STOPPED"], reports.trace
        assert reports.lines[-1]["finished"] is (kind == "Table")
        found = [json.loads(text) for text in values_in(cluster, topic)]
        assert sorted(found, key=lambda row: list(row.values())) == expected


def test_a_cluster_with_logins_and_tls(spark: object, tmp_path: Path) -> None:
    file, login = tmp_path / "lines.txt", tmp_path / "worker.properties"
    file.write_text("\n".join(TEXTS))
    (tmp_path / "out").mkdir()
    with Cluster(security="sasl_ssl", users={"worker": "worker's"}) as cluster:
        cluster.create_topic(OFFSETS_TOPIC, config={"cleanup.policy": "compact"})
        cluster.create_topic("lines", partitions=2)
        given = cluster.client_properties("worker")
        del given["sasl.jaas.config"]
        login.write_text("password=worker's\n")
        login.chmod(0o600)
        secret = f"${{file:{login}:password}}"
        access = ClusterAccess.from_properties(given | {"sasl.username": "worker", "sasl.password": secret})
        source = {"name": "in", "connector.class": "gated:Lines", "file": str(file), "to": "lines"}
        sink = {"name": "out", "connector.class": "gated:Files", "topics": "lines", "folder": str(tmp_path / "out")}
        for config in (source, sink):
            reports = run_on_spark(cluster, {**PLAIN, **config}, access)
            assert reports.states == ["RUNNING", "STOPPED"], reports.trace
    lines = [line for path in (tmp_path / "out").glob("batch-*") for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(TEXTS)


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_frozen_process_is_fenced(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """It stands still in the middle of a batch, with its JVM, while a light task takes over."""
    topic, gate, file = cluster.topic(kind), Gate(tmp_path), tmp_path / "lines.txt"
    if kind == "source":
        file.write_text("\n".join(TEXTS))
        own = {"connector.class": "gated:Lines", "file": str(file), "to": topic}
    else:
        cluster.produce(topic, *TEXTS)
        own = {"connector.class": "gated:Files", "topics": topic, "folder": str(tmp_path)}
    config = {**PLAIN, **own, "name": topic}
    stops = {"gate": str(gate), "gate.line": "20"}
    with ConnectorTask(cluster, {**config, **stops, **QUICK}, path=[CONNECTORS]) as late:
        late.wait_for(lambda: late.state == "RUNNING", WAIT_S)
        cluster.wait_for(Path(f"{gate}.reached").exists, timeout=WAIT_S)
        process = psutil.Process(late.pid)
        with frozen([process, *process.children(recursive=True)]):
            with ConnectorTask(cluster, config, path=[CONNECTORS]) as task:
                task.wait_until_idle(WAIT_S)
            before = result(cluster, topic, tmp_path)
            assert before == sorted(TEXTS)
        gate.open(cluster)
        assert "FencedError: another task with" in late.wait_for_failure(WAIT_S)
    assert result(cluster, topic, tmp_path) == before


def result(cluster: Cluster, topic: str, folder: Path) -> list[str]:
    """Records of a source are in the topic; a sink writes the records of the topic to files."""
    files = list(folder.glob("batch-*"))
    return sorted(line for path in files for line in path.read_text().splitlines()) or values_in(cluster, topic)
