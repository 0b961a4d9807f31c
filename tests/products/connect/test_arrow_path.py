"""Tasks that move record batches of Arrow: their records are those of a task that moves single records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest
from confluent_kafka import Producer

from moldau.connect.running.arrow_path import arrow_writer
from moldau.connect.running.connector import connector_of
from moldau.connect.running.protocol import Task
from moldau.testing import Cluster
from moldau.testing.connect import ConnectorTask
from tests.support.gate import CONNECTORS

FILES = "moldau.connectors.files.connectors:"
SINGLE = {"producer.override.linger.ms": "5", "consumer.override.fetch.wait.max.ms": "500"}
"""With a setting of librdkafka, a task moves single records."""
LINES = b"one\n\n\xc3\x89va\r\n\xff no text\xc3\n\r\r\nhalf \xed\xa0\x80\n" + b"x" * 3_000 + b"\nno end"
TEXTS = [None, b"", b"one", "Éva".encode(), b"two\nlines", b"\xff no text", b"null", b"x" * 3_000]
HEADERS = [("number", b"1.50"), ("text", b'"a"'), ("none", None), ("number", b"")]
PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


def both_converters(name: str) -> dict[str, str]:
    return {"key.converter": name, "value.converter": name}


def test_a_source_writes_the_same_records(cluster: Cluster, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(LINES)

    def written(name: str, more: dict[str, str]) -> list[tuple[object, ...]]:
        topic = cluster.topic(name)
        config = {"name": name, "connector.class": f"{FILES}FileStreamSource", "file": str(source), "topic": topic}
        with ConnectorTask(cluster, both_converters("string") | config | more) as task:
            task.wait_until_idle(PATIENCE_S)
        return [(one.partition, one.key, one.value, one.headers) for one in cluster.records(topic)]

    found = written("batches", {})
    assert found == written("singles", SINGLE)
    assert [one[2] for one in found[:2]] == [b"one", b""]


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = cluster.topic("odd", partitions=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number, text in enumerate([*TEXTS, b"refused"]):
        for headers in ([], HEADERS[: number % 5]):
            producer.produce(name, text, text, number % 2, timestamp=1_000 + number, headers=headers or None)
    assert producer.flush(30) == 0
    return name


@pytest.mark.parametrize("converter", ["string", "bytes"])
def test_a_sink_writes_the_same_rows_and_dead_letters(
    cluster: Cluster, topic: str, tmp_path: Path, converter: str
) -> None:
    def written(name: str, more: dict[str, str]) -> tuple[pa.Table, list[object]]:
        folder, letters = tmp_path / name, cluster.topic(f"{name}-letters")
        folder.mkdir()
        config = {"name": f"{name}-{converter}", "connector.class": "frames:Frames", "topics": topic}
        config |= {"folder": str(folder), "errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
        config["errors.deadletterqueue.topic.replication.factor"] = "1"
        with ConnectorTask(cluster, both_converters(converter) | config | more, path=[CONNECTORS]) as task:
            task.wait_until_idle(PATIENCE_S)
        tables = [pyarrow.feather.read_table(one) for one in sorted(folder.iterdir())]
        return pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")]), [
            (one.key, one.value, one.headers) for one in cluster.records(letters)
        ]

    rows, letters = written("batches", {})
    singles, single_letters = written("singles", SINGLE)
    assert rows.schema.names == singles.schema.names
    assert rows.to_pylist() == singles.to_pylist()
    assert rows.num_rows == 2 * len(TEXTS)
    assert len(letters) == 2
    assert letters == single_letters


def test_a_sink_of_lines_writes_the_same_file(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    def written(name: str, more: dict[str, str]) -> bytes:
        target = tmp_path / name
        config = {"name": f"lines-{name}", "connector.class": f"{FILES}FileStreamSink", "topics": topic}
        config |= {"file": str(target), **both_converters("bytes")}
        with ConnectorTask(cluster, config | more) as task:
            task.wait_until_idle(PATIENCE_S)
        return b"\n".join(sorted(target.read_bytes().split(b"\n")))

    assert written("batches", {}) == written("singles", SINGLE)


@pytest.mark.parametrize(
    ("more", "moves_batches"),
    [
        ({}, True),
        (SINGLE, False),
        ({"value.converter": "json"}, False),
        ({"value.converter.encoding": "latin-1"}, False),
        ({"header.converter": "json"}, False),
        ({"transforms": "t", "transforms.t.type": "RegexRouter", "transforms.t.regex": "a"}, False),
    ],
)
def test_which_sink_moves_record_batches(tmp_path: Path, more: dict[str, str], moves_batches: bool) -> None:
    config = {"name": "c", "connector.class": f"{FILES}FileStreamSink", "file": str(tmp_path / "out"), "topics": "t"}
    config |= both_converters("string") | more
    if "transforms" in more:
        config["transforms.t.replacement"] = "b"
    task = Task("c", 0, 1, config, "127.0.0.1:1", "g", "o", access={})
    assert (arrow_writer(task, connector_of(task)) is not None) == moves_batches
