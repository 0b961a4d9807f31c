"""A standalone Spark cluster on this machine, started from the installed pyspark: one master, workers of one core."""

from __future__ import annotations

import os
import queue
import re
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyspark

from moldau.spark import QUICK_START
from moldau.spark.session.java import find_java, java_home
from tests.support.talking_process import TalkingProcess

PATIENCE_S = 120.0
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
EXECUTOR = b"CoarseGrainedExecutorBackend"
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")


class SparkCluster:
    """`url` is what `spark.master` must be. An executor is a worker's process, and lives as long as its driver.

    `environments`: additions to this process's environment for each worker, and so for its executors.
    """

    def __init__(self, folder: Path, environments: Sequence[Mapping[str, str]] = ({}, {})) -> None:
        self.folder = folder
        self.workers: list[TalkingProcess] = []
        self.master = start_spark({}, MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        try:
            self.url = self._master_url()
            self.start_workers(environments)
        except BaseException:
            self.stop()
            raise

    def _master_url(self) -> str:
        wait_for_words(self.master, "Starting Spark master at")
        (found,) = filter(None, map(MASTER_URL.search, self.master.output))
        return found[1]

    def start_workers(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Returns when the master knows them. Call it only while the cluster has no workers."""
        for number, environment in enumerate(environments):
            place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"worker-{number}")]
            self.workers.append(start_spark(environment, WORKER, *place, *size, self.url))
        for worker in self.workers:
            wait_for_words(worker, "Successfully registered with master")

    def executors(self) -> list[int]:
        """The process ids of the executors, by worker."""
        return [child for child in children_of(worker.pid for worker in self.workers) if EXECUTOR in _command(child)]

    def stop_workers(self) -> None:
        """Ends executors and workers."""
        for executor in self.executors():
            kill(executor)
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.kill()

    def stop(self) -> None:
        """Ends executors, workers and master."""
        self.stop_workers()
        self.master.kill()


def kill(process_id: int) -> None:
    try:
        os.kill(process_id, signal.SIGKILL)
    except ProcessLookupError:
        return  # it was about to end


def start_spark(environment: Mapping[str, str], role: str, *arguments: str) -> TalkingProcess:
    """A process of the installed pyspark; `role`: its main class."""
    home = Path(pyspark.__file__).parent
    own = {"JAVA_HOME": str(java_home(find_java())), "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    own["SPARK_DAEMON_JAVA_OPTS"] = QUICK_START["spark.driver.defaultJavaOptions"]
    # the script becomes the Java process: the id stays
    return TalkingProcess([str(home / "bin" / "spark-class"), role, *arguments], {**own, **environment})


def wait_for_words(process: TalkingProcess, words: str) -> None:
    """Returns when the process has printed them."""
    try:
        came = process.wait_for(lambda line: words in line, time.monotonic() + PATIENCE_S)
    except queue.Empty:
        came = False
    assert came, f"no {words!r}: {process.output[-20:]}"


def children_of(process_ids: Iterable[int]) -> list[int]:
    """The child processes of these."""
    parents, found = set(process_ids), []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[1]) in parents:
            found.append(int(path.parent.name))
    return found


def _command(process_id: int) -> bytes:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return b""
