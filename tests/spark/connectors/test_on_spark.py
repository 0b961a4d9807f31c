"""Connectors with `runner` = `spark`: the service starts them, each as a streaming query in a process."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.support.connect_cluster import connect_cluster
from tests.support.connect_workers import Rest
from tests.support.talking_process import line_of, running

pytestmark = pytest.mark.slow

TRIES, PAUSE_S = 1_200, 0.25
PAUSE = threading.Event()
MADE = {"connector.class": "datagen", "key.columns": "id", "limit": "400", "rows.per.second": "40"}
ON_SPARK = {"runner": "spark", "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@contextmanager
def served(servers: str) -> Iterator[Rest]:
    command = [sys.executable, "-m", "moldau", "connect", "serve", "--port", "0", "-b", servers]
    with running(command, stdout=subprocess.PIPE) as process:
        line = line_of(process.stdout)
        assert line.startswith("connect http://"), line
        rest = Rest(line.split()[1].rstrip("/"))
        rest.until("/health", lambda _: True)
        yield rest
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


def tasks_on_spark() -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"moldau.products.connect.on_spark" in words:
            yield int(folder.name)


def test_a_source_on_spark_is_exactly_once_though_it_is_killed() -> None:
    before = set(tasks_on_spark())
    with connect_cluster() as cluster, served(cluster.bootstrap_servers) as rest:
        for topic in ("light", "spark"):
            cluster.create_topic(topic, partitions=3)
        wrong = {"name": "wrong", "config": {**MADE, "topic": "light", "runner": "sparks"}}
        status, found = rest.settled("POST", "/connectors", wrong)
        assert (status, "did you mean spark?" in found["message"]) == (400, True)
        create(rest, "light", {**MADE, "topic": "light", "rows.per.second": "0"})
        create(rest, "made", {**MADE, **ON_SPARK, "topic": "spark", "tasks.max": "4"})
        wait_until(lambda: len(values(cluster, "spark")) > 20)
        [task] = set(tasks_on_spark()) - before
        os.kill(task, signal.SIGKILL)
        wait_until(lambda: state_of(rest, "made") == "FAILED")
        wait_until(lambda: state_of(rest, "made") == "RUNNING")
        assert rest.ask("PUT", "/connectors/made/pause")[0] == 202
        wait_until(lambda: state_of(rest, "made") == "PAUSED")
        assert rest.ask("PUT", "/connectors/made/resume")[0] == 202
        wait_until(lambda: len(values(cluster, "spark")) >= 400)
        assert values(cluster, "spark") == values(cluster, "light")
        [place] = rest.ask("GET", "/connectors/made/offsets")[1]["offsets"]
        assert place == {"partition": {"slot": 0}, "offset": {"rows": 400}}


def numbered(first: int, end: int) -> list[bytes]:
    """Values with their schema."""
    schema = {"type": "struct", "fields": [{"field": "n", "type": "int64", "optional": False}]}
    return [json.dumps({"schema": schema, "payload": {"n": number}}).encode() for number in range(first, end)]


def numbers_in(database: Path) -> list[int]:
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def test_a_sink_on_spark_is_exactly_once_though_it_is_killed(tmp_path: Path) -> None:
    database, before = tmp_path / "numbers.db", set(tasks_on_spark())
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE numbers (n BIGINT CHECK (n <> 77))")
    letters = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    config = {
        **ON_SPARK,
        **letters,
        "connector.class": "sqlite",
        "connection.url": f"sqlite:///{database}",
        "topics": "numbers",
        "table.name.format": "numbers",
        "value.converter": "json",
        "batch.max.rows": "50",
    }
    expected = [number for number in range(600) if number != 77]
    with connect_cluster() as cluster, served(cluster.bootstrap_servers) as rest:
        cluster.create_topic("numbers", partitions=2)
        cluster.produce("numbers", *numbered(0, 300))
        create(rest, "sunk", config)
        wait_until(lambda: len(numbers_in(database)) > 20)
        cluster.produce("numbers", *numbered(300, 600))
        [task] = set(tasks_on_spark()) - before
        os.kill(task, signal.SIGKILL)
        wait_until(lambda: len(numbers_in(database)) >= len(expected))
        assert numbers_in(database) == expected
        [letter] = {record.value for record in cluster.records("letters")}
        assert letter == numbered(77, 78)[0]
        found = rest.until(
            "/connectors/sunk/offsets",
            lambda one: sum(place["offset"]["kafka_offset"] for place in one["offsets"]) == 600,
        )
        assert len(found["offsets"]) == 2
