"""`tasks.max` of a running sink: the batches of all slots end before their number changes, and each record is written
once."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from moldau.products.connect.running.programs import PROGRAMS
from moldau.testing import Cluster
from moldau.testing.connect import OFFSETS_TOPIC, ConnectorTask
from tests.support.connect_cluster import connect_cluster
from tests.support.connect_workers import Rest, worker
from tests.support.gate import CONNECTORS, Gate

PLAIN = {"key.converter": "bytes", "value.converter": "bytes"}
PARTITIONS = 6
PAUSE = threading.Event()
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        yield started


def written(folder: Path) -> list[str]:
    return sorted(line for path in folder.glob("batch-*") for line in path.read_text().splitlines())


def count_of(cluster: Cluster, name: str) -> object:
    key = json.dumps([name, {}], separators=(",", ":")).encode()
    return json.loads([one.value for one in cluster.records(OFFSETS_TOPIC) if one.key == key][-1] or b"null")


def numbered(first: int, count: int) -> list[str]:
    return [f"line {number:05}" for number in range(first, first + count)]


def partitions_of(task: ConnectorTask, topic: str) -> int:
    """From which the task has written records."""
    return len((task.progress.get("offset") or {}).get(topic, ()))


def again(gate: Gate, cluster: Cluster) -> None:
    """Lets the task go on that waits, and waits until one comes again."""
    Path(f"{gate}.reached").unlink()
    gate.open(cluster)
    gate.wait_until_reached(cluster)


@pytest.mark.slow
def test_a_change_ends_the_batches_of_killed_and_frozen_slots(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("changed", partitions=PARTITIONS)
    config = {"name": topic, "connector.class": "gated:Files", "topics": topic, "folder": str(tmp_path)}
    gates = [Gate(tmp_path, name) for name in ("killed", "frozen", "changing")]

    def task(slot: int, slots: int, **more: str) -> ConnectorTask:
        named = {name.replace("_", "."): text for name, text in more.items()}
        return ConnectorTask(cluster, PLAIN | config | named, path=[CONNECTORS], slot=slot, slots=slots)

    lines = numbered(0, 60)
    cluster.produce(topic, *lines)
    with ExitStack() as stack:
        killed = stack.enter_context(task(0, 2, gate=str(gates[0])))
        # its batch is published, its offsets are not committed
        frozen = stack.enter_context(task(1, 2, commit_gate=str(gates[1])))
        gates[0].wait_until_reached(cluster)
        gates[1].wait_until_reached(cluster)
        killed.kill()
        frozen.freeze()
        stack.callback(frozen.thaw)
        lines += numbered(60, 60)
        cluster.produce(topic, *lines[60:])
        new = stack.enter_context(task(2, 3))
        changing = stack.enter_context(task(0, 3, gate=str(gates[2])))
        gates[2].wait_until_reached(cluster)
        again(gates[2], cluster)  # after the batch of slot 0, that of slot 1
        assert count_of(cluster, topic) == {"slots": 3, "earlier": 2}
        changing.kill()
        assert (new.state, new.progress.get("records", 0)) == ("RUNNING", 0)
        with task(0, 1) as alone:
            cluster.wait_for(lambda: written(tmp_path) == lines, timeout=WAIT_S)
            alone.wait_until_idle()
            assert count_of(cluster, topic) == {"slots": 1}
            assert new.progress.get("records", 0) == 0
            frozen.thaw()
            gates[1].open(cluster)
            assert "FencedError" in frozen.wait_for_failure()
        with task(1, 2) as second, task(0, 2) as first:
            lines += numbered(120, 60)
            cluster.produce(topic, *lines[120:])
            half = PARTITIONS // 2
            cluster.wait_for(
                lambda: [partitions_of(one, topic) for one in (first, second)] == [half, half], timeout=WAIT_S
            )
    assert written(tmp_path) == lines
    assert cluster.lag(f"connect-{topic}") == 0


@contextmanager
def flowing(cluster: Cluster, topic: str) -> Iterator[list[str]]:
    """Records go to the topic meanwhile. The list has them all at the end."""
    sent: list[str] = []
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.05):
            lines = numbered(len(sent), 20)
            cluster.produce(topic, *lines)
            sent.extend(lines)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        is_over.set()
        thread.join(WAIT_S)


def kill_task(name: str) -> None:
    [found] = [one for one in psutil.Process().children() if one.cmdline()[-1:] == [name]]
    found.kill()


def put(rest: Rest, name: str, config: dict[str, str]) -> None:
    status, told = rest.settled("PUT", f"/connectors/{name}/config", config)
    assert status in (200, 201), told


@pytest.mark.slow
def test_the_tasks_of_a_sink_change_while_records_flow(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{CONNECTORS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    topic, gate = cluster.topic("flowing", partitions=PARTITIONS), Gate(tmp_path)
    config = PLAIN | {"connector.class": "gated:Files", "topics": topic, "folder": str(tmp_path)}
    settings = {"task.shutdown.graceful.timeout.ms": "1000"}
    with (
        flowing(cluster, topic) as sent,
        worker(cluster.bootstrap_servers, "counts", settings, programs=PROGRAMS) as rest,
    ):
        put(rest, "out", config | {"tasks.max": "2", "gate": str(gate)})
        gate.wait_until_reached(cluster)
        rest.until_states("out", "RUNNING", "RUNNING")
        kill_task("out-1")
        put(rest, "out", config | {"tasks.max": "3"})
        rest.until("/connectors/out/tasks", lambda told: len(told) == 3)
        rest.until("/connectors/out/progress", wrote(3))
        put(rest, "out", config | {"tasks.max": "1"})
        rest.until("/connectors/out/tasks", lambda told: len(told) == 1)
        rest.until("/connectors/out/progress", wrote(1))
        enough = len(sent)
        cluster.wait_for(lambda: len(written(tmp_path)) > enough, timeout=WAIT_S)
    twice = {line: count for line, count in Counter(written(tmp_path)).items() if count > 1}
    assert twice == {}
    assert written(tmp_path)[:enough] == sent[:enough]


def wrote(tasks: int) -> Callable[[Any], bool]:
    return lambda told: sum((one["progress"] or {}).get("records", 0) > 0 for one in told["tasks"]) == tasks
