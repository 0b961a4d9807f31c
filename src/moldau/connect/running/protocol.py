"""The lines between a worker and its task: see `moldau.connect.running`."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Any, Final

from moldau.errors import MoldauError

PROGRESS_EVERY_S: Final = 1.0
MAX_TRACE: Final = 32 << 10
"""Characters of a trace; of a longer one the end is kept."""


class ProtocolError(MoldauError):
    """A line that is no task and no command."""


class State(StrEnum):
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Command(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Task:
    """The first line."""

    connector: str
    slot: int
    slots: int
    config: Mapping[str, str]
    bootstrap_servers: str
    group_id: str
    offsets_topic: str
    state: State = State.RUNNING
    client: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    access: Mapping[str, str] | None = None
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def transactional_id(self) -> str:
        return f"{self.group_id}-{self.connector}-{self.slot}"

    @classmethod
    def from_line(cls, line: str) -> Task:
        """Raises ProtocolError."""
        try:
            given = json.loads(line)
            worker = given["worker"]
            texts = {name: value for name, value in worker.items() if isinstance(value, str)}
            return cls(
                connector=str(given["connector"]),
                slot=int(given.get("slot", 0)),
                slots=int(given.get("slots", 1)),
                config={str(name): str(value) for name, value in given["config"].items() if value is not None},
                bootstrap_servers=worker["bootstrap.servers"],
                group_id=worker["group.id"],
                offsets_topic=given["config"].get("offsets.storage.topic") or worker["offset.storage.topic"],
                state=State(given.get("state", State.RUNNING)),
                client=worker.get("client", {}),
                defaults={name: value for name, value in texts.items() if ".converter" in name},
                access=worker.get("access"),
                spark=worker.get("spark", {}),
            )
        except (json.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
            raise ProtocolError(f"the first line of stdin is not a task: {error}") from error
        except KeyError as error:
            raise ProtocolError(f"the task in the first line of stdin lacks {error}") from error


class Commands:
    """Commands of stdin, read by a thread. The end of stdin is STOP."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._queue: queue.SimpleQueue[Command | ProtocolError] = queue.SimpleQueue()
        self.is_stopping = threading.Event()
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def next(self, timeout_s: float) -> Command | None:
        """Waits for a command. None: no command came. Raises ProtocolError for a line that is no command."""
        try:
            found = self._queue.get(timeout=timeout_s) if timeout_s > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, ProtocolError):
            raise found
        return found

    def _read(self) -> None:
        for line in self._stream:
            if not line.strip():
                continue
            try:
                command = Command(json.loads(line)["do"])
            except (ValueError, KeyError, TypeError):
                self._queue.put(ProtocolError(f"not a command: {line.strip()[:200]}"))
                continue
            if command is Command.STOP:
                break
            self._queue.put(command)
        self.is_stopping.set()
        self._queue.put(Command.STOP)


@dataclass(slots=True)
class Progress:
    """Totals since the start of the process."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    topics: set[str] = field(default_factory=set)
    offset: object = None
    lag: int | None = None
    is_idle: bool = False

    def count(self, records: int, size: int, topics: Iterable[str], offset: object) -> None:
        """Adds a batch that is committed. `size`: bytes of keys and values. `offset`: the place after it."""
        self.records += records
        self.bytes += size
        self.batches += 1
        self.topics |= set(topics)
        self.offset = offset

    def begin(self, offset: object) -> None:
        self.offset = offset

    def look(self, lag: int | None) -> None:
        self.lag = lag

    def rest(self, is_idle: bool) -> None:
        self.is_idle = is_idle

    def as_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "records": self.records,
            "bytes": self.bytes,
            "batches": self.batches,
            "topics": sorted(self.topics),
        }
        found |= {"offset": self.offset, "idle": self.is_idle}
        return found | ({} if self.lag is None else {"lag": self.lag})


class Reporter:
    """Writes states and progress."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._last: dict[str, object] | None = None
        self._last_s = -PROGRESS_EVERY_S
        self.state: State | None = None

    def report_state(self, state: State, **more: object) -> None:
        """Writes a state that is new."""
        if state is not self.state:
            self.state = state
            self._write({"state": state, **more})

    def report_failure(self, trace: str) -> None:
        self.report_state(State.FAILED, trace=trace[-MAX_TRACE:])

    def report_progress(self, progress: Progress, *, is_last: bool = False) -> None:
        """Writes what has changed, at most once in PROGRESS_EVERY_S unless `is_last`."""
        now_s = time.monotonic()
        if not is_last and now_s - self._last_s < PROGRESS_EVERY_S:
            return
        found = progress.as_json()
        if found != self._last:
            self._last, self._last_s = found, now_s
            self._write({"progress": found})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._stream.flush()
