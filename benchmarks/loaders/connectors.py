"""Connectors: file to topic to file with a worker of Moldau and one of Apache Kafka Connect, over one broker."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.loaders.arrow_connectors import ROWS
from benchmarks.loaders.produce import create_topic, delete_topic
from benchmarks.output import Figures
from benchmarks.peers import CACHE, JVM_FLAGS, KAFKA_VERSION, Peer, PeerError, fetch_artifacts, free_port
from benchmarks.spark_peer import ROOT

MOLDAU, APACHE = RUNNERS = "moldau connect", "Kafka Connect"
PARTS = ("kafka-clients", "connect-api", "connect-json", "connect-transforms", "connect-runtime")
FILE_CONNECTORS = "org.apache.kafka:connect-file:4.3.1"
"""The newest on Maven Central. It calls a class that Apache Kafka 4.4.0 has moved."""
MOVED_CLASS = """package org.apache.kafka.common.utils;
public class AppInfoParser { public static String getVersion() { return "4.4.0"; } }
"""
SOURCE, SINK = (f"org.apache.kafka.connect.file.FileStream{one}Connector" for one in ("Source", "Sink"))
"""Moldau knows its own classes by these names too."""
TEXT = {f"{one}.converter": "org.apache.kafka.connect.storage.StringConverter" for one in ("key", "value")}
TASK = "moldau.connect.running"
BATCHES = "benchmarks.loaders.arrow_connectors:Batches"
LOOK_S = 0.005
PATIENCE_S = 300.0
SETTLE_S = 1.0
IDLE_AFTER_S = 10.0


def fetch_connect(cache: Path) -> str:
    """The class path of Apache Kafka Connect with its file connectors, fetched once. Raises PeerError."""
    named = tuple(f"org.apache.kafka:{one}:{KAFKA_VERSION}" for one in PARTS)
    libraries = fetch_artifacts(cache / f"connect-{KAFKA_VERSION}", (*named, FILE_CONNECTORS))
    classes = libraries / "moved"
    if not classes.exists():
        source = libraries / "AppInfoParser.java"
        source.write_text(MOVED_CLASS)
        subprocess.run(["javac", "-d", str(classes), str(source)], check=True)
    return f"{libraries}/*:{classes}"


@dataclass
class Worker:
    """A worker that runs alone. `url`: of its REST interface."""

    url: str
    process: subprocess.Popen[bytes]

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Returns once its only task runs."""
        self.ask("POST", "/connectors", {"name": name, "config": {"tasks.max": "1", **TEXT, **config}})
        until(lambda: self._states(name) == ["RUNNING"], f"{name} does not run")

    def delete(self, name: str) -> None:
        self.ask("DELETE", f"/connectors/{name}")

    def task(self) -> psutil.Process:
        """The process of the only task."""
        living = [one for one in psutil.Process(self.process.pid).children() if one.status() != psutil.STATUS_ZOMBIE]
        return next(one for one in living if TASK in one.cmdline())

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def cpu_seconds(self) -> float:
        """User and system time so far of the worker and its tasks."""
        own = psutil.Process(self.process.pid)
        times = [one.cpu_times() for one in (own, *own.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    def _states(self, name: str) -> list[str]:
        try:
            return [one["state"] for one in self.ask("GET", f"/connectors/{name}/status")["tasks"]]
        except urllib.error.HTTPError:
            return []  # not known yet


@contextmanager
def started(runner: str, folder: Path, servers: str) -> Iterator[Worker]:
    """A worker with the defaults of the file of settings that comes with Kafka Connect."""
    folder.mkdir(parents=True)
    port = free_port()
    command = _moldau(folder, servers, port) if runner == MOLDAU else _apache(folder, servers, port)
    with (folder / "output.txt").open("wb") as output:
        path = {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env={**os.environ, **path})
    worker = Worker(f"http://127.0.0.1:{port}", process)

    def answers() -> bool:
        if process.poll() is not None:
            raise PeerError(f"{runner} did not start: see {folder / 'output.txt'}")
        try:
            return bool(worker.ask("GET", "/connectors") == [])
        except OSError:
            return False

    try:
        until(answers, f"{runner} does not answer")
        yield worker
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _moldau(folder: Path, servers: str, port: int) -> list[str]:
    settings = folder / "worker.properties"
    # niceness as that of Kafka Connect, so that other work slows both alike
    settings.write_text(f"bootstrap.servers={servers}\ngroup.id={folder.name}\nmoldau.task.nice=0\n")
    serve = ["connect", "serve", "--config", str(settings), "--port", str(port), "--standalone"]
    return [sys.executable, "-m", "moldau.cli.main", *serve]


def _apache(folder: Path, servers: str, port: int) -> list[str]:
    settings = folder / "worker.properties"
    values = {
        "bootstrap.servers": servers,
        **TEXT,
        "listeners": f"HTTP://127.0.0.1:{port}",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "10000",
    }
    settings.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    java = os.environ.get("MOLDAU_BENCH_JAVA", "java")
    command = [java, "-Xms256M", "-Xmx2G", *JVM_FLAGS, "-cp", fetch_connect(CACHE)]
    return [*command, "org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]


def until(reached: Callable[[], bool], failure: str) -> None:
    end_s = time.perf_counter() + PATIENCE_S
    while not reached():
        if time.perf_counter() > end_s:
            raise PeerError(failure)
        time.sleep(LOOK_S)


def _has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def write_lines(path: Path, records: int, line_bytes: int) -> None:
    """Different lines, each with `line_bytes` bytes before its end."""
    with path.open("w") as file:
        for number in range(records):
            text = hashlib.sha512(str(number).encode()).hexdigest()
            file.write(f"{number} {text}".ljust(line_bytes, "-")[:line_bytes] + "\n")


class Rate:
    """Records/s from a tenth of the records to the last one: without the start of tasks, and the warming of a JVM.

    `part`: the part of the records that has arrived.
    """

    def __init__(self, part: Callable[[], float], records: int) -> None:
        self._part = part
        self._records = records

    def measure(self) -> float:
        until(lambda: self._part() >= 0.1, "nothing arrives")
        begun, first = time.perf_counter(), self._part()
        until(lambda: self._part() >= 1, "some records do not arrive")
        return self._records * (1 - first) / (time.perf_counter() - begun)


def measure(peer: Peer, folder: Path, *, runner: str, records: int, line_bytes: int) -> Figures:
    """The rates of a source alone, of a sink alone, and of both at once, from file to file. Raises PeerError if the
    files of the sinks differ from that of the source."""
    folder.mkdir()
    data, seen = folder / "data.txt", folder / "input.txt"
    write_lines(data, records, line_bytes)
    size = data.stat().st_size
    topics = [f"{folder.name}-{one}" for one in ("alone", "both")]
    for topic in topics:
        create_topic(peer, topic)
    admin = AdminClient(peer.client_settings)

    def in_topic() -> float:
        place = TopicPartition(topics[0], 0)
        asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
        return float(asked[place].result(PATIENCE_S).offset) / records

    def in_file(path: Path) -> Callable[[], float]:
        return lambda: path.stat().st_size / size if path.exists() else 0.0

    with started(runner, folder / "worker", peer.bootstrap_servers) as worker:
        worker.create("source", {"connector.class": SOURCE, "file": str(seen), "topic": topics[0]})
        os.link(data, seen)  # the task waits for the file
        source_rate = Rate(in_topic, records).measure()
        time.sleep(SETTLE_S)
        worker.delete("source")
        seen.unlink()
        alone, both = folder / "alone.txt", folder / "both.txt"
        worker.create("sink", {"connector.class": SINK, "file": str(alone), "topics": topics[0]})
        sink_rate = Rate(in_file(alone), records).measure()
        worker.delete("sink")
        with data.open("rb") as lines, seen.open("wb") as file:
            file.write(next(lines))
            file.flush()
            worker.create("source-2", {"connector.class": SOURCE, "file": str(seen), "topic": topics[1]})
            worker.create("sink-2", {"connector.class": SINK, "file": str(both), "topics": topics[1]})
            until(lambda: in_file(both)() > 0, "the first line does not arrive")  # a group has its partitions now
            cpu_s = worker.cpu_seconds()
            shutil.copyfileobj(lines, file, 1 << 20)
        rate = Rate(in_file(both), records).measure()
        cpu_s = worker.cpu_seconds() - cpu_s
    for found in (alone, both):
        if not filecmp.cmp(data, found, shallow=False):
            raise PeerError(f"{runner}: {found} differs from its source")
    for topic in topics:
        delete_topic(peer, topic)
    return {
        "source_rate": source_rate,
        "sink_rate": sink_rate,
        "rate": rate,
        "cpu_us_per_record": cpu_s / records * 1e6,
    }


def measure_idle(peer: Peer, folder: Path, seconds: float) -> Figures:
    """PSS in MB, and CPU in percent of a core, of single tasks that have moved some records and then nothing."""
    folder.mkdir()
    lines, out = folder / "lines.txt", folder / "out"
    write_lines(lines, ROWS, 100)
    out.mkdir()
    create_topic(peer, "idle")
    with_schema = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    source = {"connector.class": SOURCE, "file": str(lines), "topic": "idle"}
    sink = {"connector.class": SINK, "file": str(folder / "out.txt"), "topics": "idle"}
    tasks = {
        "source": {**source, "producer.override.linger.ms": "5"},  # so it moves single records
        "sink": {**sink, "consumer.override.fetch.min.bytes": "1"},
        "lines_source": source,
        "lines_sink": sink,
        "arrow_source": {"connector.class": BATCHES, "topic": "batches", **with_schema},
        "arrow_sink": {"connector.class": BATCHES, "folder": str(out), "topics": "idle"},
    }
    create_topic(peer, "batches")
    found: Figures = {}
    with started(MOLDAU, folder / "worker", peer.bootstrap_servers) as worker:
        for name, config in tasks.items():
            worker.create(name, config)
            time.sleep(IDLE_AFTER_S)
            task = worker.task()
            before, begun = task.cpu_times(), time.perf_counter()
            time.sleep(seconds)
            after = task.cpu_times()
            spent = after.user + after.system - before.user - before.system
            found[f"{name}_pss_mb"] = task.memory_full_info().pss / 1e6
            found[f"{name}_cpu_percent"] = 100 * spent / (time.perf_counter() - begun)
            worker.delete(name)
            until(partial(_has_ended, task), f"{name} stays")
    if not any(out.iterdir()) or not (folder / "out.txt").exists():
        raise PeerError("the sinks have written nothing")
    return found
