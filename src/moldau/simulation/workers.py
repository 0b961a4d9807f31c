"""Workers that take virtual time. A piece of work may pause at its disk calls, and other events happen meanwhile.

Each piece runs in a greenlet on the loop's thread while the loop waits. A seed therefore gives the same order of events
on every machine, and a switch costs less than a microsecond instead of ten. At each disk call, where a real thread
could lose the processor, the work draws whether and how long it pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from moldau.simulation.loop import ProcessKilledError, SimulatedProcess, VirtualLoop

T = TypeVar("T")


class WorkerWeather:
    """The duration of work. `delay_max` is in seconds: a scenario may make the disk stall."""

    __slots__ = ("delay_max", "interrupted_share", "stop_share")

    def __init__(self) -> None:
        self.delay_max = 0.01
        self.interrupted_share = 0.7
        """The share of pieces of work that pause at disk calls; the others take no virtual time."""
        self.stop_share = 0.5
        """The share of disk calls at which such a piece pauses."""


class SimulatedWorkers:
    """The Workers port of one process.

    As with threads, started work finishes even if no caller waits any more. When the process dies, the work stops at
    its present place. The process' disk calls `rest` before each of its own calls.
    """

    def __init__(self, loop: VirtualLoop, process: SimulatedProcess, random: Random, weather: WorkerWeather) -> None:
        self._loop = loop
        self._process = process
        self._random = random
        self._weather = weather
        self._unfinished = 0
        self._drained: list[asyncio.Future[None]] = []
        self._running: _InterruptedWork | None = None
        self._resting: dict[_InterruptedWork, None] = {}

    async def run(self, work: Callable[[], T]) -> T:
        self._process.check_alive()
        done: asyncio.Future[T] = self._loop.create_future()
        self._unfinished += 1
        self._loop.call_later(self._delay(), self._begin, work, done)
        return await done

    async def drain(self) -> None:
        while self._unfinished:
            drained: asyncio.Future[None] = self._loop.create_future()
            self._drained.append(drained)
            await drained

    def close(self) -> None:
        """Stops unfinished work before its next disk call."""
        while self._resting:
            work, _ = self._resting.popitem()
            self._running, outer = work, self._running
            work.kill()
            self._running = outer

    def rest(self) -> None:
        """Called by work before each disk call: other events may happen before this returns."""
        work = self._running
        if work is None:
            return
        if work.is_killed:
            raise ProcessKilledError(self._process.name)
        if self._random.random() < self._weather.stop_share:
            work.rest()
            if work.is_killed:
                raise ProcessKilledError(self._process.name)

    def _delay(self) -> float:
        return self._random.uniform(0, self._weather.delay_max)

    def _begin(self, work: Callable[[], T], done: asyncio.Future[T]) -> None:
        if self._random.random() < self._weather.interrupted_share:
            self._resume(_InterruptedWork(work), done)
            return
        try:
            result = work()
        except Exception as error:
            self._loop.call_later(self._delay(), self._finish, done, None, error)
        else:
            self._loop.call_later(self._delay(), self._finish, done, result, None)

    def _resume(self, work: _InterruptedWork, done: asyncio.Future[Any]) -> None:
        self._resting.pop(work, None)
        self._running, outer = work, self._running
        work.resume()
        self._running = outer
        if not work.is_ended:
            self._resting[work] = None
        if self._process.is_dead:
            self.close()
        elif work.is_ended:
            self._loop.call_later(self._delay(), self._finish, done, work.result, work.error)
        else:
            self._loop.call_later(self._delay(), self._resume, work, done)

    def _finish(self, done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
        self._unfinished -= 1
        if not self._unfinished:
            drained, self._drained = self._drained, []
            for future in drained:
                if not future.done():
                    future.set_result(None)
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)


class _InterruptedWork:
    """Work that runs between `resume` and the next `rest`, while the caller of `resume` waits."""

    __slots__ = ("_context", "_greenlet", "_outside", "_work", "error", "is_killed", "result")

    def __init__(self, work: Callable[[], object]) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self.is_killed = False
        self._work = work
        self._context = copy_context()
        self._greenlet = greenlet(self._run)
        self._outside = getcurrent()

    @property
    def is_ended(self) -> bool:
        return self._greenlet.dead

    def resume(self) -> None:
        """Starts or continues the work. Returns when it rests or has ended."""
        self._outside = getcurrent()
        self._greenlet.parent = self._outside
        self._greenlet.switch()

    def rest(self) -> None:
        """Called by the work: returns control to the caller of `resume` until its next call."""
        self._outside.switch()

    def kill(self) -> None:
        """Ends the work at its present rest."""
        self.is_killed = True
        self.resume()

    def _run(self) -> None:
        try:
            self.result = self._context.run(self._work)
        except Exception as error:
            self.error = error
        except ProcessKilledError:
            # the process ended inside this work: no caller waits for it any more
            self.is_killed = True
