"""One script of calls against Kafka Connect and ours: equal answers, but for the listed rows.

`kafka_answers.jsonl` has the answers of Apache Kafka Connect 4.4.0; the test with the mark `java` plays the script
there and compares with it. With `MOLDAU_RECORD=1` it writes the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from moldau.products.connect.running.programs import PROGRAMS
from tests.support.apache_connect import NEEDS_APACHE_CONNECT, apache_connect
from tests.support.apache_kafka import apache_kafka
from tests.support.cluster_under_test import cluster_under_test
from tests.support.connect_script import Answer, play
from tests.support.connect_workers import worker

RECORD = Path(__file__).parent / "kafka_answers.jsonl"
LINES = "one\ntwo\nthree\n"

BODY = "Kafka Connect answers 500 with a sentence about its Java code; ours is 400"
CLASS = "ours names the class and the installed ones near to it, and has no Java names"
PLUGINS = "the installed connectors, without Java names"
NULL = "Kafka Connect adds a sentence about null after one about a text that is no number"
FILE = "a task of ours has no standard input to read instead of a file"
LISTS = ("GET /connector-plugins/FileStreamSource/config", "GET /connector-plugins/FileStreamSink/config")
OURS = {"file": ("required",), "batch.size": ("default_value", "value")}
"""Fields of settings that differ: see FILE, and a batch without this setting has `batch.max.rows`."""
DIFFERENT = {
    "POST /connectors": BODY,
    "POST /connectors {": BODY,
    "POST /connectors []": BODY,
    "POST /connectors {}": BODY,
    'POST /connectors {"name": "a"}': BODY,
    'POST /connectors {"name": "a", "config": {"connector.class": "FileStreamSource", "file": "{folder}/in.txt", '
    '"topic": "lines"}, "more": 1}': BODY,
    'POST /connectors {"name": "a", "config": {"connector.class": "FileStreamSource", "file": "{folder}/in.txt", '
    '"topic": "lines"}, "initial_state": "NEW"}': BODY,
    'POST /connectors {"name": "a", "config": {"connector.class": "Nothing"}}': CLASS,
    'POST /connectors {"name": "a", "config": {"connector.class": "FileStreamSource", "file": "{folder}/in.txt", '
    '"topic": "lines", "tasks.max": "none"}}': NULL,
    'POST /connectors {"name": "a", "config": {"connector.class": "FileStreamSource"}}': FILE,
    'PUT /connectors/a/config {"connector.class": "Nothing"}': CLASS,
    "PUT /connectors/a/config": BODY,
    "PUT /connectors/a/config []": BODY,
    "GET /connectors/source/tasks": "a task of ours has no task.class",
    "PATCH /connectors/source/config": BODY,
    "PATCH /connectors/source/offsets": BODY,
    "PATCH /connectors/source/offsets {": BODY,
    "GET /connector-plugins": PLUGINS,
    "GET /connector-plugins?connectorsOnly=true": PLUGINS,
    "PUT /connector-plugins/FileStreamSource/config/validate {}": BODY,
    "PUT /connector-plugins/FileStreamSource/config/validate": BODY,
    'PUT /connector-plugins/FileStreamSource/config/validate {"connector.class": "FileStreamSource"}': FILE,
    'PUT /connector-plugins/FileStreamSource/config/validate {"connector.class": "FileStreamSource", '
    '"file": "{folder}/in.txt", "topic": "lines", "name": "a", "tasks.max": "none"}': NULL,
    'PUT /connector-plugins/Nothing/config/validate {"connector.class": "Nothing"}': BODY,
    "GET /admin/loggers/root": "Python's default level is WARN",
    "PUT /admin/loggers/a.b": BODY,
}
"""Calls whose answer differs, each with the reason."""

Row = tuple[str, int, Any]


def recorded() -> list[Row]:
    rows = (json.loads(line) for line in RECORD.read_text().splitlines())
    return [(name, status, body) for name, status, body in rows]


def played(url: str, folder: Path) -> Iterator[Row]:
    (folder / "in.txt").write_text(LINES)
    for call, answer in play(url, folder):
        yield call.name, answer.status, comparable(answer)


def comparable(answer: Answer) -> Any:
    """Lists of names have no order."""
    body = answer.body
    return sorted(body) if isinstance(body, list) and all(isinstance(one, str) for one in body) else body


def shared(name: str, body: Any, other: Any) -> Any:
    """An answer without what only this server has, compared with the other server's answer to the same call."""
    if name.endswith("/offsets") and isinstance(body, dict) and "offsets" in body:
        return {"offsets": [_position(*one) for one in zip(body["offsets"], other["offsets"], strict=True)]}
    if name in LISTS and isinstance(body, list):
        found = [one for one in body if one["name"] in {one["name"] for one in other}]
        return [_without(one, OURS.get(one["name"], ())) for one in found]
    if isinstance(body, dict) and "configs" in body:
        names = {one["value"]["name"] for one in other["configs"]}
        found = [one for one in body["configs"] if one["value"]["name"] in names]
        groups = [one for one in body["groups"] if one in other["groups"]]
        return {**body, "groups": groups, "configs": [_setting(one) for one in found]}
    return body


def _position(one: Any, other: Any) -> Any:
    """Kafka's source has a file name as its partition, ours the number of the task. Ours keeps more in an offset."""
    is_of_source = "filename" in one["partition"] or "slot" in one["partition"]
    offset = {key: value for key, value in one["offset"].items() if key in other["offset"]}
    return {"partition": "of a source" if is_of_source else one["partition"], "offset": offset}


def _setting(one: Any) -> Any:
    away = OURS.get(one["value"]["name"], ())
    recommended = [name for name in one["value"]["recommended_values"] if name.startswith("org.apache.kafka")]
    value = {**one["value"], "recommended_values": recommended}
    return {"definition": _without(one["definition"], away), "value": _without(value, away)}


def _without(found: dict[str, Any], away: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in away}


@pytest.mark.slow
def test_the_answers_are_those_of_kafka_connect(tmp_path: Path) -> None:
    with cluster_under_test() as servers, worker(servers, "script", programs=PROGRAMS) as rest:
        ours = list(played(rest.url, tmp_path))
    kafkas = recorded()
    assert [row[0] for row in ours] == [row[0] for row in kafkas]
    different = [
        (one, other)
        for one, other in zip(ours, kafkas, strict=True)
        if one[:2] != other[:2] or shared(one[0], one[2], other[2]) != shared(one[0], other[2], one[2])
    ]
    assert [pair for pair in different if pair[0][0] not in DIFFERENT] == []
    assert {one[0] for one, _ in different} == set(DIFFERENT)


class TestKafkaConnect:
    pytestmark = NEEDS_APACHE_CONNECT

    def test_the_record_is_what_it_answers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MOLDAU_KAFKA_LIBS", os.environ["MOLDAU_CONNECT_LIBS"])
        with (
            apache_kafka(tmp_path / "broker", tmp_path / "data") as servers,
            apache_connect(tmp_path, servers) as url,
        ):
            found = list(played(url, tmp_path))
        if "MOLDAU_RECORD" in os.environ:
            RECORD.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found))
        assert found == recorded()
