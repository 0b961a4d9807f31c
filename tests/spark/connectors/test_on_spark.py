"""Connectors with `runner` = `spark`, each a streaming query in a process: killed, and run to their end."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from moldau.testing import Cluster
from moldau.testing.connect import ConnectorTask
from tests.support.connect_cluster import connect_cluster
from tests.support.connect_workers import Rest
from tests.support.spark_tasks import QUICK, run_on_spark
from tests.support.talking_process import line_of, running

pytestmark = pytest.mark.slow

TRIES, PAUSE_S = 1_200, 0.25
PAUSE = threading.Event()
MADE = {"connector.class": "datagen", "key.columns": "id", "limit": "400", "rows.per.second": "100"}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
WAIT_S = 300


@contextmanager
def served(servers: str) -> Iterator[tuple[Rest, psutil.Process]]:
    """A worker in a process of its own."""
    command = [sys.executable, "-m", "moldau", "connect", "serve", "--port", "0", "-b", servers]
    with running(command, stdout=subprocess.PIPE) as process:
        line = line_of(process.stdout)
        assert line.startswith("connect http://"), line
        rest = Rest(line.split()[1].rstrip("/"))
        rest.until("/health", lambda _: True)
        yield rest, psutil.Process(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(TRIES):
        if is_so():
            return
        PAUSE.wait(PAUSE_S)
    raise AssertionError("it did not come to be")


def create(rest: Rest, name: str, config: dict[str, str]) -> None:
    status, found = rest.settled("POST", "/connectors", {"name": name, "config": config})
    assert status == 201, found


def state_of(rest: Rest, name: str) -> str | None:
    status, found = rest.ask("GET", f"/connectors/{name}/status")
    return found["tasks"][0]["state"] if status == 200 and found["tasks"] else None


def values(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((record.key, record.value) for record in cluster.records(topic))


def task_of(worker: psutil.Process) -> psutil.Process:
    """The process of its task on Spark."""
    [found] = [one for one in worker.children() if "moldau.products.connect.on_spark" in one.cmdline()]
    return found


def test_a_source_on_spark_is_exactly_once_though_it_is_killed() -> None:
    with connect_cluster() as cluster, served(cluster.bootstrap_servers) as (rest, worker):
        for topic in ("light", "spark"):
            cluster.create_topic(topic, partitions=3)
        wrong = {"name": "wrong", "config": {**MADE, "topic": "light", "runner": "sparks"}}
        status, found = rest.settled("POST", "/connectors", wrong)
        assert (status, "did you mean spark?" in found["message"]) == (400, True)
        create(rest, "light", {**MADE, "topic": "light", "rows.per.second": "0"})
        create(rest, "made", {**MADE, **QUICK, "topic": "spark", "tasks.max": "4"})
        wait_until(lambda: any(cluster.records("spark")))
        task_of(worker).kill()
        wait_until(lambda: state_of(rest, "made") == "FAILED")
        wait_until(lambda: state_of(rest, "made") == "RUNNING")
        assert rest.ask("PUT", "/connectors/made/pause")[0] == 202
        wait_until(lambda: state_of(rest, "made") == "PAUSED")
        assert rest.ask("PUT", "/connectors/made/resume")[0] == 202
        place = {"partition": {"slot": 0}, "offset": {"rows": 400}}
        wait_until(lambda: rest.ask("GET", "/connectors/made/offsets")[1]["offsets"] == [place])
        assert values(cluster, "spark") == values(cluster, "light")


def numbered(first: int, end: int) -> list[bytes]:
    """Values with their schema."""
    schema = {"type": "struct", "fields": [{"field": "n", "type": "int64", "optional": False}]}
    return [json.dumps({"schema": schema, "payload": {"n": number}}).encode() for number in range(first, end)]


def numbers_in(database: Path) -> list[int]:
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def test_a_sink_on_spark_is_exactly_once_though_it_is_killed(spark: object, tmp_path: Path) -> None:
    database = tmp_path / "numbers.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE numbers (n BIGINT CHECK (n <> 77))")
    config = {
        **LETTERS,
        "name": "sunk",
        "connector.class": "sqlite",
        "connection.url": f"sqlite:///{database}",
        "topics": "numbers",
        "table.name.format": "numbers",
        "value.converter": "json",
        "batch.max.rows": "50",
    }
    with connect_cluster() as cluster:
        cluster.create_topic("numbers", partitions=2)
        cluster.produce("numbers", *numbered(0, 300))
        with ConnectorTask(cluster, {**config, **QUICK}) as task:
            cluster.wait_for(lambda: len(numbers_in(database)) > 20, timeout=WAIT_S)
            cluster.produce("numbers", *numbered(300, 600))
            task.kill()
        reports = run_on_spark(cluster, config)
        assert reports.states == ["RUNNING", "STOPPED"], reports.trace
        assert numbers_in(database) == [number for number in range(600) if number != 77]
        [letter] = {record.value for record in cluster.records("letters")}
        assert letter == numbered(77, 78)[0]
        assert cluster.lag("connect-sunk") == 0
