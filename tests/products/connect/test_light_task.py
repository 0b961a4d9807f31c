"""The light task against a broker: sources, sinks, kills in mid-batch, and a frozen task that is fenced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Cluster
from moldau.testing.connect import OFFSETS_TOPIC, ConnectorTask, read_all, write_all
from tests.support.connect_cluster import connect_cluster
from tests.support.gate import CONNECTORS, Gate

PLAIN = {"key.converter": "bytes", "value.converter": "bytes"}
WAIT_S = 60
TEXTS = [f"line {number}" for number in range(40)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        yield started


def task_of(cluster: Cluster, config: dict[str, str], **more: int) -> ConnectorTask:
    return ConnectorTask(cluster, PLAIN | config, path=[CONNECTORS], **more)


def lines_config(tmp_path: Path, topic: str) -> dict[str, str]:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(TEXTS))
    return {"name": topic, "connector.class": "gated:Lines", "file": str(file), "to": topic}


def values_in(cluster: Cluster, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in cluster.records(topic))


def last_place(cluster: Cluster, name: str, slot: int = 0) -> object:
    key = json.dumps([name, {"slot": slot}], separators=(",", ":")).encode()
    values = [record.value for record in cluster.records(OFFSETS_TOPIC) if record.key == key]
    return json.loads(values[-1] or b"null")


def written(folder: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in sorted(folder.glob("batch-*"))}


def test_a_source_gives_whole_records_and_is_told_of_the_commit(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("lines", partitions=3)
    config = lines_config(tmp_path, topic)
    with task_of(cluster, config) as task:
        task.wait_until_idle()
        assert task.progress["records"] == len(TEXTS)
        assert task.progress["topics"] == [topic]
        assert task.progress["offset"] == {"line": len(TEXTS)}
        task.pause()
        with Path(config["file"]).open("a") as file:
            file.write("\nlast\n")
        task.resume()
        cluster.wait_for(lambda: len(values_in(cluster, topic)) == len(TEXTS) + 1)
        assert task.stop() == 0
    assert task.state == "STOPPED"
    assert values_in(cluster, topic) == sorted([*TEXTS, "last"])
    first = next(record for record in cluster.records(topic) if record.value == b"line 0")
    assert (first.key, [tuple(one) for one in first.headers]) == (b"0", [("n", b"1")])
    assert last_place(cluster, topic) == {"line": len(TEXTS) + 1}
    assert Path(config["file"] + ".committed").read_text() == str(len(TEXTS) + 1)


def test_a_killed_source_writes_each_record_once(cluster: Cluster, tmp_path: Path) -> None:
    topic, gate = cluster.topic("killed"), Gate(tmp_path)
    config = lines_config(tmp_path, topic)
    with task_of(cluster, config | {"gate": str(gate), "gate.line": "20"}) as task:
        gate.wait_until_reached(cluster)
        cluster.wait_for(lambda: any(cluster.records(topic, isolation="read_uncommitted")))
        task.kill()
    assert values_in(cluster, topic) == []
    with task_of(cluster, config) as task:
        task.wait_until_idle()
    assert values_in(cluster, topic) == sorted(TEXTS)
    assert len(list(cluster.records(topic, isolation="read_uncommitted"))) > len(TEXTS)


def test_a_frozen_source_is_fenced(cluster: Cluster, tmp_path: Path) -> None:
    topic, gate = cluster.topic("frozen"), Gate(tmp_path)
    config = lines_config(tmp_path, topic)
    with task_of(cluster, config | {"gate": str(gate), "gate.line": "20"}) as frozen:
        gate.wait_until_reached(cluster)
        frozen.freeze()
        with task_of(cluster, config) as task:
            task.wait_until_idle()
        assert values_in(cluster, topic) == sorted(TEXTS)
        frozen.thaw()
        gate.open(cluster)
        assert "FencedError" in frozen.wait_for_failure()
        assert frozen.stop() == 1
    assert values_in(cluster, topic) == sorted(TEXTS)


def test_a_simple_reader_has_a_bound_and_a_key(cluster: Cluster) -> None:
    topic = cluster.topic("numbers")
    config = {"name": topic, "connector.class": "gated:Numbers", "topic": topic, "count": "25", "batch.max.rows": "10"}
    more = {"key.converter": "integer", "value.converter": "json", "value.converter.schemas.enable": "false"}
    with ConnectorTask(cluster, config | more, path=[CONNECTORS]) as task:
        task.wait_until_idle()
        assert task.progress["batches"] == 3
    records = list(cluster.records(topic))
    assert [json.loads(record.value or b"") for record in records] == [
        {"n": number, "text": f"number {number}"} for number in range(25)
    ]
    assert [record.key for record in records] == [number.to_bytes(4, "big") for number in range(25)]


@pytest.mark.slow
def test_a_batch_reader_ends_and_goes_on_within_a_partition(cluster: Cluster, tmp_path: Path) -> None:
    topic, gate = cluster.topic("table"), Gate(tmp_path)
    config = {"name": topic, "connector.class": "gated:Table", "topic": topic, "count": "25", "batch.max.rows": "10"}
    config |= {"value.converter": "json", "value.converter.schemas.enable": "false"}
    with task_of(cluster, config | {"gate": str(gate), "gate.row": "15"}) as task:
        gate.wait_until_reached(cluster)
        task.kill()
    assert last_place(cluster, topic) == {"partition": 1, "rows": 10, "finished": False}
    with task_of(cluster, config) as task:
        task.wait_for(lambda: task.is_finished)
        assert task.stop() == 0
    rows = [json.loads(record.value or b"") for record in cluster.records(topic)]
    assert rows == [{"part": part, "row": row} for part in (0, 1) for row in range(25)]
    assert read_all(cluster, PLAIN | config, topic, path=[CONNECTORS])[50:] == []


@pytest.mark.parametrize("where", ["gate", pytest.param("commit.gate", marks=pytest.mark.slow)])
def test_a_killed_sink_writes_its_batch_again(cluster: Cluster, tmp_path: Path, where: str) -> None:
    topic, gate = cluster.topic("sunk"), Gate(tmp_path)
    config = {"name": topic, "connector.class": "gated:Files", "topics": topic, "folder": str(tmp_path)}
    cluster.produce(topic, *TEXTS)
    with task_of(cluster, config | {where: str(gate)}) as task:
        gate.wait_until_reached(cluster)
        task.kill()
    before = written(tmp_path)
    noted = last_place(cluster, topic)
    cluster.produce(topic, "later")
    with task_of(cluster, config) as task:
        task.wait_until_idle()
    after = written(tmp_path)
    assert after == {"batch-0-0": TEXTS, "batch-0-1": ["later"]}
    assert before in ({}, {"batch-0-0": after["batch-0-0"]})
    assert isinstance(noted, dict)
    assert noted["ranges"] == {topic: {"0": [0, 40]}}
    assert cluster.lag(f"connect-{topic}") == 0


@pytest.mark.slow
def test_a_sink_goes_on_after_the_broker_was_killed(tmp_path: Path) -> None:
    with Cluster() as cluster:
        topic = cluster.topic("killed")
        cluster.produce(topic, "0")
        config = {"name": topic, "connector.class": "gated:Files", "topics": topic, "folder": str(tmp_path)}
        with task_of(cluster, config) as task:
            task.wait_for(lambda: task.progress.get("records") == 1)
            for number in (1, 2):
                cluster.kill()
                cluster.restart()
                cluster.produce(topic, str(number))
                task.wait_for(lambda expected=number + 1: task.progress["records"] == expected, WAIT_S)
    assert sorted(line for lines in written(tmp_path).values() for line in lines) == ["0", "1", "2"]


@pytest.mark.slow
def test_a_frozen_sink_is_fenced(cluster: Cluster, tmp_path: Path) -> None:
    topic, gate = cluster.topic("fenced"), Gate(tmp_path)
    config = {"name": topic, "connector.class": "gated:Files", "topics": topic, "folder": str(tmp_path)}
    cluster.produce(topic, *TEXTS)
    with task_of(cluster, config | {"gate": str(gate)}) as frozen:
        gate.wait_until_reached(cluster)
        frozen.freeze()
        with task_of(cluster, config) as task:
            task.wait_until_idle()
            cluster.produce(topic, "later")
            task.wait_for(lambda: task.progress["batches"] == 2)
        frozen.thaw()
        gate.open(cluster)
        assert "FencedError" in frozen.wait_for_failure()
    assert written(tmp_path) == {"batch-0-0": TEXTS, "batch-0-1": ["later"]}
    assert cluster.lag(f"connect-{topic}") == 0


def test_slots_share_the_partitions_of_a_sink(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("shared", partitions=3)
    config = {"name": topic, "connector.class": "gated:Files", "topics.regex": f"{topic}|x", "folder": str(tmp_path)}
    cluster.produce(topic, *TEXTS)
    with task_of(cluster, config, slot=0, slots=2) as one, task_of(cluster, config, slot=1, slots=2) as other:
        one.wait_until_idle()
        other.wait_until_idle()
        parts = [set(task.progress["offset"][topic]) for task in (one, other)]
    assert parts[0] | parts[1] == {"0", "1", "2"}
    assert parts[0] & parts[1] == set()
    assert sorted(text for texts in written(tmp_path).values() for text in texts) == sorted(TEXTS)


def test_a_batch_of_a_sink_has_one_schema(cluster: Cluster, tmp_path: Path) -> None:
    def message(field: str, kind: str, value: object) -> str:
        schema = {"type": "struct", "fields": [{"field": field, "type": kind}]}
        return json.dumps({"schema": schema, "payload": {field: value}})

    topic = cluster.topic("schemas")
    config = {"name": topic, "connector.class": "gated:Files", "row.columns": "value", "folder": str(tmp_path)}
    values = [message("a", "int32", 1), message("a", "int32", 2), message("b", "string", "x")]
    write_all(cluster, config | {"value.converter": "json"}, values, topic=topic, path=[CONNECTORS])
    assert written(tmp_path) == {"batch-0-0": ["{'a': 1}", "{'a': 2}"], "batch-0-1": ["{'b': 'x'}"]}
    assert (tmp_path / "schemas").read_text().splitlines() == ["struct<a:int>", "struct<b:string>"]


def test_a_sink_of_arrow_gets_record_batches(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("arrow")
    config = {"name": topic, "connector.class": "gated:Batches", "row.columns": "value", "folder": str(tmp_path)}
    fields = [{"field": "a", "type": "int32"}, {"field": "l", "type": "array", "items": {"type": "string"}}]
    schema = {"type": "struct", "fields": fields}
    values = [json.dumps({"schema": schema, "payload": {"a": number, "l": ["x"]}}) for number in range(3)]
    write_all(cluster, config | {"value.converter": "json"}, values, topic=topic, path=[CONNECTORS])
    assert json.loads((tmp_path / "batch-0").read_text()) == [{"a": number, "l": ["x"]} for number in range(3)]
    assert (tmp_path / "schema").read_text().splitlines() == [
        "a: int32",
        "l: list<item: string>",
        "  child 0, item: string",
    ]
    assert (tmp_path / "has-pandas").read_text() == "False"  # it would need 50 MB


def test_rows_bring_their_own_schema_and_the_class_another_reader(cluster: Cluster) -> None:
    topic = cluster.topic("envelopes")
    config = {"name": topic, "connector.class": "gated:Envelopes", "to": topic, "row.reader": "reader"}
    with ConnectorTask(cluster, config | {"value.converter": "json"}, path=[CONNECTORS]) as task:
        task.wait_for(lambda: task.is_finished)
    assert [record.value and json.loads(record.value) for record in cluster.records(topic)] == [
        {"schema": {"type": "int32", "optional": False}, "payload": 1},
        {"schema": {"type": "string", "optional": False}, "payload": "x"},
        None,
    ]
    with task_of(cluster, config | {"row.reader": "streamReader"}) as task:
        assert "Envelopes has no streamReader, its readers: reader" in task.wait_for_failure()
    with task_of(cluster, config | {"row.schema": "a INTERVAL"}) as task:
        assert "the type INTERVAL is not read here" in task.wait_for_failure()


def test_what_the_cluster_rejects_fails_with_its_topic(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("small", config={"max.message.bytes": 200})
    config = lines_config(tmp_path, topic)
    Path(config["file"]).write_text("x" * 1000)
    with task_of(cluster, config) as task:
        trace = task.wait_for_failure()
    assert "TooLargeError" in trace
    assert topic in trace
    assert values_in(cluster, topic) == []


def test_a_task_with_too_much_memory_fails(cluster: Cluster) -> None:
    topic = cluster.topic("large")
    config = {"name": topic, "connector.class": "gated:Table", "topic": topic, "count": "1500", "ballast.mb": "100"}
    more = {"value.converter": "json", "batch.max.rows": "2000", "task.memory.max.mb": "64"}
    with task_of(cluster, config | more) as task:
        assert "task.memory.max.mb is 64" in task.wait_for_failure()
    assert values_in(cluster, topic) == []


@pytest.mark.slow
def test_a_task_that_does_not_stop_is_ended(cluster: Cluster, tmp_path: Path) -> None:
    topic, gate = cluster.topic("stuck"), Gate(tmp_path)
    config = lines_config(tmp_path, topic)
    with task_of(cluster, config | {"gate": str(gate), "gate.line": "20"}) as task:
        gate.wait_until_reached(cluster)
        assert task.stop(timeout=60) == 1
    assert "did not stop within" in task.log[-1]


def test_dead_letters_of_a_converter_and_of_a_sink(cluster: Cluster, tmp_path: Path) -> None:
    topic, letters = cluster.topic("dead"), f"{cluster.topic('dead')}-letters"
    config = {"name": topic, "connector.class": "gated:Files", "folder": str(tmp_path), "value.converter": "json"}
    config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters, "away": "2"}
    config |= {"errors.deadletterqueue.topic.replication.factor": "1", "errors.retry.timeout": "60000"}
    config |= {"value.converter.schemas.enable": "false", "errors.deadletterqueue.context.headers.enable": "true"}
    write_all(cluster, config, ["1", "no json", '"refused"', "2"], topic=topic, path=[CONNECTORS])
    assert written(tmp_path) == {"batch-0-0": ["1", "2"]}
    found = {record.value: dict(record.headers) for record in cluster.records(letters)}
    assert set(found) == {b"no json", b'"refused"'}
    assert found[b"no json"]["__connect.errors.stage"] == b"VALUE_CONVERTER"
    reason = f"The record {topic}-0 at offset 2 was rejected: refused rows are refused"
    assert found[b'"refused"']["__connect.errors.exception.message"] == reason.encode()
    assert cluster.lag(f"connect-{topic}") == 0


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["topic", "client"])
def test_records_above_the_limit_are_named_or_left_out(cluster: Cluster, tmp_path: Path, limit: str) -> None:
    """Batches of small records are above the limit of the topic, too: their records are sent one by one."""
    topic, file = f"large-{limit}", tmp_path / "large.txt"
    size = 2_000 if limit == "topic" else 2_000_000
    cluster.create_topic(topic, config={"max.message.bytes": "1000"} if limit == "topic" else {})
    texts = [f"{number:03}{'x' * 200}" for number in range(20)]
    file.write_text("\n".join([*texts[:10], "y" * size, *texts[10:], "z" * size, ""]))
    config = {"name": topic, "connector.class": "files", "path": str(file), "topic": topic}
    config |= {"max.line.bytes": "4000000", "value.converter": "string"}
    with task_of(cluster, config) as task:
        assert f"a record of {size} bytes is larger than the topic {topic} takes" in task.wait_for_failure()
    assert values_in(cluster, topic) == []
    with task_of(cluster, config | {"errors.tolerance": "all"}) as task:
        task.wait_until_idle()
        with file.open("a") as growing:
            growing.write("later\n")
        cluster.wait_for(lambda: len(values_in(cluster, topic)) == 21)
    assert values_in(cluster, topic) == [*texts, "later"]


def test_bad_input_fails_with_its_reason(cluster: Cluster, tmp_path: Path) -> None:
    with task_of(cluster, {"connector.class": "gated:Line"}) as task:
        assert "did you mean Lines?" in task.wait_for_failure()
    with task_of(cluster, {"connector.class": "gated:Numbers", "count": "1"}) as task:
        assert 'Missing required configuration "topic"' in task.wait_for_failure()
    with task_of(cluster, {"connector.class": "gated:Asking", "topic": "none"}) as task:
        assert "gated:Asking asks for a Spark session" in task.wait_for_failure()
    topic = cluster.topic("tombstones")
    config = {"connector.class": "gated:Files", "topics": topic, "row.columns": "value", "folder": str(tmp_path)}
    cluster.produce(topic, None)
    with task_of(cluster, config | {"value.converter": "json"}) as task:
        assert "RowError" in task.wait_for_failure()
