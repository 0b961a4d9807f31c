"""Runs the tasks of this worker's shares as the configurations say, and keeps their states.

One thread calls `look` again and again. Processes tell their lines in other threads, through a queue.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.contract.bounds import MEMORY
from moldau.errors import MoldauError
from moldau.products.connect.config_topic import Configs
from moldau.products.connect.core.back_off import BackOff
from moldau.products.connect.core.configs import Config, ConfigState, Record, Restart, Target
from moldau.products.connect.core.progress import Looks, TaskProgress, looks_from
from moldau.products.connect.core.shares import share_of_task
from moldau.products.connect.core.statuses import (
    FAILED,
    PAUSED,
    RESTARTING,
    RUNNING,
    STOPPED,
    UNASSIGNED,
    Status,
    task_status_record,
    topic_record,
)
from moldau.products.connect.running.process import Ended, Line, TaskProcess
from moldau.products.connect.running.programs import memory_mb
from moldau.products.connect.running.references import resolved
from moldau.products.connect.status_topic import Statuses

Key = tuple[str, int]
"""A connector and its task."""

WATCH_S = 1.0
"""Between two looks at the memory and the told states of the tasks."""
MOST_TRACE = 32 << 10
"""Characters; of a longer trace the end is kept."""
KILLED_S = 5.0
"""For the end of a killed process."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task that should run here."""

    config: Config
    slots: int
    is_paused: bool


@dataclass(slots=True)
class Held:
    """A task of this worker, with a process or without. `starts_s`: when the next process starts; None: not before
    somebody restarts the task."""

    wanted: Wanted
    back_off: BackOff
    process: TaskProcess | None = None
    state: str = UNASSIGNED
    started_s: float = 0.0
    starts_s: float | None = 0.0
    stopping_s: float | None = None
    has_failed: bool = False
    is_finished: bool = False
    told: Status | None = None
    topics: set[str] = field(default_factory=set)
    looks: Looks = field(default_factory=lambda: looks_from(0.0))


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """`worker`: the part of the first line of a task that is the same for all. `graceful_s`: for the end of a task that
    was asked to stop; then it is killed. `starts`: see BackOff."""

    program: Callable[[Config], Sequence[str]]
    worker: Callable[[], Mapping[str, Any]]
    graceful_s: Callable[[Config], float]
    nice: int
    starts: int


class Supervision:
    """Its methods are called in one thread, but for `restart_task`. `progress`: of the tasks that have started here,
    replaced as a whole after each look."""

    def __init__(
        self,
        configs: Configs,
        statuses: Statuses,
        settings: TaskSettings,
        worker_id: str,
        version_of: Callable[[Config], str | None],
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._settings = settings
        self._worker_id = worker_id
        self._version_of = version_of
        self._held: dict[Key, Held] = {}
        self._restarts = configs.look(lambda state: {name: one.number for name, one in state.restarts.items()})
        """The newest request for each connector that was carried out, or came before the start."""
        self._asked: queue.SimpleQueue[Key] = queue.SimpleQueue()
        self._lines: queue.SimpleQueue[tuple[Key, TaskProcess, Line | Ended]] = queue.SimpleQueue()
        self._watched_s = 0.0
        self._generation = 0
        self.progress: Mapping[Key, TaskProgress] = {}

    def restart_task(self, name: str, task: int) -> None:
        """Thread-safe."""
        self._asked.put((name, task))

    def look(self, owned: frozenset[int], shares: int, generation: int) -> None:
        """Carries out what has changed: configurations, states, shares, and what the processes have told."""
        self._generation = generation
        self._read_lines()
        wanted, restarts = self._configs.look(lambda state: (_wanted(state, owned, shares), dict(state.restarts)))
        self._restart(restarts)
        for key in [key for key in self._held if key not in wanted]:
            self._let_go(key)
        for key, one in wanted.items():
            self._want(key, one)
        self._watch()

    def release(self, is_given_up: Callable[[str, int], bool]) -> None:
        """Stops the tasks of which this is said, and returns when their processes have ended."""
        keys = [key for key in self._held if is_given_up(*key)]
        for key in keys:
            self._ask_to_stop(self._held[key])
        asked_s = time.monotonic()
        for key in sorted(keys, key=lambda key: self._graceful_s(self._held[key])):
            held = self._held[key]
            self._end(held, max(0.0, asked_s + self._graceful_s(held) - time.monotonic()))
        self._read_lines()
        records: list[Record] = []
        for key in keys:
            held = self._held.pop(key)
            if held.state != FAILED:
                records.append(task_status_record(*key, self._status(UNASSIGNED)))
        self._statuses.put(records)

    # -- tasks

    def _want(self, key: Key, wanted: Wanted) -> None:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = Held(wanted, BackOff(self._settings.starts))
        if held.process is None:
            if wanted.config != held.wanted.config:
                held.starts_s, held.back_off = 0.0, BackOff(self._settings.starts)
            held.wanted = wanted
            if held.starts_s is not None and time.monotonic() >= held.starts_s:
                self._start(key, held)
            return
        if held.stopping_s is not None and held.starts_s is None:
            held.starts_s = 0.0  # it was let go, and is wanted again before its process has ended
        if wanted.config != held.wanted.config or wanted.slots != held.wanted.slots:
            held.wanted = wanted
            held.starts_s = 0.0
            self._ask_to_stop(held)
        elif wanted.is_paused != held.wanted.is_paused:
            held.wanted = wanted
            held.process.send({"do": "pause" if wanted.is_paused else "resume"})
        self._hasten(held)

    def _start(self, key: Key, held: Held) -> None:
        name, slot = key
        held.has_failed = held.is_finished = False
        held.started_s, held.stopping_s, held.starts_s = time.monotonic(), None, None
        held.looks = looks_from(held.started_s)
        try:
            first = {
                "connector": name,
                "slot": slot,
                "slots": held.wanted.slots,
                "state": PAUSED if held.wanted.is_paused else RUNNING,
                "config": resolved(held.wanted.config),
                "worker": self._settings.worker(),
            }
            program = self._settings.program(held.wanted.config)
            tell = _teller(self._lines, key)
            held.process = TaskProcess(program, f"{name}-{slot}", first, self._settings.nice, tell)
        except (MoldauError, OSError) as error:
            self._failed(key, held, str(error))

    def _ask_to_stop(self, held: Held) -> None:
        if held.process is not None and held.stopping_s is None:
            held.stopping_s = time.monotonic()
            held.process.stop()

    def _hasten(self, held: Held) -> None:
        """Kills a process that was asked to stop and does not."""
        late = held.stopping_s is not None and time.monotonic() - held.stopping_s > self._graceful_s(held)
        if late and held.process is not None:
            held.process.kill()

    def _graceful_s(self, held: Held) -> float:
        return self._settings.graceful_s(held.wanted.config)

    def _end(self, held: Held, within_s: float) -> None:
        if held.process is not None and not held.process.has_ended(within_s):
            held.process.kill()
            held.process.has_ended(KILLED_S)

    def _let_go(self, key: Key) -> None:
        """Stops a task that should not run; its state is gone when its process has ended."""
        held = self._held[key]
        if held.process is None:
            del self._held[key]
            self._statuses.put([task_status_record(*key, None)])
            return
        held.starts_s = None
        self._ask_to_stop(held)
        self._hasten(held)

    def _restart(self, restarts: Mapping[str, Restart]) -> None:
        while True:
            try:
                key = self._asked.get_nowait()
            except queue.Empty:
                break
            self._restart_task(key)
        for name, one in restarts.items():
            if self._restarts.get(name, 0) >= one.number:
                continue
            self._restarts[name] = one.number
            for key in [key for key in self._held if key[0] == name] if one.include_tasks else []:
                if not one.only_failed or self._held[key].state == FAILED:
                    self._restart_task(key)

    def _restart_task(self, key: Key) -> None:
        held = self._held.get(key)
        if held is None:
            return
        held.back_off = BackOff(self._settings.starts)
        held.starts_s = 0.0
        held.is_finished = False
        self._tell(key, held, RESTARTING)
        self._ask_to_stop(held)

    # -- what processes tell

    def _read_lines(self) -> None:
        while True:
            try:
                key, process, line = self._lines.get_nowait()
            except queue.Empty:
                return
            held = self._held.get(key)
            if held is None or held.process is not process:
                continue
            if isinstance(line, Ended):
                self._ended(key, held, line)
            elif "progress" in line and isinstance(line["progress"], dict):
                self._progressed(key, held, line["progress"])
            elif line.get("state") == FAILED:
                held.has_failed = True
                self._tell(key, held, FAILED, str(line.get("trace", "")))
            elif line.get("state") in (RUNNING, PAUSED) and held.stopping_s is None:
                held.has_failed = False  # a pipeline goes on after a failure that is over
                self._tell(key, held, str(line["state"]))
            elif line.get("state") == STOPPED:
                held.is_finished = line.get("finished") is True
                if held.is_finished:
                    self._tell(key, held, STOPPED)

    def _ended(self, key: Key, held: Held, end: Ended) -> None:
        held.process = None
        if held.stopping_s is not None:
            return
        if held.is_finished:
            held.starts_s = None  # a source that has read everything
            return
        if not held.has_failed:
            how = f"signal {-end.code}" if end.code < 0 else f"exit code {end.code}"
            self._tell(key, held, FAILED, f"the process of the task has ended ({how})\n{end.said}")
        self._start_later(held)

    def _failed(self, key: Key, held: Held, sentence: str) -> None:
        self._tell(key, held, FAILED, sentence)
        self._start_later(held)

    def _start_later(self, held: Held) -> None:
        held.back_off, wait_s = held.back_off.after_failure(time.monotonic() - held.started_s)
        held.starts_s = None if wait_s is None else time.monotonic() + wait_s

    def _progressed(self, key: Key, held: Held, progress: Line) -> None:
        held.looks = held.looks.after(progress, time.monotonic())
        new = set(progress.get("topics", ())) - held.topics
        if new:
            held.topics |= new
            now_ms = time.time_ns() // 1_000_000
            self._statuses.put([topic_record(key[0], topic, (key[1], now_ms)) for topic in sorted(new)])

    def _watch(self) -> None:
        """Shows the progress of the tasks. Kills those that have more memory than their configuration allows. Tells
        states again that another worker has told: one that was frozen and did not know that the tasks run here."""
        if time.monotonic() - self._watched_s < WATCH_S:
            return
        self._watched_s = time.monotonic()
        found = self._statuses.look(lambda state: {key: state.tasks.get(key) for key in self._held})
        for key, status in found.items():
            told = self._held[key].told
            if told is not None and (status is None or status.worker_id != self._worker_id):
                self._statuses.put([task_status_record(*key, told)])
        progress: dict[Key, TaskProgress] = {}
        for key, held in self._held.items():
            most_mb = memory_mb(held.wanted.config)
            size = None if held.process is None else held.process.memory_bytes()
            if held.started_s:
                progress[key] = held.looks.shown(self._watched_s, size)
            if held.process is not None and size is not None and size > most_mb << 20 and not held.has_failed:
                held.has_failed = True
                held.process.kill()
                self._tell(key, held, FAILED, f"the task has {size >> 20} MiB of memory, and {MEMORY} is {most_mb}")
        self.progress = progress

    # -- states

    def _tell(self, key: Key, held: Held, state: str, trace: str | None = None) -> None:
        held.state = state
        version = self._version_of(held.wanted.config)
        held.told = self._status(state, None if trace is None else trace[-MOST_TRACE:], version)
        self._statuses.put([task_status_record(*key, held.told)])

    def _status(self, state: str, trace: str | None = None, version: str | None = None) -> Status:
        return Status(state, trace, self._worker_id, self._generation, version)


def _wanted(state: ConfigState, owned: frozenset[int], shares: int) -> dict[Key, Wanted]:
    """The tasks of the owned shares."""
    found: dict[Key, Wanted] = {}
    for name in state.connectors:
        target, tasks = state.target(name), state.tasks.get(name, ())
        if target is not Target.STOPPED:
            found |= {
                (name, task): Wanted(config, len(tasks), target is Target.PAUSED)
                for task, config in enumerate(tasks)
                if share_of_task(name, task, shares) in owned
            }
    return found


def _teller(
    lines: queue.SimpleQueue[tuple[Key, TaskProcess, Line | Ended]], key: Key
) -> Callable[[TaskProcess, Line | Ended], None]:
    return lambda process, line: lines.put((key, process, line))
