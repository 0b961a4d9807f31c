"""Three workers of one group: one joins, one is killed, one is frozen with its tasks and goes on later."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.products.connect.kills import PATIENCE_S, SUBJECTS, WORKER, RunningWorker, World, broker, frozen
from tests.support.kill_subjects import Kafka, Subject

NAMES = ("files-source", "files-sink", "postgresql-sink")
CHUNK = 1_000
PAUSE = threading.Event()
TRIES = 500


class Group:
    """The workers, the connectors, and which tasks run."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.servers = stack.enter_context(broker("moldau", folder))
        kafka = Kafka(self.servers, "kills-offsets")
        stack.callback(kafka.close)
        world = World(stack, kafka, folder)
        self.subjects = [SUBJECTS[name](world, name) for name in NAMES]
        self.config = folder / "worker.properties"
        self.config.write_text(WORKER)
        self.choices = random.Random(7)
        self.workers: list[RunningWorker] = []
        stack.callback(lambda: [one.kill() for one in self.workers])

    def start(self, count: int) -> None:
        new = [RunningWorker(self.servers, self.config) for _ in range(count)]
        self.workers += new
        for one in new:
            one.wait_until_ready()

    def create(self) -> None:
        for one in self.subjects:
            body = {"name": one.name, "config": {**one.config(), "name": one.name}}
            status, found = self.workers[0].rest.settled("POST", "/connectors", body)
            assert status == 201, found

    def feed(self) -> None:
        for one in self.subjects:
            one.feed(CHUNK)

    def wait_until_each_task_runs_once(self, workers: Sequence[RunningWorker]) -> None:
        """Each of these workers has tasks, and the states say so."""
        wanted = {f"{one.name}-{slot}": 1 for one in self.subjects for slot in range(one.tasks)}

        def is_so() -> bool:
            found = [one.tasks() for one in workers]
            return Counter(name for tasks in found for name in tasks) == wanted and all(found)

        wait_for(is_so, lambda: [sorted(one.tasks()) for one in workers])
        for one in self.subjects:
            workers[0].rest.until_states(one.name, *["RUNNING"] * one.tasks)

    def wait_until_complete(self) -> None:
        wait_for(lambda: all(one.has_all() for one in self.subjects), lambda: [one.count() for one in self.subjects])


def wait_for(is_so: Callable[[], bool], found: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, found()
        PAUSE.wait(0.1)


@pytest.fixture
def group() -> Iterator[Group]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-workers-"))
        yield Group(stack, Path(folder))


def freeze_amid(group: Group, source: Subject, stack: ExitStack) -> tuple[RunningWorker, list[psutil.Process]]:
    """A worker and its tasks, which stand still until the stack ends; the source is in the middle of a batch."""
    for _ in range(TRIES):
        group.feed()
        PAUSE.wait(group.choices.uniform(0, 0.1))
        for worker in group.workers:
            tasks = worker.tasks()
            slots = [slot for slot in range(source.tasks) if f"{source.name}-{slot}" in tasks]
            with ExitStack() as held:
                if slots:
                    held.enter_context(frozen(list(tasks.values())))
                if any(source.is_amid(slot) for slot in slots):
                    stack.enter_context(held.pop_all())
                    os.kill(worker.pid, signal.SIGSTOP)
                    return worker, list(tasks.values())
    raise AssertionError("the source was never in the middle of a batch")


@pytest.mark.slow
def test_no_task_runs_twice_and_none_stays_down(group: Group) -> None:
    group.start(2)
    group.create()
    group.wait_until_each_task_runs_once(group.workers)
    group.feed()
    group.start(1)  # it gets its part
    group.wait_until_each_task_runs_once(group.workers)
    victim = group.choices.choice(group.workers)
    group.feed()
    victim.kill()
    group.workers.remove(victim)
    group.start(1)
    group.wait_until_each_task_runs_once(group.workers)
    group.wait_until_complete()
    with ExitStack() as stack:
        frozen_worker, old_tasks = freeze_amid(group, group.subjects[0], stack)
        others = [one for one in group.workers if one is not frozen_worker]
        group.wait_until_each_task_runs_once(others)
        group.feed()
        group.wait_until_complete()
        group.feed()
    # the old tasks run again, without their worker: each is fenced at its next transaction, and ends
    wait_for(lambda: all(one.status() == psutil.STATUS_ZOMBIE for one in old_tasks), lambda: old_tasks)
    group.wait_until_complete()
    os.kill(frozen_worker.pid, signal.SIGCONT)
    group.wait_until_each_task_runs_once(group.workers)
    group.feed()
    group.wait_until_complete()
    assert [one.stop() for one in group.workers] == [0, 0, 0]
    assert [fault for one in group.subjects for fault in one.judge()] == []
    assert "has been fenced by a newer instance" in "".join(frozen_worker.output)
