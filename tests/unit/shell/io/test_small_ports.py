"""Clocks, randomness and workers, real and simulated."""

from __future__ import annotations

import asyncio
import threading

import pytest

from moldau.errors import InvariantError
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.io.workers import ThreadWorkers


def test_the_system_clock_counts_milliseconds_since_the_epoch() -> None:
    clock = SystemClock()
    assert 1_600_000_000_000 < clock.now_ms() < 10_000_000_000_000
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first


def test_the_manual_clock_moves_when_told() -> None:
    clock = ManualClock(now_ms=1000, monotonic_ms=5)
    clock.advance(20)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1020, 25)
    clock.set_now(3)
    assert (clock.now_ms(), clock.monotonic_ms()) == (3, 25)
    with pytest.raises(InvariantError):
        clock.advance(-1)


def test_random_choices() -> None:
    real = SystemRandom()
    assert len(real.random_bytes(16)) == 16
    assert all(0 <= real.random_below(3) < 3 for _ in range(50))
    one, two, other = SeededRandom(7), SeededRandom(7), SeededRandom(8)
    row = [one.random_below(1000) for _ in range(10)]
    assert row == [two.random_below(1000) for _ in range(10)]
    assert one.random_bytes(8) == two.random_bytes(8)
    assert row != [other.random_below(1000) for _ in range(10)]


def test_inline_workers_run_in_place() -> None:
    caller = threading.get_ident()
    assert asyncio.run(InlineWorkers().run(threading.get_ident)) == caller
    InlineWorkers().close()


def test_thread_workers_run_off_the_loop_and_pass_errors_on() -> None:
    async def scenario() -> None:
        workers = ThreadWorkers(threads=2)
        assert await workers.run(threading.get_ident) != threading.get_ident()

        def fail() -> None:
            raise OSError("no")

        with pytest.raises(OSError, match="no"):
            await workers.run(fail)
        workers.close()

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() == before


def test_drained_workers_have_done_also_what_nobody_waits_for_any_more() -> None:
    gate, began = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        began.set()
        gate.wait(60)
        done.append("abandoned")

    async def scenario() -> None:
        workers = ThreadWorkers(threads=1)
        await workers.drain()
        abandoned = asyncio.ensure_future(workers.run(work))
        await asyncio.to_thread(began.wait, 60)
        abandoned.cancel()
        draining = asyncio.ensure_future(workers.drain())
        await asyncio.wait((draining, asyncio.ensure_future(asyncio.sleep(0))), return_when=asyncio.FIRST_COMPLETED)
        assert not draining.done()
        gate.set()
        await draining
        assert done == ["abandoned"]
        workers.close()

    asyncio.run(scenario())


def test_at_most_max_pending_pieces_of_work_are_in_the_pool() -> None:
    gate = threading.Event()
    started: list[int] = []
    both_started = threading.Event()

    def work(number: int) -> int:
        started.append(number)
        if len(started) == 2:
            both_started.set()
        assert gate.wait(60)
        return number

    async def scenario() -> list[int]:
        workers = ThreadWorkers(threads=8, max_pending=2)
        tasks = [asyncio.create_task(workers.run(lambda number=number: work(number))) for number in range(6)]
        await asyncio.to_thread(both_started.wait)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(started) == 2
        gate.set()
        results = await asyncio.gather(*tasks)
        workers.close()
        return results

    assert asyncio.run(scenario()) == list(range(6))
