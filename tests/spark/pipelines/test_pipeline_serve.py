"""`moldau pipeline serve`: runs a directory of pipeline files as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from moldau.client.blocking.offsets import committed_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.commit_metadata import read_commit_metadata
from moldau.transport.access import open_client
from tests.support.talking_process import line_of

START_S = 120.0


def first_value(servers: str, topic: str) -> bytes | None:
    """Waits until the topic has a committed record."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        record = consumer.poll(START_S)
        assert record is not None, f"nothing came within {START_S} s"
        return record.value()
    finally:
        consumer.close()


def board_port(servers: str, name: str) -> int | None:
    """From the cluster, where the pipeline has left it in the transaction of the batch that has been read. The
    transaction may end in the group a moment later than in the topic: `require_stable` waits for it."""
    with open_client(ClusterAccess(servers)) as client:
        committed = committed_offsets(client, f"moldau.{name}", require_stable=True)
    note = read_commit_metadata(position.metadata for position in committed.values()).pipeline
    return note.board_port if note is not None else None


@pytest.mark.slow
def test_pipelines_run_change_and_stop_while_a_bad_one_is_named(
    new_topic, new_name, produce, bootstrap_servers, tmp_path: Path
):
    topic, before, after, name = new_topic(), new_topic(), new_topic(), new_name("served").replace(".", "-")
    produce(topic, [(None, b"one")])
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
source: {{topic: {topic}, format: string}}
sql: select value from source
sink: {{topic: {before}}}
"""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    bad.write_text("name: bad\nbootstrap_server: a:1\n", "utf-8")
    good.write_text(spec, "utf-8")
    serving = subprocess.Popen(
        [sys.executable, "-m", "moldau.cli.main", "pipeline", "serve", str(tmp_path), "--boards"],
        stdout=subprocess.PIPE,
        text=True,
    )
    said = partial(line_of, serving.stdout, START_S)
    try:
        assert said().startswith(f"bad.yaml: is not run: {bad}:2: `bootstrap_server` is not known")
        assert said() == f"good.yaml: runs {name}: {name}\n"
        assert first_value(bootstrap_servers, before) == b"one"
        with urllib.request.urlopen(f"http://127.0.0.1:{board_port(bootstrap_servers, name)}/status.json") as answer:
            assert json.load(answer)["pipeline"] == name
        good.write_text(spec.replace("select value", "select upper(value) as value"), "utf-8")
        assert said().startswith(f"good.yaml: continues unchanged, for {good}: `sql` changed since")
        good.write_text(spec.replace(before, after), "utf-8")
        assert said() == f"good.yaml: runs {name}: {name}\n"
        produce(topic, [(None, b"two")])
        assert first_value(bootstrap_servers, after) == b"two"
        serving.terminate()
        assert serving.wait(START_S) == 0
        assert said() == ""
    finally:
        serving.kill()
        serving.wait(START_S)
