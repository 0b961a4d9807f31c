"""Tests of connectors: the light task of a connector, with a cluster in the process of the test.

    with Cluster() as cluster, ConnectorTask(cluster, {"connector.class": "mine:Lines", "topic": "lines"}) as task:
        task.wait_until_idle()
    records = list(cluster.records("lines"))

`read_all` and `write_all` do so in one call. Needs the extra `connectors` (or pyspark), as the light task does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

from moldau.errors import MoldauError, TopicAlreadyExistsError
from moldau.testing.waiting import NotReachedError

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster
    from moldau.testing.inside import Record

DEFAULT_WAIT_S: Final = 30.0
LIGHT: Final = "moldau.connect.running"
PROGRAMS: Final = {"spark": "moldau.products.connect.on_spark"}
"""By `runner`."""
OFFSETS_TOPIC: Final = "connect-offsets"
GROUP_ID: Final = "connect"
KEPT_LINES: Final = 1_000
"""Lines of a task's log."""


class ConnectorError(MoldauError):
    """The task failed. The message has its trace."""


class ConnectorTask:
    """One task of a connector in a process of its own. Use it as a context manager, or call `start` and `stop`.

    `config`: as for Kafka Connect; `name` may be left out. `runner` = `spark` needs the extra `spark`. `path`: folders
    with modules of your own, in front of PYTHONPATH; the current folder is one. `slot` of `slots` tasks: the
    configuration is that of the slot. `defaults`: converters of the worker. `python`: of an environment with the
    connector's packages. The topic of offsets is made if it does not exist.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: Mapping[str, str],
        *,
        slot: int = 0,
        slots: int = 1,
        path: Sequence[str | os.PathLike[str]] = (),
        defaults: Mapping[str, str] | None = None,
        is_paused: bool = False,
        python: str = sys.executable,
    ) -> None:
        self._cluster = cluster
        self.config = {"name": "connector", **config}
        self.slot, self.slots = slot, slots
        self._python = python
        self._state = "PAUSED" if is_paused else "RUNNING"
        self._defaults = dict(defaults or {})
        folders = [os.fspath(one) for one in path] + [os.getcwd(), os.environ.get("PYTHONPATH", "")]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in folders if one)}
        self._changed = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self.state: str | None = None
        """The last state that the task has reported."""
        self.progress: dict[str, Any] = {}
        self.trace: str | None = None
        self.is_finished = False
        self.log: deque[str] = deque(maxlen=KEPT_LINES)

    def start(self) -> ConnectorTask:
        """Starts the process. Does not wait for a state."""
        self._make_offsets_topic()
        self._process = subprocess.Popen(
            [self._python, "-m", PROGRAMS.get(self.config.get("runner", ""), LIGHT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        self._threads = [
            threading.Thread(target=self._read_reports, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True),
        ]
        for one in self._threads:
            one.start()
        self._tell(self._task())
        return self

    @property
    def pid(self) -> int | None:
        """Of the process; None before `start`."""
        return None if self._process is None else self._process.pid

    def pause(self) -> None:
        """Returns once the task is paused. Raises ConnectorError, NotReachedError."""
        self._tell({"do": "pause"})
        self.wait_for(lambda: self.state == "PAUSED")

    def resume(self) -> None:
        """Returns once the task runs. Raises ConnectorError, NotReachedError."""
        self._tell({"do": "resume"})
        self.wait_for(lambda: self.state == "RUNNING")

    def stop(self, timeout: float = DEFAULT_WAIT_S) -> int | None:
        """Ends the task cleanly, or kills it after `timeout` seconds. Returns the exit code; None before `start`."""
        if self._process is None:
            return None
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for one in self._threads:
            one.join(timeout)
        return code

    def kill(self) -> None:
        """As kill -9."""
        self._signal(signal.SIGKILL)
        self.stop()

    def freeze(self) -> None:
        """Suspends the process, as SIGSTOP does, until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continues a frozen process."""
        self._signal(signal.SIGCONT)

    def wait_for(self, reached: Callable[[], object], timeout: float = DEFAULT_WAIT_S) -> None:
        """Waits for a condition of `state`, `progress` and `trace`. Raises ConnectorError once the task has failed
        without reaching it, and NotReachedError."""
        end_s = time.monotonic() + timeout
        with self._changed:
            while not reached():
                if self.state == "FAILED":
                    raise ConnectorError(f"the task failed: {self.trace}")
                if not self._changed.wait(end_s - time.monotonic()) and not reached():
                    log = "\n".join(self.log)
                    raise NotReachedError(f"after {timeout} s: {self.state}, {self.progress}, with the log\n{log}")

    def wait_until_idle(self, timeout: float = DEFAULT_WAIT_S) -> None:
        """Waits until the task has nothing to do: a source that has read all, a sink that has written all."""
        self.wait_for(lambda: self.is_finished or self.progress.get("idle"), timeout)

    def wait_for_failure(self, timeout: float = DEFAULT_WAIT_S) -> str:
        """The trace. Raises NotReachedError."""
        self.wait_for(lambda: self.state == "FAILED", timeout)
        return self.trace or ""

    def __enter__(self) -> ConnectorTask:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _make_offsets_topic(self) -> None:
        try:
            self._cluster.create_topic(OFFSETS_TOPIC, config={"cleanup.policy": "compact"})
        except TopicAlreadyExistsError:
            pass

    def _task(self) -> dict[str, object]:
        client = {name: str(value) for name, value in self._cluster.client_settings().items()}
        worker = {
            "bootstrap.servers": self._cluster.bootstrap_servers,
            "group.id": GROUP_ID,
            "offset.storage.topic": OFFSETS_TOPIC,
            "client": client,
            "access": self._access(),
            **self._defaults,
        }
        return {
            "connector": self.config["name"],
            "slot": self.slot,
            "slots": self.slots,
            "state": self._state,
            "config": self.config,
            "worker": worker,
        }

    def _access(self) -> Mapping[str, str] | None:
        """For tasks on Spark, which get no secret that is only in memory."""
        from moldau.client.protocol.access import AccessError

        try:
            return self._cluster.access().properties()
        except AccessError:
            return None

    def _tell(self, line: Mapping[str, object]) -> None:
        if self._process is None or self._process.stdin is None:
            raise MoldauError("the task does not run: use it as a context manager, or call start()")
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _read_reports(self, stream: IO[str]) -> None:
        for line in stream:
            report = json.loads(line)
            with self._changed:
                self.progress = report.get("progress", self.progress)
                self.state = report.get("state", self.state)
                self.trace = report.get("trace", self.trace)
                self.is_finished = report.get("finished", self.is_finished)
                self._changed.notify_all()

    def _read_log(self, stream: IO[str]) -> None:
        for line in stream:
            self.log.append(line.rstrip("\n"))


def read_all(
    cluster: Cluster, config: Mapping[str, str], *topics: str, path: Sequence[str | os.PathLike[str]] = ()
) -> list[Record]:
    """Runs a source until it is idle, and returns the records of the topics. Raises ConnectorError, NotReachedError."""
    with ConnectorTask(cluster, config, path=path) as task:
        task.wait_until_idle()
    return [record for topic in topics for record in cluster.records(topic)]


def write_all(
    cluster: Cluster,
    config: Mapping[str, str],
    values: Iterable[bytes | str | None],
    *,
    topic: str,
    path: Sequence[str | os.PathLike[str]] = (),
) -> None:
    """Writes the values to the topic, and runs a sink until it has written them all. Raises ConnectorError,
    NotReachedError."""
    cluster.produce(topic, *values)
    with ConnectorTask(cluster, {"topics": topic, **config}, path=path) as task:
        task.wait_until_idle()
