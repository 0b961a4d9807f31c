"""A process dies inside its own call of the disk where planned, and writes nothing afterwards."""

from __future__ import annotations

import asyncio
import re
from random import Random

import pytest

from moldau.shell.io.simulated.clock import DEFAULT_NOW_MS
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.loop import ProcessKilledError, SimulatedProcess, VirtualLoop
from moldau.simulation.ports import CrashPlan, ProcessDisk, SimulatedClock
from moldau.simulation.trace import Trace
from moldau.simulation.workers import SimulatedWorkers, WorkerWeather


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_the_clocks_follow_the_loop_and_an_operator_sets_one_of_them(loop):
    clock = SimulatedClock(loop)
    loop.run_until_complete(asyncio.sleep(5))
    clock.set_off(-1_000)
    assert clock.monotonic_ms() == 5_000
    assert clock.now_ms() == DEFAULT_NOW_MS + 4_000


@pytest.mark.parametrize("seed", range(20))
def test_a_planned_crash_leaves_whole_pages_of_the_write_it_falls_into(loop, seed):
    machine_disk = MemoryDisk()
    process = SimulatedProcess("broker")
    disk = ProcessDisk(machine_disk, process, Trace(loop.time))
    file = disk.open("log")
    file.append(b"a" * 100)
    disk.plan = CrashPlan(1, "process", Random(seed), lambda kind: loop.kill(process))
    with pytest.raises(ProcessKilledError):
        file.append(b"b" * 10_000)
    assert machine_disk.open("log").size() in (100, 100 + 4_096, 100 + 8_192, 100 + 10_000)
    with pytest.raises(ProcessKilledError):
        file.append(b"c")
    with pytest.raises(ProcessKilledError):
        disk.replace_file("other", b"")
    assert not machine_disk.exists("other")


def test_a_planned_crash_may_wait_for_a_change_and_count_from_there(loop):
    process, died = SimulatedProcess("broker"), []
    disk = ProcessDisk(MemoryDisk(), process, Trace(loop.time))
    file = disk.open("log")
    disk.plan = CrashPlan(2, "process", Random(1), died.append, re.compile(r"rename log .*"))
    file.append(b"a")
    file.append(b"b")
    disk.rename("log", "log.deleted")
    assert not died
    with pytest.raises(ProcessKilledError):
        file.append(b"c")
    assert died == ["process"]


def test_work_is_done_between_the_call_and_the_answer(loop):
    weather = WorkerWeather()
    workers = SimulatedWorkers(loop, SimulatedProcess("broker"), Random(1), weather)
    done_at = []

    async def run():
        result = await workers.run(lambda: done_at.append(loop.time()) or "done")
        return result, loop.time()

    result, answered_at = loop.run_until_complete(run())
    assert result == "done"
    assert 0 < done_at[0] < answered_at < 2 * weather.delay_max


def test_work_that_was_begun_is_done_although_nobody_waits_and_not_after_a_crash(loop):
    process = SimulatedProcess("broker")
    workers = SimulatedWorkers(loop, process, Random(1), WorkerWeather())
    done = []

    async def run():
        abandoned = loop.run_in_process(process, workers.run(lambda: done.append("abandoned")))
        await asyncio.sleep(0)
        abandoned.cancel()
        await asyncio.sleep(1)
        loop.run_in_process(process, workers.run(lambda: done.append("killed")))
        await asyncio.sleep(0)
        loop.kill(process)
        await asyncio.sleep(1)

    loop.run_until_complete(run())
    assert done == ["abandoned"]


def interrupted(loop, process, seed=1):
    """Workers whose work stops at each disk call, and their disk."""
    weather = WorkerWeather()
    weather.interrupted_share = weather.stop_share = 1.0
    workers = SimulatedWorkers(loop, process, Random(seed), weather)
    disk = ProcessDisk(MemoryDisk(), process, Trace(loop.time))
    disk.before_call = workers.rest
    return workers, disk


@pytest.mark.parametrize("seed", range(5))
def test_other_events_happen_between_two_calls_that_work_makes_of_the_disk(loop, seed):
    workers, disk = interrupted(loop, SimulatedProcess("broker"), seed)
    seen = []

    def work(name):
        file = disk.open(name)
        for number in range(5):
            seen.append((name, number))
            file.append(b"x")

    async def run():
        await asyncio.gather(workers.run(lambda: work("a")), workers.run(lambda: work("b")))
        return loop.time()

    took_s = loop.run_until_complete(run())
    assert sorted(seen) == [(name, number) for name in "ab" for number in range(5)]
    assert seen not in (sorted(seen), sorted(seen, key=lambda step: (step[0] == "a", step)))
    assert took_s > 0.02


def test_two_writers_of_one_file_meet_in_its_temporary_name(loop):
    workers, disk = interrupted(loop, SimulatedProcess("broker"), 1)

    async def run():
        writers = (workers.run(lambda: disk.replace_file("checkpoint", b"x")) for _ in range(20))
        return await asyncio.gather(*writers, return_exceptions=True)

    assert FileNotFoundError in map(type, loop.run_until_complete(run()))


def test_a_killed_process_does_nothing_more_in_the_middle_of_its_work(loop):
    process = SimulatedProcess("broker")
    workers, disk = interrupted(loop, process)
    steps, ended = [], []

    def work():
        try:
            for number in range(1_000):
                disk.open("file").append(b"x")
                steps.append(number)
        finally:
            ended.append(disk.exists("file"))

    async def run():
        task = loop.run_in_process(process, workers.run(work))
        await asyncio.sleep(1)
        loop.kill(process)
        workers.close()
        count = len(steps)
        await asyncio.sleep(100)
        return task.done(), count

    is_told, count = loop.run_until_complete(run())
    assert not is_told
    assert 0 < len(steps) == count < 1_000
    assert ended == [True]


def test_drained_workers_have_done_also_what_nobody_waits_for_any_more(loop):
    process = SimulatedProcess("broker")
    workers, disk = interrupted(loop, process)

    async def run():
        abandoned = loop.run_in_process(process, workers.run(lambda: disk.replace_file("file", b"x")))
        await asyncio.sleep(0.001)
        abandoned.cancel()
        await workers.drain()
        return disk.read_file("file")

    assert loop.run_until_complete(run()) == b"x"


def test_an_error_of_the_work_is_the_callers(loop):
    workers = SimulatedWorkers(loop, SimulatedProcess("broker"), Random(1), WorkerWeather())
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(workers.run(lambda: 1 // 0))
