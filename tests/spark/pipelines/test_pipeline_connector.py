"""A pipeline as a connector of a real service, by its REST interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.products.connect.running.programs import PIPELINE, PROGRAMS
from moldau.testing import Cluster
from tests.support.connect_workers import Rest
from tests.support.talking_process import line_of, running

pytestmark = pytest.mark.slow

SPEC = """\
name: shop
source: {topic: orders, format: json, schema: "user string, amount double"}
sql: select user, amount from source where amount >= ${LEAST}
sink: {topic: big, key: user}
"""
TASK = list(PROGRAMS.tasks[PIPELINE])
END_S = 120


@contextmanager
def served(cluster: Cluster, settings: Path) -> Iterator[tuple[Rest, int]]:
    """The service, and its process id."""
    settings.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\nmoldau.task.starts=0\n")
    command = [sys.executable, "-m", "moldau", "connect", "serve", "--port", "0", "--config", str(settings)]
    with running([*command, "--standalone"], stdout=subprocess.PIPE) as process:
        rest = Rest(line_of(process.stdout).split()[1].rstrip("/"))
        rest.until("/health", lambda _: True)
        yield rest, process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0


def orders(cluster: Cluster, amounts: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for amount in amounts:
        producer.produce("orders", json.dumps({"user": f"u{amount}", "amount": amount}))
    assert producer.flush(END_S) == 0


def arrives(cluster: Cluster, amounts: Sequence[int]) -> None:
    """Each of them once."""
    cluster.wait_for(lambda: len(list(cluster.records("big"))) >= len(amounts), timeout=END_S)
    assert sorted(json.loads(one.value or b"")["amount"] for one in cluster.records("big")) == sorted(amounts)


def task_of(service: int) -> int:
    """The process id of the service's only task."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if parent == service and TASK[-1] in words:
            return int(folder.name)
    raise AssertionError("no task runs")


def in_state(rest: Rest, state: str) -> Any:
    path = "/connectors/shop/status"
    for _ in range(3):  # a start of Spark may take longer than one wait on a busy machine
        try:
            return rest.until(path, lambda found: [one["state"] for one in found["tasks"]] == [state])
        except AssertionError:
            continue
    raise AssertionError(rest.ask("GET", path))


def first_word_of_another(cluster: Cluster, config: dict[str, str]) -> Any:
    """What a second task of the same pipeline says first."""
    worker = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "other", "offset.storage.topic": "places"}
    task = {"connector": "shop", "config": config, "worker": worker}
    with running(TASK, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        return json.loads(line_of(process.stdout, END_S))


def test_a_pipeline_is_created_paused_killed_and_restarted_over_rest(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SPEC)
    config = {"connector.class": PIPELINE, "pipeline.file": str(file), "tasks.max": "3"}
    with Cluster() as cluster, served(cluster, tmp_path / "worker.properties") as (rest, service):
        cluster.create_topic("orders", partitions=1)
        cluster.create_topic("big", partitions=1)
        orders(cluster, range(10))
        status, found = rest.ask("POST", "/connectors", {"name": "shop", "config": config})
        assert (status, f"{file}:3: `${{LEAST}}`" in found["message"]) == (400, True), found
        config["pipeline.parameter.LEAST"] = "5"
        assert rest.ask("POST", "/connectors", {"name": "shop", "config": config})[0] == 201
        in_state(rest, "RUNNING")
        arrives(cluster, range(5, 10))
        told = rest.until("/connectors/shop/progress", lambda now: (now["tasks"][0]["progress"] or {}).get("lag") == 0)
        assert told["tasks"][0]["progress"]["offset"] == {"orders": {"0": 10}}
        [place] = rest.ask("GET", "/connectors/shop/offsets")[1]["offsets"]
        assert place["offset"] == {"kafka_offset": 10}

        rest.ask("PUT", "/connectors/shop/pause")
        in_state(rest, "PAUSED")
        orders(cluster, range(10, 20))
        rest.ask("PUT", "/connectors/shop/resume")
        in_state(rest, "RUNNING")
        arrives(cluster, range(5, 20))

        # one that is frozen keeps its lease, so nothing writes twice when it goes on
        task = task_of(service)
        os.kill(task, signal.SIGSTOP)
        other = first_word_of_another(cluster, config)
        os.kill(task, signal.SIGCONT)
        assert (other["state"], f"process {task} runs a pipeline" in other["trace"]) == ("FAILED", True), other

        orders(cluster, range(20, 30))
        os.kill(task, signal.SIGKILL)
        assert "signal 9" in in_state(rest, "FAILED")["tasks"][0]["trace"]
        assert rest.ask("POST", "/connectors/shop/restart?includeTasks=true")[0] == 202
        in_state(rest, "RUNNING")
        arrives(cluster, range(5, 30))

        rest.ask("PUT", "/connectors/shop/stop")
        rest.until("/connectors/shop/status", lambda now: now["tasks"] == [])
        status, found = rest.ask("DELETE", "/connectors/shop/offsets")
        assert (status, f"moldau pipeline reset {file}" in found["message"]) == (400, True), found
