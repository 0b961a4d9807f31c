"""The loop of the simulator: time is a number, and a killed process does nothing more."""

from __future__ import annotations

import asyncio
import time

import pytest

from moldau.simulation.loop import ProcessKilledError, SimulatedProcess, StuckError, VirtualLoop


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_waiting_costs_virtual_time_only(loop):
    async def wait_a_day():
        await asyncio.sleep(86_400)
        return loop.time()

    began = time.monotonic()
    assert loop.run_until_complete(wait_a_day()) == pytest.approx(86_400)
    assert time.monotonic() - began < 60


def test_timers_fire_in_the_order_of_their_deadlines(loop):
    fired = []

    async def run():
        for delay in (3, 1, 2):
            loop.call_later(delay, fired.append, delay)
        async with asyncio.timeout(10):
            await asyncio.sleep(5)

    loop.run_until_complete(run())
    assert fired == [1, 2, 3]


def test_a_deadlock_is_an_error_and_not_a_hang(loop):
    async def run():
        await loop.create_future()

    with pytest.raises(StuckError):
        loop.run_until_complete(run())


def test_a_busy_loop_is_an_error_and_not_a_hang(loop):
    async def run():
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(StuckError):
        loop.run_until_complete(run())


def test_threads_and_sockets_are_refused(loop):
    async def run():
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError):
            await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)

    loop.run_until_complete(run())


def test_a_killed_process_does_nothing_more_not_even_its_finally(loop):
    done = []
    process = SimulatedProcess("broker")

    async def child(number):
        try:
            await asyncio.sleep(number)
            done.append(number)
        finally:
            done.append("finally")

    async def main_of_process():
        tasks = [asyncio.create_task(child(number)) for number in (1, 2, 3)]
        loop.call_later(2, done.append, "timer")
        await asyncio.gather(*tasks)

    async def world():
        loop.run_in_process(process, main_of_process())
        await asyncio.sleep(1.5)
        loop.kill(process)
        await asyncio.sleep(10)

    loop.run_until_complete(world())
    assert done == [1, "finally"]
    with pytest.raises(ProcessKilledError):
        process.check_alive()


def test_a_process_that_dies_in_its_own_call_is_unwound_without_a_complaint(loop):
    process = SimulatedProcess("broker")
    reached = []
    loop.on_unhandled = lambda story, error: reached.append(story)

    async def main_of_process():
        try:
            loop.kill(process)
            process.check_alive()
        except Exception:
            reached.append("except")
        reached.append("after")

    async def world():
        loop.run_in_process(process, main_of_process())
        await asyncio.sleep(1)

    loop.run_until_complete(world())
    assert reached == []


def test_a_paused_process_does_nothing_and_afterwards_everything_in_order(loop):
    paused, other = SimulatedProcess("paused"), SimulatedProcess("other")
    done = []

    async def count(name):
        for number in range(4):
            done.append((name, number))
            await asyncio.sleep(1)

    async def run():
        tasks = [loop.run_in_process(process, count(process.name)) for process in (paused, other)]
        await asyncio.sleep(1.5)
        loop.pause(paused)
        loop.call_soon(done.append, "later", context=paused.context)
        await asyncio.sleep(5)
        while_paused = list(done)
        loop.resume(paused)
        await asyncio.gather(*tasks)
        return while_paused

    while_paused = loop.run_until_complete(run())
    assert [entry for entry in while_paused if entry[0] == "paused"] == [("paused", 0), ("paused", 1)]
    assert while_paused[-1] == ("other", 3)
    assert done[len(while_paused) :] == ["later", ("paused", 2), ("paused", 3)]


def test_a_process_that_is_killed_while_it_is_paused_does_nothing_more(loop):
    process = SimulatedProcess("paused")
    done = []

    async def run():
        loop.pause(process)
        loop.call_soon(done.append, 1, context=process.context)
        await asyncio.sleep(1)
        loop.kill(process)
        loop.resume(process)
        await asyncio.sleep(1)

    loop.run_until_complete(run())
    assert done == []
