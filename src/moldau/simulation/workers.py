"""Workers that take virtual time: a piece of work stops at its calls of the disk, and other events happen meanwhile.

Each such piece runs in a thread, and only while the loop stands still and waits for it: at any moment one of the two
runs, so that a seed gives the same order of events on every machine. Where a real thread could lose the
processor for a while (any call of the disk), the work draws whether it stops there and for how long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from random import Random
from threading import Lock, Thread
from typing import Any, TypeVar

from moldau.simulation.loop import ProcessKilledError, SimulatedProcess, VirtualLoop

T = TypeVar("T")


class WorkerWeather:
    """How long work takes. `delay_max` is in seconds: a scenario may let the disk stall."""

    __slots__ = ("delay_max", "interrupted_share", "stop_share")

    def __init__(self) -> None:
        self.delay_max = 0.01
        self.interrupted_share = 0.7
        """Share of the pieces of work that stop at calls of the disk; the others are done at one instant."""
        self.stop_share = 0.5
        """Share of the calls of the disk at which such a piece stops."""


class SimulatedWorkers:
    """The Workers door of one process.

    As with threads, work that was begun is done even if nobody waits for it any more; it ends where it is when the
    process dies. `rest` is what the process' disk calls before each of its own calls.
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
        self._idle: list[_Thread] = []
        """Threads whose work has ended: the next piece needs no new one."""

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
        """The threads of work that was under way end here; no call of the disk that they were about to make is made."""
        while self._resting:
            work, _ = self._resting.popitem()
            self._running, outer = work, self._running
            work.kill()
            self._running = outer
            self._idle.append(work.thread)
        while self._idle:
            self._idle.pop().end()

    def rest(self) -> None:
        """Called by work before each call of the disk: other events may happen before this returns."""
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
            thread = self._idle.pop() if self._idle else _Thread()
            self._resume(_InterruptedWork(work, thread), done)
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
        if work.is_ended:
            self._idle.append(work.thread)
        else:
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
    """Work that runs between `resume` and the next `rest`, while the caller of `resume` stands still."""

    __slots__ = ("_context", "_work", "error", "is_ended", "is_killed", "result", "thread")

    def __init__(self, work: Callable[[], object], thread: _Thread) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self.is_ended = False
        self.is_killed = False
        self.thread = thread
        self._work = work
        self._context = copy_context()

    def resume(self) -> None:
        """Lets the work begin or go on; returns when it rests or has ended."""
        self.thread.run(self)

    def rest(self) -> None:
        """Called by the work: lets the caller of `resume` go on, until it calls that again."""
        self.thread.rest()

    def kill(self) -> None:
        """Ends the work where it rests."""
        self.is_killed = True
        self.resume()

    def run(self) -> None:
        """All of it, in the thread."""
        try:
            self.result = self._context.run(self._work)
        except Exception as error:
            self.error = error
        except ProcessKilledError:
            # the process ended inside this work: nobody is left to be told
            self.is_killed = True
        finally:
            self.is_ended = True


class _Thread:
    """Runs one piece of work after the other, each only while the caller of `run` stands still."""

    __slots__ = ("_goes_on", "_stands", "_thread", "_work")

    def __init__(self) -> None:
        # locks, for a semaphore is Python code that takes ten times as long, and a seed has a thousand turns
        self._goes_on = Lock()
        self._stands = Lock()
        self._goes_on.acquire()
        self._stands.acquire()
        self._work: _InterruptedWork | None = None
        self._thread = Thread(target=self._run_all, daemon=True)
        self._thread.start()

    def run(self, work: _InterruptedWork | None) -> None:
        """Returns when `work` rests or has ended; the thread itself ends with None."""
        self._work = work
        self._goes_on.release()
        self._stands.acquire()

    def rest(self) -> None:
        """Called in the thread: it goes on with the next call of `run`."""
        self._stands.release()
        self._goes_on.acquire()

    def end(self) -> None:
        self.run(None)
        self._thread.join()

    def _run_all(self) -> None:
        self._goes_on.acquire()
        while self._work is not None:
            try:
                self._work.run()
            except BaseException:
                self._stands.release()
                raise
            self.rest()
        self._stands.release()
