"""What idle streaming queries of one Spark session cost, and how long a record takes to its row.

Each query reads its own topic into a foreachBatch, with its own checkpoint; with --sql it is a CREATE STREAM AS SELECT
of `moldau sql` into a topic. The session runs in its own interpreter:
`python -m benchmarks.loaders.idle_queries BOOTSTRAP_SERVERS BROKER_PID FOLDER [--queries 1 10 50] [--sql]`
prints its figures as JSON. Memory and CPU are those of the session's process tree: this Python, the JVM, and the Python
processes of its sources. They are figures beyond a session that has run and stopped one query.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.loaders.produce import create_topic
from benchmarks.output import Figures
from benchmarks.peers import Peer, PeerError
from benchmarks.spark_peer import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS = 50
"""Written one after the other for the time from a record to its row."""
TIMED_QUERIES = (1, 5)
"""The numbers of running queries for that time; the records go to each of them in turn."""
PAUSE_S = (0.1, 0.6)
"""Between a row and the next record: the query is idle again."""
SETTLE_S = 10.0
PATIENCE_S = 120.0
MB = 1_000_000


class Known(Peer):
    """A broker that another process has started, by its address."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__("broker", Path(), port=int(bootstrap_servers.rpartition(":")[2]))


class Rows:
    """The target: the time at which each value is a row in the driver."""

    def __init__(self) -> None:
        self._seen: dict[bytes, float] = {}
        self._changed = threading.Condition()

    def take(self, batch: DataFrame, _: int) -> None:
        values = [bytes(row.value) for row in batch.select("value").collect()]
        with self._changed:
            self._seen.update(dict.fromkeys(values, time.perf_counter()))
            self._changed.notify_all()

    def wait_for(self, value: bytes) -> float:
        """When it came. Raises PeerError."""
        with self._changed:
            if not self._changed.wait_for(lambda: value in self._seen, PATIENCE_S):
                raise PeerError(f"no row of the record {value!r} in {PATIENCE_S:.0f} s")
            return self._seen[value]


class Session:
    """A session with queries over the topics of one broker."""

    def __init__(self, bootstrap_servers: str, broker_pid: int, folder: Path, interval_ms: int) -> None:
        from moldau.spark import open_session

        self._peer = Known(bootstrap_servers)
        self._broker = psutil.Process(broker_pid)
        self._folder, self._interval_ms = folder, interval_ms
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
        self._rows = Rows()
        self._queries: list[StreamingQuery] = []
        self._started = 0
        self._running = 0
        self._sent = 0
        self._spark = open_session("moldau-bench", cores=2, log_path=folder / "spark.log")

    def start_up_to(self, count: int) -> None:
        """Returns when each query has written a row."""
        while self._running < count:
            self._started += 1
            self._running += 1
            topic = f"idle-{self._started}"
            create_topic(self._peer, topic)
            reader = self._spark.readStream.format("moldau").option("subscribe", topic)
            reader = reader.option("kafka.bootstrap.servers", self._peer.bootstrap_servers)
            writer = reader.option("startingOffsets", "earliest").load().writeStream.foreachBatch(self._rows.take)
            writer = writer.option("checkpointLocation", str(self._folder / topic))
            self._queries.append(writer.trigger(processingTime=f"{self._interval_ms} milliseconds").start())
            self.seconds_to_row(topic)

    def stop_queries(self) -> None:
        for query in self._queries:
            query.stop()
        self._queries.clear()
        self._running = 0

    def seconds_to_row(self, topic: str) -> float:
        """The time from a record written to its row. Raises PeerError."""
        self._sent += 1
        value = b"record %d" % self._sent
        begin = time.perf_counter()
        self._producer.produce(topic, value)
        self._producer.flush(PATIENCE_S)
        return self._rows.wait_for(value) - begin

    def row_ms(self) -> Figures:
        """p50 and p99 over RECORDS records."""
        topics = [f"idle-{self._started - number}" for number in range(self._running)]
        taken: list[float] = []
        for number in range(RECORDS):
            time.sleep(random.uniform(*PAUSE_S))
            taken.append(self.seconds_to_row(topics[number % len(topics)]))
        taken.sort()
        return {"p50_ms": statistics.median(taken) * 1e3, "p99_ms": taken[math.ceil(0.99 * len(taken)) - 1] * 1e3}

    def idle(self, seconds: float) -> dict[str, Any]:
        """PSS in MB and CPU in percent of a core, by kind of process; the broker's CPU apart."""
        time.sleep(SETTLE_S)
        before, broker = cpu_seconds(), sum(self._broker.cpu_times()[:2])
        begin = time.perf_counter()
        time.sleep(seconds)
        took = time.perf_counter() - begin
        cpu = {kind: 100 * (now - before.get(kind, 0.0)) / took for kind, now in cpu_seconds().items()}
        broker_cpu = 100 * (sum(self._broker.cpu_times()[:2]) - broker) / took
        beans = self._spark._jvm.java.lang.management.ManagementFactory
        heap = beans.getMemoryMXBean().getHeapMemoryUsage()
        found = {
            "pss_mb": pss_mb(),
            "cpu_percent": cpu,
            "broker_cpu_percent": broker_cpu,
            "processes": len(tree()),
            "jvm_threads": beans.getThreadMXBean().getThreadCount(),
            "heap_committed_mb": heap.getCommitted() / MB,
        }
        self._spark._jvm.System.gc()
        return {**found, "heap_live_mb": beans.getMemoryMXBean().getHeapMemoryUsage().getUsed() / MB}

    def close(self) -> None:
        self.stop_queries()
        self._spark.stop()


class SqlSession(Session):
    """Its queries are statements, each into a topic."""

    def __init__(self, bootstrap_servers: str, broker_pid: int, folder: Path, interval_ms: int) -> None:
        from moldau.client.protocol.access import ClusterAccess
        from moldau.products.sql.engine.engine import Engine, EngineSettings
        from moldau.products.sql.terminal.embedded import EmbeddedEngine

        super().__init__(bootstrap_servers, broker_pid, folder, interval_ms)
        engine = Engine(self._spark, EngineSettings(ClusterAccess.of(bootstrap_servers), folder, name="idle"))
        self._embedded = EmbeddedEngine(engine)
        self._embedded.__enter__()
        wanted = {"group.id": "idle", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, **wanted})

    def start_up_to(self, count: int) -> None:
        while self._running < count:
            self._started += 1
            self._running += 1
            topic = f"idle-{self._started}"
            for one in (topic, f"{topic}-rows"):
                create_topic(self._peer, one)
            name = topic.replace("-", "_")
            self._run(
                f"CREATE STREAM {name} (v STRING) WITH (kafka_topic = '{topic}', value_format = 'KAFKA');"
                f"CREATE STREAM {name}_rows WITH (kafka_topic = '{topic}-rows', value_format = 'KAFKA')"
                f" AS SELECT v FROM {name};"
            )
            self.seconds_to_row(topic)

    def stop_queries(self) -> None:
        self._run("TERMINATE ALL;")
        self._running = 0

    def seconds_to_row(self, topic: str) -> float:
        """The row is a committed record of the query's topic."""
        rows = TopicPartition(f"{topic}-rows", 0)
        rows.offset = self._consumer.get_watermark_offsets(rows, PATIENCE_S)[1]
        self._consumer.assign([rows])
        self._sent += 1
        value = b"record %d" % self._sent
        begin = time.perf_counter()
        self._producer.produce(topic, value)
        self._producer.flush(PATIENCE_S)
        while time.perf_counter() < begin + PATIENCE_S:
            found = self._consumer.poll(0.1)
            if found is not None and found.error() is None and found.value() == value:
                took = time.perf_counter() - begin
                self._consumer.unassign()  # it is idle with the queries
                return took
        raise PeerError(f"no row of the record {value!r} in {PATIENCE_S:.0f} s")

    def close(self) -> None:
        self._consumer.close()
        self._embedded.__exit__()
        self._spark.stop()

    def _run(self, text: str) -> None:
        from moldau.products.sql.engine.session import Session as Sender

        for _ in self._embedded.engine.execute(text, Sender()):
            pass


def tree() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def kind_of(process: psutil.Process) -> str:
    """driver, jvm, launcher (the program that Spark starts in place of Python), or python (forks of the worker
    host)."""
    if process.pid == os.getpid():
        return "driver"
    if process.name() == "java":
        return "jvm"
    return "launcher" if any("worker_launch" in word for word in process.cmdline()) else "python"


def cpu_seconds() -> dict[str, float]:
    seconds: dict[str, float] = {}
    for process in tree():
        with suppress(psutil.NoSuchProcess):
            kind = kind_of(process)
            seconds[kind] = seconds.get(kind, 0.0) + sum(process.cpu_times()[:2])
    return seconds


def pss_mb() -> dict[str, float]:
    found: dict[str, float] = {}
    for process in tree():
        with suppress(psutil.NoSuchProcess, OSError):
            kind = kind_of(process)
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            kib = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            found[kind] = found.get(kind, 0.0) + kib * 1024 / MB
    return found


def run(session: Session, counts: list[int], seconds: float) -> dict[str, Any]:
    """What `idle` and `row_ms` give: `bare`, `warm` (after a stopped query), and for each number of queries."""
    found: dict[str, Any] = {"bare": session.idle(seconds)}
    session.start_up_to(1)
    session.stop_queries()
    found["warm"] = session.idle(seconds)
    for count in sorted({*counts, *TIMED_QUERIES}):
        session.start_up_to(count)
        found[str(count)] = session.idle(seconds) if count in counts else {}
        if count in TIMED_QUERIES:
            found[str(count)] |= session.row_ms()
        print(count, json.dumps(found[str(count)]), file=sys.stderr, flush=True)
    return found


def figures_of(found: dict[str, Any], counts: list[int]) -> Figures:
    figures: Figures = {}
    bare = sum(found["warm"]["pss_mb"].values())
    for count in counts:
        one = found[str(count)]
        figures[f"pss_mb_each_of_{count}"] = (sum(one["pss_mb"].values()) - bare) / count
        figures[f"cpu_percent_of_{count}"] = sum(one["cpu_percent"].values())
    for count in TIMED_QUERIES:
        figures[f"row_p50_ms_of_{count}"] = found[str(count)]["p50_ms"]
        figures[f"row_p99_ms_of_{count}"] = found[str(count)]["p99_ms"]
    return figures


def measure(peer: Peer, counts: tuple[int, ...], interval_ms: int, seconds: float, *, is_sql: bool) -> Figures:
    """Runs it in a fresh interpreter. Raises PeerError."""
    if peer.process is None:
        raise PeerError(f"{peer.name} is not running")
    folder = peer.folder / f"queries-{interval_ms}"
    folder.mkdir()
    words = [peer.bootstrap_servers, str(peer.process.pid), str(folder), "--interval-ms", str(interval_ms)]
    words += ["--seconds", str(seconds), "--queries", *map(str, counts)]
    words += ["--sql"] if is_sql else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "benchmarks.loaders.idle_queries", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        raise PeerError(f"the queries failed with exit {done.returncode}")
    return figures_of(json.loads(done.stdout.splitlines()[-1]), list(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("broker_pid", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--interval-ms", type=int, default=0, help="of the trigger")
    parser.add_argument("--seconds", type=float, default=30.0, help="of idle time whose CPU is counted")
    parser.add_argument("--sql", action="store_true", help="queries of `moldau sql`")
    arguments = parser.parse_args()
    kind = SqlSession if arguments.sql else Session
    session = kind(arguments.bootstrap_servers, arguments.broker_pid, arguments.folder, arguments.interval_ms)
    try:
        print(json.dumps(run(session, arguments.queries, arguments.seconds)))
    finally:
        session.close()


if __name__ == "__main__":
    main()
