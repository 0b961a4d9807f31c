"""Runs tasks of `benchmarks.tasks` as their users would: one process per program, topics of two partitions, output
checked."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.loaders.steps import cpu_seconds, event_log_settings, seconds_of_steps
from benchmarks.peers import CACHE, Peer, PeerError, python_with
from benchmarks.spark_peer import ROOT, fetch_connector, spark_python

FOLDER = ROOT / "benchmarks" / "tasks"
TASKS = ("filter", "window", "join", "files", "avro")
FORMS = PAGE, PLAIN, QUIX = "moldau pipeline", "plain PySpark", "Quix Streams"
QUIX_VERSION = "3.28.1"
PARTITIONS, USERS = 2, 1_000
COUNTRIES = ("CZ", "DE", "FR", "IT", "JP", "NO", "PE", "US")
FIRST_AT = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=1)
"""Recent, because retention depends on it."""
ORDERS_PER_SECOND = 1_000
"""By the timestamps of the orders."""
MINUTE, LATE = timedelta(minutes=1), timedelta(seconds=10)
LARGE = 50
LAST_DELAY = timedelta(hours=1)
"""The record that a restart finds is so much later than the others: it closes every window."""
PATIENCE_S = 300.0
SETTLE_S = 2.0
"""Between the last row and the stop: a user does not stop a program right after its last row."""
QUIET_S, LACKING_S = 15.0, 75.0
"""The output of a killed program is complete after a silence of QUIET_S. With rows missing it is LACKING_S: a consumer
group reassigns the partitions of a killed member after 45 s."""
KILL_AFTER_S = (8.0, 20.0)
KILL_RECORDS, KILL_RATE = 200_000, 4_000
AVRO_SCHEMA = fastavro.parse_schema(json.loads((FOLDER / "order.avsc").read_text()))


def order(number: int, at: datetime | None = None) -> dict[str, Any]:
    """The order of that number: its number alone determines a program's output."""
    at = at or FIRST_AT + timedelta(seconds=number / ORDERS_PER_SECOND)
    amount = number * 7919 % 10_000 / 100
    country = COUNTRIES[number * 31 % len(COUNTRIES)]
    return {"id": number, "user": f"user-{number % USERS}", "country": country, "amount": amount, "at": at}


def as_json(one: dict[str, Any]) -> bytes:
    return json.dumps({**one, "at": one["at"].isoformat(timespec="milliseconds")}).encode()


def as_avro(one: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO_SCHEMA, one)
    return out.getvalue()


@dataclass
class Program:
    """A task in one of its three forms. `folder`: its state and its files; `spark`: Spark settings for a pipeline
    file."""

    task: str
    form: str
    servers: str
    folder: Path
    python: str
    environment: dict[str, str]
    spark: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        if self.form == PAGE:
            words = [self.python, "-m", "moldau.cli.main", "pipeline", "run", str(source_of(self.task, PAGE))]
            words += options("--spark", self.spark)
            return [*words, "--set", f"SERVERS={self.servers}", "--set", f"FOLDER={self.folder}"]
        return [self.python, str(source_of(self.task, self.form)), self.servers, str(self.folder)]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The program runs as a process group, which is dead afterwards."""
        with (self.folder / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, env=self.environment, start_new_session=True
            )
        try:
            yield self.process
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills all its processes with -9."""
        if self.process is not None:
            with suppress(ProcessLookupError):  # all of them have ended
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=30)
            self.process = None

    def stop(self) -> None:
        """Stops it with SIGTERM, as its user would; after a minute with -9."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()

    def check(self) -> None:
        """Raises PeerError if the program has ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            lines = (self.folder / "output.txt").read_text(errors="replace").strip().splitlines()
            raise PeerError(f"{self.task}, {self.form}: ended with {self.process.returncode}: {lines[-12:]}")


def options(flag: str, settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (flag, f"{name}={value}")]


def source_of(task: str, form: str) -> Path:
    return FOLDER / {PAGE: f"{task}.yaml", PLAIN: f"{task}_spark.py", QUIX: f"{task}_quix.py"}[form]


def lines_of_code(task: str, form: str) -> int:
    """Without empty lines and comments."""
    lines = [line.strip() for line in source_of(task, form).read_text().splitlines()]
    return sum(bool(line) and not line.startswith(("#", '"""')) for line in lines)


class Output:
    """A program's output: committed records of a topic, or rows of Parquet files."""

    def __init__(self, task: str, servers: str, folder: Path) -> None:
        self.task, self.folder = task, folder
        self._rows_of_file: dict[Path, int] = {}
        self._rows: list[dict[str, Any]] = []
        self._seen: set[tuple[Any, ...]] = set()
        settings = {"bootstrap.servers": servers, "group.id": "judge", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings | {"auto.offset.reset": "earliest", "log_level": 0})
        if self.is_topic:
            self._consumer.assign([TopicPartition(f"{task}-out", partition, 0) for partition in range(PARTITIONS)])

    @property
    def is_topic(self) -> bool:
        return self.task in ("filter", "window", "join")

    def size(self) -> int:
        """The number of rows that can be read now; in a topic, duplicates count once."""
        if self.is_topic:
            while messages := self._consumer.consume(10_000, timeout=0.05):
                new = [json.loads(one.value()) for one in messages if one.error() is None]
                self._rows += new
                self._seen.update(identity(self.task, row) for row in new)
            return len(self._seen)
        return sum(map(self._rows_in, self._files()))

    def rows(self) -> list[dict[str, Any]]:
        self.size()
        return self._rows if self.is_topic else [row for path in self._files() for row in rows_of_file(path)]

    def torn(self) -> int:
        """Files that are not valid Parquet."""
        return sum(path not in self._rows_of_file for path in self._files())

    def close(self) -> None:
        self._consumer.close()

    def _files(self) -> Iterator[Path]:
        """The files that a reader of `*.parquet` finds. Directories may come and go meanwhile."""
        for name, folders, files in os.walk(self.folder / "out"):
            folders[:] = [folder for folder in folders if not folder.startswith((".", "_"))]
            yield from (Path(name, file) for file in files if file.endswith(".parquet") and file[0] not in "._")

    def _rows_in(self, path: Path) -> int:
        """0 for a file that is torn or being written."""
        if path not in self._rows_of_file:
            try:
                self._rows_of_file[path] = int(pq.read_metadata(path).num_rows)
            except (OSError, ValueError):
                return 0
        return self._rows_of_file[path]


def rows_of_file(path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    except (OSError, ValueError):
        return []
    return rows


def identity(task: str, row: dict[str, Any]) -> tuple[Any, ...]:
    """The parts of a row that are right or wrong, as one value to compare."""
    if task == "window":
        start = datetime.fromisoformat(row["start"]).astimezone(UTC)
        return row["country"], start, row["orders"], round(row["amount"], 2)
    if task == "filter":
        return row["id"], row["amount"]
    return (row["id"], row["name"]) if task == "join" else (row["id"],)


def expected(task: str, orders: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The expected output for these orders."""
    if task == "filter":
        return Counter((one["id"], one["amount"]) for one in orders if one["amount"] >= LARGE)
    if task == "join":
        return Counter((one["id"], one["user"].upper()) for one in orders)
    if task != "window":
        return Counter((one["id"],) for one in orders)
    over = max(one["at"] for one in orders) - LATE
    counts: Counter[tuple[str, datetime]] = Counter()
    amounts: Counter[tuple[str, datetime]] = Counter()
    for one in orders:
        window = one["country"], one["at"].replace(second=0, microsecond=0)
        counts[window] += 1
        amounts[window] += one["amount"]
    ended = [window for window in counts if window[1] + MINUTE <= over]
    return Counter((*window, counts[window], round(amounts[window], 2)) for window in ended)


class Trial:
    """One task in one form with its own broker, and all that belongs to it."""

    def __init__(self, peer: Peer, task: str, form: str, folder: Path) -> None:
        self.peer, self.task, self.form = peer, task, form
        folder.mkdir(parents=True)
        environment = spec_environment()
        self._events = folder / "events"
        spark = event_log_settings(self._events)
        if form == PLAIN:
            words = ["--jars", fetch_connector(CACHE), *options("--conf", spark), "pyspark-shell"]
            environment["PYSPARK_SUBMIT_ARGS"] = " ".join(words)
            environment["PYTHONPATH"] = ""
        self.program = Program(task, form, peer.bootstrap_servers, folder, python_of(form), environment, spark)
        self.orders: list[dict[str, Any]] = []
        self._producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "linger.ms": 5, "log_level": 0})
        self._create_topics()
        self.output = Output(task, peer.bootstrap_servers, folder)

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.peer.bootstrap_servers})
        names = ("orders", "orders-avro", "users", f"{self.task}-out")
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            future.result(timeout=30)
        early_ms = int((FIRST_AT - timedelta(days=1)).timestamp() * 1000)
        for user in range(USERS):
            name = f"user-{user}"
            value = json.dumps({"user": name, "name": name.upper()})
            self._producer.produce("users", value, name, user % PARTITIONS, timestamp=early_ms)

    def feed(self, orders: list[dict[str, Any]]) -> None:
        """Raises PeerError if the broker did not accept them."""
        topic, encode = ("orders-avro", as_avro) if self.task == "avro" else ("orders", as_json)
        for one in orders:
            place = {"partition": one["id"] % PARTITIONS, "timestamp": int(one["at"].timestamp() * 1000)}
            while True:
                try:
                    self._producer.produce(topic, encode(one), one["user"], **place)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        if self._producer.flush(60):
            raise PeerError("records were not acknowledged")
        self.orders += orders

    def until_whole(self) -> dict[str, float]:
        """Starts the program and stops it when its output is complete. Gives `whole_s` (from start to then), the CPU
        time, and for a Spark program the steps of its batches. Raises PeerError if the output does not come."""
        wanted, begin = expected(self.task, self.orders).total(), time.perf_counter()
        broker_before = self.peer.cpu_seconds()
        with self.program.running() as process:
            while self.output.size() < wanted:
                self.program.check()
                if time.perf_counter() - begin > PATIENCE_S:
                    raise PeerError(f"{self.task}, {self.form}: {self.output.size()} of {wanted} rows")
                time.sleep(0.02)
            took = {"whole_s": time.perf_counter() - begin, **cpu_seconds(process.pid)}
            took["broker_cpu_s"] = self.peer.cpu_seconds() - broker_before
            time.sleep(SETTLE_S)
            self.program.stop()
        return took if self.form == QUIX else took | seconds_of_steps(self._events)

    def judge(self) -> dict[str, int]:
        """How the output differs from the expected one; empty if it does not."""
        wanted, seen = expected(self.task, self.orders), Counter(identity(self.task, row) for row in self.output.rows())
        found = {
            "lost": (wanted - seen).total(),
            "twice": sum(count - 1 for row, count in seen.items() if row in wanted),
            "wrong": sum(count for row, count in seen.items() if row not in wanted),
            "torn files": self.output.torn(),
        }
        return {name: count for name, count in found.items() if count}

    def close(self) -> None:
        self.program.kill()
        self.output.close()


@contextmanager
def new_trial(peer: Peer, task: str, form: str) -> Iterator[Trial]:
    """A trial with `peer`, which is started and stopped."""
    peer.start()
    try:
        trial = Trial(peer, task, form, peer.folder / "program")
        try:
            yield trial
        finally:
            trial.close()
    finally:
        peer.stop()


def late(number: int) -> list[dict[str, Any]]:
    """One order for each country, long after `number` others."""
    at = FIRST_AT + timedelta(seconds=number / ORDERS_PER_SECOND) + LAST_DELAY
    return [order(number + place, at) for place in range(len(COUNTRIES))]


def measure(trial: Trial, records: int) -> dict[str, float]:
    """`first_s` until all records are processed, `restart_s`, and `rate`: records per second of the difference. Also
    the first start's CPU seconds, and with Spark the steps of its batches. Raises PeerError for an incomplete output;
    `kill` counts rows that a stop duplicated."""
    trial.feed([order(number) for number in range(records)])
    spent = trial.until_whole()
    first_s = spent.pop("whole_s")
    trial.feed(late(records))
    restart_s = trial.until_whole()["whole_s"]
    wrong = trial.judge()
    if wrong.keys() - {"twice"}:
        raise PeerError(f"{trial.task}, {trial.form}: the output is not what it should be: {wrong}")
    return {"rate": records / max(first_s - restart_s, 0.001), "first_s": first_s, "restart_s": restart_s, **spent}


def kill(trial: Trial, kills: int, seed: int) -> dict[str, int]:
    """The faults in the output of a program that was killed that often while records came."""
    moments, is_fed = random.Random(seed), threading.Event()

    def feed() -> None:
        for first in range(0, KILL_RECORDS, KILL_RATE):
            trial.feed([order(number) for number in range(first, min(first + KILL_RATE, KILL_RECORDS))])
            time.sleep(1)
        trial.feed(late(KILL_RECORDS))
        is_fed.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        for _ in range(kills):
            with trial.program.running():
                time.sleep(moments.uniform(*KILL_AFTER_S))
                trial.program.check()
        with trial.program.running():
            is_fed.wait(PATIENCE_S)
            wanted = expected(trial.task, trial.orders).total()
            size, since = -1, time.perf_counter()
            while time.perf_counter() - since < (QUIET_S if size >= wanted else LACKING_S):
                trial.program.check()
                now = trial.output.size()
                if now != size:
                    size, since = now, time.perf_counter()
                time.sleep(0.2)
            trial.program.stop()
    finally:
        feeder.join(timeout=PATIENCE_S)
    return trial.judge()


def warm_up() -> None:
    """Makes the file that lets pipelines start faster, as docs/use/pipelines.md advises."""
    words = (python_of(PAGE), "-m", "moldau.cli.main", "pipeline", "warm-up")
    subprocess.run(words, env=spec_environment(), stdout=subprocess.DEVNULL, timeout=600, check=True)


def spec_environment() -> dict[str, str]:
    """The Python environment is kept over checkouts, but a pipeline runs with the code of this one. Modules are
    compiled once, as after an installation by pip."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT / "src")}


def python_of(form: str) -> str:
    if form != QUIX:
        return spark_python(CACHE)
    return python_with(CACHE / f"quix-{QUIX_VERSION}", (f"quixstreams[avro]=={QUIX_VERSION}", "pyarrow"))
