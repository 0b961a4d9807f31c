"""Files to a topic and back with the light task, through kills: each line once, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.testing import Cluster
from moldau.testing.connect import ConnectorTask
from tests.support.connect_cluster import connect_cluster

MODULE = "moldau.connectors.files.connectors:"
TEXT = {"key.converter": "string", "value.converter": "string"}
LINES = [f"line {number} Éva" for number in range(6_000)]
KILLS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        yield started


def values_in(cluster: Cluster, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in cluster.records(topic)]


def test_a_file_goes_through_a_topic_with_kafkas_keys(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("kafka-keys")
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\ntwo\nthree")
    read = {"name": "read", "connector.class": f"{MODULE}FileStreamSource", "file": str(source), "topic": topic}
    write = {"name": "write", "connector.class": f"{MODULE}FileStreamSink", "file": str(sink), "topics": topic}
    with ConnectorTask(cluster, TEXT | read) as reading, ConnectorTask(cluster, TEXT | write) as writing:
        reading.wait_until_idle()
        assert reading.progress["offset"]["position"] == 8
        with source.open("a") as file:
            file.write("\n")
        cluster.wait_for(lambda: sink.exists() and sink.read_text() == "one\ntwo\nthree\n", timeout=60)
        assert writing.stop() == 0


@pytest.mark.slow
def test_a_killed_source_gives_each_line_once(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("source-kills")
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    config = {"name": "killed-source", "connector.class": f"{MODULE}Files", "path": str(source), "topic": topic}
    for kill in range(KILLS):
        with ConnectorTask(cluster, TEXT | config | {"batch.size": "500"}) as task:
            cluster.wait_for(lambda kill=kill: len(values_in(cluster, topic)) > kill * 1_000, timeout=60)
            task.kill()
        with source.open("a") as file:
            file.write(f"after kill {kill}\n")
    with ConnectorTask(cluster, TEXT | config) as task:
        task.wait_until_idle()
    assert values_in(cluster, topic) == [*LINES, *(f"after kill {kill}" for kill in range(KILLS))]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["out.txt", "folder/"])
def test_a_killed_sink_writes_each_line_once(cluster: Cluster, tmp_path: Path, target: str) -> None:
    topic = cluster.topic(f"sink-kills-{target.strip('/')}")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for line in LINES:
        producer.produce(topic, line.encode())
    assert producer.flush(30) == 0
    path = f"{tmp_path}/{target}"
    config = {"name": topic, "connector.class": f"{MODULE}Files", "path": path, "topics": topic}

    def written() -> str:
        parts = sorted(Path(path).glob("part-*"), key=lambda one: one.name[-14:])
        return "".join(one.read_text() for one in (parts if target.endswith("/") else [Path(path)]) if one.exists())

    for kill in range(KILLS):
        with ConnectorTask(cluster, TEXT | config | {"batch.max.rows": "500"}) as task:
            cluster.wait_for(lambda kill=kill: written().count("\n") > kill * 1_000, timeout=60)
            task.kill()
    with ConnectorTask(cluster, TEXT | config) as task:
        task.wait_until_idle()
    assert written().splitlines() == LINES
