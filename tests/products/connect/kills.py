"""`make kills-connect`: kill -9 of tasks in the middle of a batch, and of the worker, while each connector has data.

python -m tests.products.connect.kills [--kills 10] [--worker-kills 5] [--connector NAME] [--broker moldau]
    [--runner light] [--seed N]

A task is stopped (SIGSTOP), and killed only if its batch is begun and not committed: a source has records of an open
transaction, a sink has noted a batch whose offsets are not committed. At a kill of the worker the tasks are stopped in
the same way, and half of these kills take the tasks, too. At the end each number has arrived as the connector's page
says.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psutil

from moldau.connect.contract.runners import LIGHT, RUNNER, RUNNERS, SPARK
from moldau.products.connect.running.programs import PROGRAMS
from tests.support.apache_kafka import apache_kafka
from tests.support.connect_workers import Rest
from tests.support.database_tables import Tables
from tests.support.http_records import RecordServer
from tests.support.kill_sinks import FilesSink, HttpSink, KeyedTableSink, S3Sink, TableSink
from tests.support.kill_sources import FilesSource, FileStreamSource, GeneratorSource, HttpSource, TableSource
from tests.support.kill_subjects import Kafka, Subject
from tests.support.object_store import moto_server
from tests.support.postgresql import PostgresqlServer
from tests.support.running_broker import RunningBroker
from tests.support.talking_process import TalkingProcess

PATIENCE_S = 180.0
"""A connector that carries nothing for so long has failed."""
PAUSE_S = 0.1
TRIES = 2_000
"""Of finding a task in the middle of a batch."""
TRIES_OF_A_FEED = 10
ASKED_S = 4.0
"""A killed task starts again by itself after 1, 2, 4, ... seconds. After so long it is restarted by REST."""
WORKER = """group.id=kills
config.storage.topic=kills-configs
config.storage.replication.factor=1
offset.storage.topic=kills-offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.topic=kills-status
status.storage.replication.factor=1
status.storage.partitions=1
moldau.shares=8
"""
MODULES = {PROGRAMS.tasks[runner][-1] for runner in RUNNERS}
"""Of the processes of tasks."""
QUICK = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
CI = ("files-source", "files-sink", "postgresql-source", "postgresql-sink", "sqlite-source", "sqlite-sink",
      "http-source", "http-sink", "s3-parquet-sink", "datagen")  # fmt: skip
"""One of each code path, for a quick run."""


class Plan(msgspec.Struct, frozen=True):
    """`kills`: of the task of each connector. `chunk`: numbers that are fed at once. `connectors`: the first words of
    names; none is all. `tasks`: of a connector, at most."""

    kills: int
    worker_kills: int
    seed: int
    connectors: tuple[str, ...] = ()
    broker: str = "moldau"
    chunk: int = 2_000
    tasks: int = 2
    runner: str = LIGHT


class World:
    """The servers that the chosen connectors need, each started once."""

    def __init__(self, stack: ExitStack, kafka: Kafka, folder: Path) -> None:
        self.stack, self.kafka, self.folder = stack, kafka, folder
        self._postgresql = ""
        self._store = ""

    def postgresql(self) -> Tables:
        if not self._postgresql:
            server = PostgresqlServer()
            self.stack.callback(server.close)
            self._postgresql = server.url
        return Tables.of_postgresql(self._postgresql)

    def sqlite(self, name: str) -> Tables:
        return Tables.of_sqlite(self.folder / f"{name}.db")

    def store(self) -> str:
        if not self._store:
            self._store = self.stack.enter_context(moto_server())
        return self._store

    def server(self) -> RecordServer:
        return self.stack.enter_context(RecordServer().running())


Make = Callable[[World, str], Subject]

CLOCK = "clock_timestamp()"
BOTH = "timestamp+incrementing"
SUBJECTS: dict[str, Make] = {
    "files-source": lambda world, name: FilesSource(name, world.kafka, world.folder / name, "lines"),
    "files-json-source": lambda world, name: FilesSource(name, world.kafka, world.folder / name, "json"),
    "files-csv-source": lambda world, name: FilesSource(name, world.kafka, world.folder / name, "csv"),
    "files-sink": lambda world, name: FilesSink(name, world.kafka, world.folder, "json", is_folder=True),
    "files-append-sink": lambda world, name: FilesSink(name, world.kafka, world.folder, "json", is_folder=False),
    "files-csv-sink": lambda world, name: FilesSink(name, world.kafka, world.folder, "csv", is_folder=True),
    "FileStreamSource": lambda world, name: FileStreamSource(name, world.kafka, world.folder),
    "FileStreamSink": lambda world, name: FilesSink(name, world.kafka, world.folder, "stream", is_folder=False),
    "postgresql-source": lambda world, name: TableSource(name, world.kafka, world.postgresql(), "incrementing", CLOCK),
    "postgresql-timestamp-source": lambda world, name: TableSource(
        name, world.kafka, world.postgresql(), "timestamp", CLOCK
    ),
    "postgresql-both-source": lambda world, name: TableSource(name, world.kafka, world.postgresql(), BOTH, CLOCK),
    "postgresql-sink": lambda world, name: TableSink(name, world.kafka, world.postgresql()),
    "postgresql-upsert-sink": lambda world, name: KeyedTableSink(name, world.kafka, world.postgresql()),
    "sqlite-source": lambda world, name: TableSource(name, world.kafka, world.sqlite(name), "incrementing", "NULL"),
    "sqlite-sink": lambda world, name: TableSink(name, world.kafka, world.sqlite(name)),
    "sqlite-upsert-sink": lambda world, name: KeyedTableSink(name, world.kafka, world.sqlite(name)),
    "http-source": lambda world, name: HttpSource(name, world.kafka, world.server()),
    "http-sink": lambda world, name: HttpSink(name, world.kafka, world.server()),
    "s3-parquet-sink": lambda world, name: S3Sink(name, world.kafka, world.store(), "parquet"),
    "s3-avro-sink": lambda world, name: S3Sink(name, world.kafka, world.store(), "avro"),
    "s3-json-sink": lambda world, name: S3Sink(name, world.kafka, world.store(), "json"),
    "datagen": lambda world, name: GeneratorSource(name, world.kafka),
}


def chosen(words: Sequence[str]) -> list[str]:
    return [name for name in SUBJECTS if not words or any(name.startswith(word) for word in words)]


class RunningWorker:
    """A process of `moldau connect serve`. `rest` answers once `wait_until_ready` has returned."""

    def __init__(self, servers: str, config: Path) -> None:
        words = ["-b", servers, "--port", "0", "--config", str(config)]
        self._process = TalkingProcess([sys.executable, "-m", "moldau", "connect", "serve", *words])
        self.pid, self.output = self._process.pid, self._process.output
        self.rest = Rest("")

    def wait_until_ready(self) -> None:
        told = self._process.wait_for(lambda line: line.startswith("connect http"), time.monotonic() + PATIENCE_S)
        assert told, "".join(self.output)
        line = next(line for line in self.output if line.startswith("connect http"))
        self.rest = Rest(line.split()[1].rstrip("/"))
        self.rest.until("/health", lambda _: True)

    def tasks(self) -> dict[str, psutil.Process]:
        """The processes of its tasks, by connector and slot."""
        found = {}
        for process in psutil.Process(self.pid).children():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if MODULES & set(words) and process.status() != psutil.STATUS_ZOMBIE:
                    found[words[-1]] = process
        return found

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> int:
        """SIGTERM; gives the exit code."""
        self._process.terminate()
        code = self._process.live_on(PATIENCE_S)
        self._process.kill()
        assert code is not None, self.output[-20:]
        return code


def tree_of(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """With the processes that they have started: a JVM and its Python."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process, *process.children(recursive=True)]
    return found


@contextlib.contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """These stand still meanwhile; those that have ended are left out."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


class Campaign:
    """`say` gets lines of progress."""

    def __init__(
        self, plan: Plan, servers: str, world: World, folder: Path, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.plan, self.servers, self.world, self.say = plan, servers, world, say
        self.choices = random.Random(plan.seed)
        self.pause = threading.Event()
        self.killed: Counter[str] = Counter()
        """By connector, and "worker"."""
        self.amid = 0
        """Connectors that were in the middle of a batch when the worker died, in all."""
        self.config = folder / "worker.properties"
        self.config.write_text(WORKER)
        self.subjects = [SUBJECTS[name](world, name) for name in chosen(plan.connectors)]
        for subject in self.subjects:
            subject.limit_tasks(1 if plan.runner == SPARK else plan.tasks)
        self.worker = RunningWorker(servers, self.config)

    def run(self) -> list[str]:
        """The faults; empty if all is right."""
        try:
            self.worker.wait_until_ready()
            for subject in self.subjects:
                own = {RUNNER: self.plan.runner, **(QUICK if self.plan.runner == SPARK else {})}
                body = {"name": subject.name, "config": {**subject.config(), **own, "name": subject.name}}
                status, found = self.worker.rest.settled("POST", "/connectors", body)
                assert status == 201, found
            self.wait_until_running()
            self.say(f"{len(self.subjects)} connectors run")
            for number in range(1, self.plan.kills + 1):
                for subject in self.choices.sample(self.subjects, len(self.subjects)):
                    self.kill_task(subject)
                self.wait_until_complete()
                self.say(f"{number} kills of each task")
            for number in range(1, self.plan.worker_kills + 1):
                self.kill_worker()
                self.wait_until_running()
                self.wait_until_complete()
                self.say(f"{number} kills of the worker; {self.amid} connectors were in the middle of a batch")
            self.wait_until_running()
            assert self.worker.stop() == 0, self.worker.output[-20:]
            return [fault for subject in self.subjects for fault in subject.judge()]
        finally:
            self.worker.kill()

    def kill_task(self, subject: Subject) -> None:
        """Of any slot, in the middle of a batch."""
        for process in self.frozen_amid(subject):
            process.kill()
            self.killed[subject.name] += 1

    def kill_worker(self) -> None:
        """One connector at least is in the middle of a batch."""
        subject = self.choices.choice(self.subjects)
        for one in self.subjects:
            if one is not subject:
                one.feed(self.plan.chunk)
        for _ in self.frozen_amid(subject):
            tasks = self.worker.tasks()
            with frozen(tree_of(tasks.values())):
                self.amid += sum(self.is_amid(one, tasks) for one in self.subjects)
                self.worker.kill()
                if self.choices.random() < 0.5:
                    for process in tasks.values():
                        with contextlib.suppress(psutil.NoSuchProcess):
                            process.kill()
        self.killed["worker"] += 1
        self.worker = RunningWorker(self.servers, self.config)
        self.worker.wait_until_ready()

    def is_amid(self, subject: Subject, tasks: Mapping[str, psutil.Process]) -> bool:
        return any(subject.is_amid(slot) for slot in range(subject.tasks) if f"{subject.name}-{slot}" in tasks)

    def frozen_amid(self, subject: Subject) -> Iterator[psutil.Process]:
        """The process of a task, which stands still in the middle of a batch while the loop runs once."""
        self.wait_for(lambda: self.is_running(subject), subject)
        for number in range(TRIES):
            if number % TRIES_OF_A_FEED == 0 and subject.has_all():
                subject.feed(self.plan.chunk)
            self.pause.wait(self.choices.uniform(0, 0.05))
            slot = self.choices.randrange(subject.tasks)
            process = self.worker.tasks().get(f"{subject.name}-{slot}")
            if process is None:
                continue
            with frozen(tree_of([process])):
                if process.is_running() and subject.is_amid(slot):
                    yield process
                    return
        raise AssertionError(f"{subject.name} was never found in the middle of a batch: {self.status(subject)}")

    def wait_until_running(self) -> None:
        for subject in self.subjects:
            self.wait_for(lambda subject=subject: self.is_running(subject), subject)  # type: ignore[misc]

    def is_running(self, subject: Subject) -> bool:
        names = {f"{subject.name}-{slot}" for slot in range(subject.tasks)}
        states = [one["state"] for one in self.status(subject).get("tasks", ())]
        return states == ["RUNNING"] * subject.tasks and names <= self.worker.tasks().keys()

    def wait_until_complete(self) -> None:
        began_s = time.monotonic()
        waiting = list(self.subjects)
        asked: set[str] = set()
        while waiting := [one for one in waiting if not one.has_all()]:
            waited_s = time.monotonic() - began_s
            assert waited_s < PATIENCE_S, [(one.name, one.count(), one.fed, self.status(one)) for one in waiting]
            for one in waiting:
                if waited_s > ASKED_S and one.name not in asked:
                    asked.add(one.name)
                    path = f"/connectors/{one.name}/restart?includeTasks=true&onlyFailed=true"
                    self.worker.rest.settled("POST", path)
            self.pause.wait(PAUSE_S)

    def wait_for(self, is_so: Callable[[], bool], subject: Subject) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end_s, (subject.name, self.status(subject), self.worker.output[-20:])
            self.pause.wait(PAUSE_S)

    def status(self, subject: Subject) -> dict[str, list[dict[str, str]]]:
        code, found = self.worker.rest.ask("GET", f"/connectors/{subject.name}/status")
        return found if code == 200 else {}


@contextlib.contextmanager
def broker(kind: str, folder: Path) -> Iterator[str]:
    """The address of a broker."""
    if kind == "kafka":
        with apache_kafka(folder / "kafka", folder / "kafka-data") as servers:
            yield servers
        return
    words = ("--set", "group.initial.rebalance.delay.ms=0")
    running = RunningBroker("--no-console", "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0", *words)
    try:
        yield running.wait_until_ready().address
    finally:
        running.stop()


def run(plan: Plan, say: Callable[[str], None] = lambda line: None) -> tuple[list[str], Counter[str], int]:
    """The faults of one campaign, the kills, and how often a connector was amid a batch when the worker died."""
    with tempfile.TemporaryDirectory(prefix="moldau-kills-") as name, ExitStack() as stack:
        folder = Path(name)
        servers = stack.enter_context(broker(plan.broker, folder))
        kafka = Kafka(servers, "kills-offsets")
        stack.callback(kafka.close)
        campaign = Campaign(plan, servers, World(stack, kafka, folder), folder, say)
        return campaign.run(), campaign.killed, campaign.amid


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.products.connect.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--worker-kills", type=int, default=5)
    parser.add_argument("--connector", help="its name, or how names begin, such as files or postgresql-sink")
    parser.add_argument("--broker", choices=("moldau", "kafka"), default="moldau")
    parser.add_argument("--runner", choices=RUNNERS, default=LIGHT, help="spark: one connector after the other")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    words = (options.connector,) if options.connector else ()
    names = chosen(words)
    if not names:
        parser.error(f"no connector begins with {options.connector}: {', '.join(SUBJECTS)}")
    campaigns = [(name,) for name in names] if options.runner == SPARK else [words]  # each JVM has much memory
    own = options.kills, options.worker_kills, options.seed
    began_s = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began_s:.0f} s: {line}", flush=True)

    faults = []
    for one in campaigns:
        found, killed, amid = run(Plan(*own, one, options.broker, runner=options.runner), say)
        faults += found
        say(f"{len(chosen(one))} connectors, {dict(killed)}, {amid} times amid a batch as the worker died")
    print("\n".join(faults) or "each connector has delivered as its page says", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
