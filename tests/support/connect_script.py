"""A script of calls to Kafka Connect's REST API, for any server of it, and its answers in a form that can be compared.

Names of files are `{folder}`, and are put in before a call. An answer has no worker id, version, trace or duration.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

TRIES = 150
PAUSE_S = 0.1
TIMEOUT_S = 60
PAUSE = threading.Event()
MOVING = re.compile("rebalance")


class Call(NamedTuple):
    """`until`, `also`: the call is repeated until its answer has these texts (as compact JSON)."""

    method: str
    path: str
    body: Any = None
    until: str = ""
    also: str = ""

    @property
    def name(self) -> str:
        body = "" if self.body is None else " " + (self.body if isinstance(self.body, str) else json.dumps(self.body))
        return f"{self.method} {self.path}{body}"


class Answer(NamedTuple):
    status: int
    body: Any


PARTITION = "{partition}"
"""Stands for the first partition of the last answer with offsets."""
SOURCE = {"connector.class": "FileStreamSource", "file": "{folder}/in.txt", "topic": "lines"}
SINK = {"connector.class": "FileStreamSink", "file": "{folder}/out.txt", "topics": "words", "tasks.max": "1"}


def _running(name: str, state: str = "RUNNING") -> Call:
    connector, task = f'"connector":{{"state":"{state}"', f'"tasks":[{{"id":0,"state":"{state}"'
    return Call("GET", f"/connectors/{name}/status", until=connector, also=task)


def _server() -> Iterator[Call]:
    yield Call("GET", "/")
    yield Call("GET", "/health")
    yield Call("GET", "/nothing")
    yield Call("GET", "/connectors")
    yield Call("GET", "/connectors/")
    yield Call("DELETE", "/connectors")
    yield Call("PUT", "/")
    yield Call("POST", "/health")
    yield Call("GET", "/connectors?expand=status")
    yield Call("GET", "/connectors?expand=nothing")


def _absent() -> Iterator[Call]:
    for rest in ("", "/config", "/status", "/tasks", "/topics", "/offsets", "/tasks/0/status", "/tasks-config"):
        yield Call("GET", f"/connectors/absent{rest}")
    yield Call("DELETE", "/connectors/absent")
    for verb in ("pause", "resume", "stop", "topics/reset"):
        yield Call("PUT", f"/connectors/absent/{verb}")
    yield Call("POST", "/connectors/absent/restart")
    yield Call("POST", "/connectors/absent/restart?includeTasks=true")
    yield Call("POST", "/connectors/absent/tasks/0/restart")
    yield Call("PATCH", "/connectors/absent/config", {"a": "b"})
    yield Call("PATCH", "/connectors/absent/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]})
    yield Call("DELETE", "/connectors/absent/offsets")
    yield Call("GET", "/connectors/absent/nothing")


def _rejected() -> Iterator[Call]:
    yield Call("POST", "/connectors")
    yield Call("POST", "/connectors", "{")
    yield Call("POST", "/connectors", "[]")
    yield Call("POST", "/connectors", {})
    yield Call("POST", "/connectors", {"name": "a"})
    yield Call("POST", "/connectors", {"name": "a", "config": {}})
    yield Call("POST", "/connectors", {"name": "", "config": {}})
    yield Call("POST", "/connectors", {"config": dict(SOURCE)})
    yield Call("POST", "/connectors", {"name": "a", "config": dict(SOURCE), "more": 1})
    yield Call("POST", "/connectors", {"name": "a", "config": dict(SOURCE), "initial_state": "NEW"})
    yield Call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "name": "b"}})
    yield Call("POST", "/connectors", {"name": "a", "config": {"connector.class": "Nothing"}})
    yield Call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "tasks.max": "none"}})
    yield Call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "tasks.max": "0"}})
    yield Call("POST", "/connectors", {"name": "a", "config": {"connector.class": "FileStreamSource"}})
    yield Call("POST", "/connectors", {"name": "a", "config": {**SINK, "topics": ""}})
    yield Call("POST", "/connectors", {"name": "a", "config": {**SINK, "topics.regex": "a.*"}})
    yield Call("POST", "/connectors", {"name": "a", "config": {"file": "a", "connector.class": "FileStreamSink"}})
    yield Call("PUT", "/connectors/a/config", {"connector.class": "Nothing"})
    yield Call("PUT", "/connectors/a/config", {})
    yield Call("PUT", "/connectors/a/config")
    yield Call("PUT", "/connectors/a/config", {**SOURCE, "name": "b"})
    yield Call("PUT", "/connectors/a/config", [])
    yield Call("GET", "/connectors")


def _source() -> Iterator[Call]:
    name = "/connectors/source"
    yield Call("POST", "/connectors", {"name": "source", "config": dict(SOURCE)})
    yield _running("source")
    yield Call("GET", "/connectors")
    yield Call("GET", name)
    yield Call("GET", f"{name}/config")
    yield Call("GET", f"{name}/tasks")
    yield Call("GET", f"{name}/tasks/0/status")
    yield Call("GET", f"{name}/tasks/1/status")
    yield Call("GET", f"{name}/tasks/none/status")
    yield Call("GET", f"{name}/tasks/0")
    yield Call("GET", f"{name}/topics", until='["lines"]')
    yield Call("GET", "/connectors?expand=status")
    yield Call("GET", "/connectors?expand=info")
    yield Call("GET", "/connectors?expand=info&expand=status")
    yield Call("GET", "/connectors?expand=info&expand=nothing")
    yield Call("POST", "/connectors", {"name": "source", "config": dict(SOURCE)})
    yield Call("GET", f"{name}/offsets", until="position")
    yield Call("DELETE", f"{name}/offsets")
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 0}}]})
    yield Call("PATCH", f"{name}/offsets", {"offsets": []})
    yield Call("PATCH", f"{name}/offsets", {})
    yield Call("PUT", f"{name}/pause")
    yield _running("source", "PAUSED")
    yield Call("PUT", f"{name}/pause")
    yield Call("DELETE", f"{name}/offsets")
    yield Call("PUT", f"{name}/resume")
    yield _running("source")
    yield Call("PUT", f"{name}/resume")
    yield Call("PUT", f"{name}/config", {**SOURCE, "tasks.max": "2"})
    yield _running("source")
    yield Call("PATCH", f"{name}/config", {"batch.size": "10", "tasks.max": None})
    yield _running("source")
    yield Call("PATCH", f"{name}/config", {})
    yield _running("source")
    yield Call("PATCH", f"{name}/config", {"topic": None})
    yield Call("PATCH", f"{name}/config")
    yield Call("GET", f"{name}/config")
    yield Call("PUT", f"{name}/topics/reset")
    yield Call("GET", f"{name}/topics", until="[]")
    yield Call("PUT", f"{name}/nothing")
    yield Call("GET", f"{name}/pause")


def _restarted() -> Iterator[Call]:
    name = "/connectors/source"
    yield Call("POST", f"{name}/restart")
    yield _running("source")
    yield Call("POST", f"{name}/restart?includeTasks=false&onlyFailed=false")
    yield _running("source")
    yield Call("POST", f"{name}/restart?includeTasks=true&onlyFailed=true")
    yield Call("POST", f"{name}/restart?onlyFailed=true")
    yield Call("POST", f"{name}/restart?includeTasks=true")
    yield _running("source")
    yield Call("POST", f"{name}/restart?includeTasks=maybe")
    yield _running("source")
    yield Call("POST", f"{name}/tasks/0/restart")
    yield _running("source")
    yield Call("POST", f"{name}/tasks/7/restart")
    yield Call("POST", f"{name}/tasks/none/restart")
    yield Call("GET", f"{name}/restart")


def _stopped() -> Iterator[Call]:
    name = "/connectors/source"
    mine = PARTITION
    yield Call("PUT", f"{name}/stop")
    yield Call("GET", f"{name}/status", until='"state":"STOPPED"', also='"tasks":[]')
    yield Call("PUT", f"{name}/stop")
    yield Call("GET", f"{name}/tasks")
    yield Call("GET", f"{name}/config")
    yield Call("GET", f"{name}/tasks/0/status")
    yield Call("GET", f"{name}/offsets")
    yield Call("PATCH", f"{name}/offsets")
    yield Call("PATCH", f"{name}/offsets", "{")
    yield Call("PATCH", f"{name}/offsets", {})
    yield Call("PATCH", f"{name}/offsets", {"offsets": []})
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{"partition": mine}]})
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{"partition": mine, "offset": {"position": 3}}]})
    yield Call("GET", f"{name}/offsets", until='"position":3')
    yield Call("DELETE", f"{name}/offsets")
    yield Call("GET", f"{name}/offsets", until='"offsets":[]')
    yield Call("DELETE", f"{name}/offsets")
    yield Call("PUT", f"{name}/resume")
    yield _running("source")
    yield Call("DELETE", name)
    yield Call("GET", name, until="not found")
    yield Call("GET", f"{name}/status", until="No status")
    yield Call("DELETE", name)


def _initial() -> Iterator[Call]:
    yield Call("POST", "/connectors", {"name": "quiet", "config": dict(SOURCE), "initial_state": "STOPPED"})
    yield Call("GET", "/connectors/quiet/status", until='"state":"STOPPED"')
    yield Call("GET", "/connectors/quiet/tasks")
    yield Call("GET", "/connectors/quiet")
    yield Call("GET", "/connectors/quiet/offsets")
    yield Call("DELETE", "/connectors/quiet")
    yield Call("GET", "/connectors/quiet", until="not found")
    yield Call("POST", "/connectors", {"name": "half", "config": dict(SOURCE), "initial_state": "paused"})
    yield Call("GET", "/connectors/half/status", until='"state":"PAUSED"')
    yield Call("GET", "/connectors/half/tasks")
    yield Call("PUT", "/connectors/half/resume")
    yield _running("half")
    yield Call("DELETE", "/connectors/half")
    yield Call("GET", "/connectors/half", until="not found")
    yield Call("POST", "/connectors", {"name": "with space", "config": dict(SOURCE)})
    yield Call("GET", "/connectors/with%20space", until='"task":0')
    yield Call("DELETE", "/connectors/with%20space")
    yield Call("GET", "/connectors", until="[]")
    yield Call("PUT", "/connectors/put/config", dict(SOURCE))
    yield _running("put")
    yield Call("DELETE", "/connectors/put")
    yield Call("GET", "/connectors", until="[]")


def _sink() -> Iterator[Call]:
    name = "/connectors/sink"
    yield Call("POST", "/connectors", {"name": "feeder", "config": {**SOURCE, "topic": "words"}})
    yield Call("GET", "/connectors/feeder/offsets", until="position")
    yield Call("DELETE", "/connectors/feeder")
    yield Call("GET", "/connectors", until="[]")
    yield Call("POST", "/connectors", {"name": "sink", "config": dict(SINK)})
    yield _running("sink")
    yield Call("GET", name)
    yield Call("GET", f"{name}/offsets", until='"kafka_offset":3')
    yield Call("GET", "/connectors?expand=info")
    yield Call("DELETE", f"{name}/offsets")
    yield Call("PUT", f"{name}/stop")
    yield Call("GET", f"{name}/status", until='"state":"STOPPED"', also='"tasks":[]')
    places = [{"partition": {"kafka_topic": "words", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]
    yield Call("PATCH", f"{name}/offsets", {"offsets": places})
    yield Call("GET", f"{name}/offsets", until='"kafka_offset":1')
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"kafka_offset": 1}}]})
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{**places[0], "offset": {"b": 1}}]})
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{**places[0], "offset": {"kafka_offset": "none"}}]})
    yield Call("PATCH", f"{name}/offsets", {"offsets": [{**places[0], "offset": None}]})
    yield Call("GET", f"{name}/offsets", until='"offsets":[]')
    yield Call("DELETE", f"{name}/offsets")
    yield Call("DELETE", name)
    yield Call("GET", "/connectors", until="[]")


def _plugins() -> Iterator[Call]:
    plugins = "/connector-plugins"
    yield Call("GET", plugins)
    yield Call("GET", f"{plugins}?connectorsOnly=true")
    yield Call("GET", f"{plugins}/Nothing/config")
    yield Call("GET", f"{plugins}/FileStreamSource/config")
    yield Call("GET", f"{plugins}/FileStreamSink/config")
    validate = f"{plugins}/FileStreamSource/config/validate"
    yield Call("PUT", validate, {})
    yield Call("PUT", validate)
    yield Call("PUT", validate, {"connector.class": "FileStreamSource"})
    yield Call("PUT", validate, {**SOURCE, "name": "a"})
    yield Call("PUT", validate, {**SOURCE, "name": "a", "tasks.max": "none"})
    yield Call("PUT", validate, {**SOURCE, "name": "a", "connector.class": "FileStreamSink"})
    yield Call("PUT", f"{plugins}/Nothing/config/validate", {"connector.class": "Nothing"})
    yield Call("PUT", f"{plugins}/FileStreamSink/config/validate", {**SINK, "name": "a"})
    yield Call("PUT", f"{plugins}/FileStreamSink/config/validate", {**SINK, "name": "a", "topics": ""})
    yield Call("POST", plugins)


def _loggers() -> Iterator[Call]:
    loggers = "/admin/loggers"
    yield Call("GET", f"{loggers}/root")
    yield Call("GET", f"{loggers}/nothing.of.this.name")
    yield Call("PUT", f"{loggers}/a.b", {"level": "DEBUG"})
    yield Call("GET", f"{loggers}/a.b")
    yield Call("PUT", f"{loggers}/a.b", {"level": "LOUD"})
    yield Call("PUT", f"{loggers}/a.b", {})
    yield Call("PUT", f"{loggers}/a.b")
    yield Call("PUT", f"{loggers}/a.b?scope=cluster", {"level": "WARN"})
    yield Call("GET", f"{loggers}/a.b", until="WARN")
    yield Call("PUT", f"{loggers}/a.b?scope=worker", {"level": "info"})
    yield Call("PUT", f"{loggers}/a.b?scope=moon", {"level": "WARN"})
    yield Call("GET", f"{loggers}/a.b")
    yield Call("POST", f"{loggers}/a.b", {"level": "WARN"})


def calls() -> list[Call]:
    parts = (_server, _absent, _rejected, _source, _restarted, _stopped, _initial, _sink, _plugins, _loggers)
    return [call for part in parts for call in part()]


def play(url: str, folder: Path) -> Iterator[tuple[Call, Answer]]:
    """The answer to each call, in order. `folder`: has `in.txt` of three lines."""
    values = {"{folder}": str(folder)}
    for call in calls():
        answer = ask(url, call, values)
        for _ in range(TRIES):
            moves = answer.status == 409 and MOVING.search(str(answer.body)) is not None
            text = json.dumps(answer.body, separators=(",", ":"))
            if not moves and call.until in text and call.also in text:
                break
            PAUSE.wait(PAUSE_S)
            answer = ask(url, call, values)
        if call.method == "GET" and call.path.endswith("/offsets") and answer.status == 200 and answer.body["offsets"]:
            partition = json.dumps(answer.body["offsets"][0]["partition"])
            values[f'"{PARTITION}"'] = partition.replace("{folder}", str(folder))
        yield call, Answer(answer.status, masked(answer.body))


def ask(url: str, call: Call, values: Mapping[str, str]) -> Answer:
    """`values`: by the text of the body that stands for them."""
    text = None if call.body is None else call.body if isinstance(call.body, str) else json.dumps(call.body)
    for name, value in values.items():
        text = None if text is None else text.replace(name, value)
    data = None if text is None else text.encode()
    headers = {"content-type": "application/json", "accept": "application/json"}
    request = urllib.request.Request(url + call.path, data, headers, method=call.method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as found:
            return Answer(found.status, _read(found.read(), values["{folder}"]))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _read(error.read(), values["{folder}"]))


def _read(body: bytes, folder: str) -> Any:
    text = body.decode().replace(folder, "{folder}")
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return "text"


_OF_ONE_SERVER = ("worker_id", "version", "commit", "kafka_cluster_id", "last_modified", "trace", "documentation")


def masked(value: Any) -> Any:
    """Without what differs from server to server."""
    if isinstance(value, dict):
        return {key: "..." if key in _OF_ONE_SERVER and one is not None else masked(one) for key, one in value.items()}
    return [masked(one) for one in value] if isinstance(value, list) else value
