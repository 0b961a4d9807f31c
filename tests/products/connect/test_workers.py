"""Workers with real processes: what fails, and what several workers share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Cluster
from tests.support.cluster_under_test import cluster_under_test
from tests.support.connect_cluster import connect_cluster
from tests.support.connect_workers import Rest, worker
from tests.support.talking_process import line_of, running

SOON_S = 18
"""Less than a request to a cluster that is away."""
FAST = {"moldau.task.starts": "0"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with cluster_under_test() as servers:
        yield servers


@pytest.fixture
def source(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    return {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}


def create(rest: Rest, name: str, config: dict[str, str]) -> None:
    status, found = rest.settled("POST", "/connectors", {"name": name, "config": config})
    assert status == 201, found


def trace_of(rest: Rest, name: str) -> str:
    return str(rest.ask("GET", f"/connectors/{name}/status")[1]["tasks"][0]["trace"])


def test_a_worker_alone_runs_connectors_and_says_what_failed(
    servers: str, request: pytest.FixtureRequest, source: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_TEST_SECRET", "s3cret")
    with worker(servers, request.node.name, FAST, is_standalone=True) as rest:
        create(rest, "ends", {**source, "exit": "3"})
        create(rest, "fails", {**source, "fail": "the target is gone"})
        create(rest, "grows", {**source, "grow": "100", "task.memory.max.mb": "80"})
        create(rest, "splits", {**source, "split": "no such column"})
        log = Path(source["file"]).with_name("log")
        create(rest, "hides", {**source, "log": str(log), "password": "a ${env:CONNECT_TEST_SECRET} b"})
        lacks = {"name": "lacks", "config": {**source, "password": "${env:CONNECT_TEST_MISSING}"}}
        status, found = rest.ask("POST", "/connectors", lacks)
        sentence = "password: the environment variable CONNECT_TEST_MISSING is not set"
        assert (status, found["message"]) == (400, sentence)
        for name in ("ends", "fails", "grows"):
            rest.until_states(name, "FAILED")
        assert "exit code 3" in trace_of(rest, "ends")
        assert "the last words of the process" in trace_of(rest, "ends")
        assert trace_of(rest, "fails") == "the target is gone"
        assert "task.memory.max.mb is 80" in trace_of(rest, "grows")
        found = rest.until("/connectors/splits/status", lambda one: one["connector"]["state"] == "FAILED")
        assert (found["connector"]["trace"], found["tasks"]) == ("no such column", [])
        assert rest.ask("GET", "/connectors/hides/config")[1]["password"] == "a ${env:CONNECT_TEST_SECRET} b"
        rest.until("/connectors/hides/status", lambda _: len(started(log)) == 1)
        assert started(log)[0]["config"]["password"] == "a s3cret b"


def test_a_task_that_failed_starts_again(
    servers: str, request: pytest.FixtureRequest, source: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with worker(servers, request.node.name, {"moldau.task.starts": "5"}, is_standalone=True) as rest:
        create(rest, "lives", {**source, "log": str(log)})
        rest.until_states("lives", "RUNNING")
        told = rest.until(
            "/connectors/lives/progress", lambda found: (found["tasks"][0]["progress"] or {}).get("records")
        )
        assert (told["name"], told["tasks"][0]["progress"]["records"]) == ("lives", 2)
        assert rest.ask("GET", "/connectors/nothing/progress")[0] == 404
        with urllib.request.urlopen(f"{rest.url}/metrics", timeout=60) as answer:
            scraped = answer.read().decode()
        assert 'moldau_connect_task_records_total{connector="lives",task="0"} 2\n' in scraped
        assert 'moldau_connect_task_running{connector="lives",task="0"} 1\n' in scraped
        [first] = started(log)
        os.kill(first["pid"], signal.SIGKILL)
        rest.until("/connectors/lives/status", lambda _: len(started(log)) == 2)
        rest.until_states("lives", "RUNNING")
        # a restart by hand starts a new process at once
        assert rest.ask("POST", "/connectors/lives/tasks/0/restart")[0] == 204
        rest.until("/connectors/lives/status", lambda _: len(started(log)) == 3)


def test_a_worker_ends_soon_without_its_cluster(source: dict[str, str]) -> None:
    with Cluster() as cluster:
        command = [sys.executable, "-m", "tests.support.connect_workers", cluster.bootstrap_servers, "gone"]
        with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            rest = Rest(line_of(process.stdout).strip())
            create(rest, "lone", source)
            rest.until_states("lone", "RUNNING")
            cluster.kill()
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(SOON_S) == 0


@pytest.mark.slow
def test_two_workers_share_the_tasks_and_forward_what_is_for_the_leader(source: dict[str, str], tmp_path: Path) -> None:
    group, log = "pair", tmp_path / "log"
    with connect_cluster() as cluster, worker(cluster.bootstrap_servers, group) as one:
        create(one, "many", {**source, "slots": "4", "tasks.max": "4", "log": str(log)})
        one.until_states("many", *["RUNNING"] * 4)
        with worker(cluster.bootstrap_servers, group) as other:
            path = "/connectors/many/status"
            both = lambda found: len({task["worker_id"] for task in found["tasks"]}) == 2  # noqa: E731
            other.until(path, both)
            other.until_states("many", *["RUNNING"] * 4)
            # whoever leads: both answer
            for number, rest in enumerate((one, other)):
                create(rest, f"by-{number}", {**source, "topic": f"t{number}"})
                assert rest.settled("PUT", "/connectors/many/pause")[0] == 202
                rest.until_states("many", *["PAUSED"] * 4)
                assert rest.settled("PUT", "/connectors/many/resume")[0] == 202
                rest.until_states("many", *["RUNNING"] * 4)
                for task in range(4):
                    assert rest.settled("POST", f"/connectors/many/tasks/{task}/restart")[0] == 204
                rest.until_states("many", *["RUNNING"] * 4)
            # each has the progress of all tasks
            for rest in (one, other):
                found = rest.until(
                    "/connectors/many/progress",
                    lambda told: all(task["progress"] and task["progress"]["memory_bytes"] for task in told["tasks"]),
                )
                assert [task["id"] for task in found["tasks"]] == [0, 1, 2, 3]
                assert {task["worker_id"] for task in found["tasks"]} == {one.url[7:], other.url[7:]}
                listed = rest.ask("GET", "/connectors?expand=info&expand=progress")[1]["many"]["progress"]
                assert [task["worker_id"] for task in listed] == [task["worker_id"] for task in found["tasks"]]
            assert rest.settled("POST", "/connectors", {"name": "many", "config": source})[0] == 409
            assert rest.settled("GET", "/connectors/nothing")[0] == 404
        # the other one has left: its tasks run here
        alone = lambda found: {task["worker_id"] for task in found["tasks"]} == {one.url[7:]}  # noqa: E731
        one.until(path, alone)
        one.until_states("many", *["RUNNING"] * 4)
        assert one.settled("DELETE", "/connectors/many")[0] == 204
        one.until("/connectors", lambda found: "many" not in found)


def started(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
