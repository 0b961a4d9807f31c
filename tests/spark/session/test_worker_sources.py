"""One process answers for the streaming sources of a session: who shares it, and what happens when it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.serializers import read_int
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from moldau.errors import MoldauError
from moldau.spark.session.worker_start import ADDRESS_VARIABLE, LOG_VARIABLE, launch_script, worker_host

SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"
PATIENCE_S = 60


@pytest.fixture
def host():
    made = worker_host.__wrapped__("1")
    yield made
    made.process.stdin.close()
    made.process.wait(timeout=PATIENCE_S)


class Spark:
    """The side of the JVM: launches a source, and accepts its connection."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.open: list[socket.socket] = []
        (folder / "python").write_text(launch_script())
        (folder / "python").chmod(0o700)

    def source(self, **environment: str) -> int:
        """The process that answers for a new source; the launched program has ended if another one does."""
        path = self.folder / f"{len(self.open)}.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(PATIENCE_S)
            variables = {ADDRESS_VARIABLE: self.address, "PYTHON_WORKER_FACTORY_SOCK_PATH": str(path), **environment}
            program = subprocess.Popen(
                [self.folder / "python", "-m", SOURCE],
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            connected = listener.accept()[0]
        connected.settimeout(PATIENCE_S)
        self.open.append(connected)
        with connected.makefile("rb") as stream:
            pid = read_int(stream)
        if psutil.Process(pid).ppid() != os.getpid() and "PYSPARK_PLANNER_MEMORY_MB" not in environment:
            assert program.wait(PATIENCE_S) == 0
        return pid

    def close(self) -> None:
        for connected in self.open:
            connected.close()


@pytest.fixture
def jvm(host, tmp_path: Path) -> Iterator[Spark]:
    made = Spark(tmp_path, host.address)
    yield made
    made.close()


def test_one_fork_answers_for_all_sources_and_their_programs_end(host, jvm: Spark):
    answering = {jvm.source() for _ in range(5)}
    assert [child.pid for child in psutil.Process(host.process.pid).children()] == [*answering]


def test_a_source_with_a_memory_limit_has_its_own_process(jvm: Spark):
    assert jvm.source() != jvm.source(PYSPARK_PLANNER_MEMORY_MB="10000")


def test_a_later_session_has_another_process(jvm: Spark):
    first, second = jvm.source(COLOUR="blue"), jvm.source(COLOUR="red")
    assert first != second == jvm.source(COLOUR="red")
    process = psutil.Process(first)
    jvm.open[0].close()
    process.wait(PATIENCE_S)


def test_after_its_death_the_next_source_gets_another_process(jvm: Spark):
    first = jvm.source()
    os.kill(first, signal.SIGKILL)
    assert jvm.open[0].recv(1) == b"", "Spark sees the end"
    assert jvm.source() != first


def test_sources_outlive_the_host_and_then_their_process_ends(host, jvm: Spark):
    process = psutil.Process(jvm.source())
    host.process.kill()
    host.process.wait(PATIENCE_S)
    assert jvm.source() != process.pid, "the program becomes Python"
    assert process.is_running()
    jvm.open[0].close()
    process.wait(PATIENCE_S)


def test_their_process_ends_with_the_driver_even_if_a_source_does_not(host, jvm: Spark):
    process = psutil.Process(jvm.source())
    host.process.stdin.close()
    process.wait(PATIENCE_S)


def test_the_output_of_sources_goes_to_the_log(jvm: Spark, tmp_path: Path):
    log = tmp_path / "spark.log"
    pid = jvm.source(**{LOG_VARIABLE: str(log)})
    assert Path(f"/proc/{pid}/fd/2").resolve() == log.resolve()


# -- with Spark


class Trouble(MoldauError):
    """Of a source, in words."""


class Named(DataSource):
    """The process that plans, in each batch, until the file `fail` names an error. A FIFO there never answers."""

    @classmethod
    def name(cls) -> str:
        return "named"

    def schema(self) -> str:
        return "pid int"

    def streamReader(self, schema):  # noqa: N802 - Spark's name
        return NamedReader(Path(self.options["fail"]))


class NamedReader(DataSourceStreamReader):
    def __init__(self, fail: Path) -> None:
        self.fail = fail
        self.count = 0

    def initialOffset(self):  # noqa: N802
        return {"at": 0}

    def latestOffset(self):  # noqa: N802
        if self.fail.exists():
            raise (Trouble if self.fail.read_text() == "words" else ValueError)("it went wrong")
        self.count += 1
        return {"at": self.count}

    def partitions(self, start, end):
        return [InputPartition(os.getpid())]

    def read(self, partition):
        yield (partition.value,)


@pytest.fixture
def start(spark, tmp_path: Path):
    """`start(name)` starts a query whose source fails once the file of that name is there."""
    spark.dataSource.register(Named)
    queries = []

    def started(name: str):
        stream = spark.readStream.format("named").option("fail", str(tmp_path / name)).load()
        writer = stream.writeStream.format("memory").queryName(f"{name}{len(queries)}")
        query = writer.option("checkpointLocation", str(tmp_path / f"{name}{len(queries)}")).start()
        queries.append(query)
        return query

    yield started
    for query in queries:
        query.stop()


def answering(spark, query) -> int:
    """The process that plans the batches of the query."""
    while not (rows := spark.table(query.name).take(1)):
        assert query.isActive, query.exception()
        query.awaitTermination(0.1)
    return rows[0].pid


def has_batch_after(query, batch_id: int) -> None:
    while query.lastProgress["batchId"] <= batch_id:
        assert query.isActive, query.exception()
        query.awaitTermination(0.1)


def failed(query) -> str:
    """The reason for which it ended."""
    try:
        query.awaitTermination(PATIENCE_S)
    except StreamingQueryException as error:
        return str(error)
    pytest.fail(f"{query.name} still runs")


def test_a_source_that_raises_ends_its_own_query_alone(spark, start, tmp_path: Path):
    told, broken, other = start("told"), start("broken"), start("other")
    assert len({answering(spark, query) for query in (told, broken, other)}) == 1
    (tmp_path / "told").write_text("words")
    assert "it went wrong" in (said := failed(told))
    assert "Traceback" not in said
    (tmp_path / "broken").write_text("")
    assert "Traceback" in failed(broken), "one error without its traceback hides no other"
    has_batch_after(other, other.lastProgress["batchId"])


def test_a_source_that_hangs_holds_up_its_own_query_alone(spark, start, tmp_path: Path):
    hung, other = start("hung"), start("other")
    assert answering(spark, hung) == answering(spark, other)
    os.mkfifo(tmp_path / "hung")
    while (end := opened_to_write(tmp_path / "hung")) is None:
        other.awaitTermination(0.1)
    try:
        has_batch_after(other, other.lastProgress["batchId"])
        hung.stop()
        assert answering(spark, start("again")) == answering(spark, other)
    finally:
        os.close(end)


def opened_to_write(fifo: Path) -> int | None:
    """None while nobody reads it."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def test_killing_their_process_fails_every_query_and_they_start_again(spark, start):
    queries = [start("one"), start("two")]
    pid = answering(spark, queries[0])
    os.kill(pid, signal.SIGKILL)
    for query in queries:
        failed(query)
    again = [start("one"), start("two")]
    assert len({answering(spark, query) for query in again} - {pid}) == 1
