"""An asyncio event loop whose clock is a number. Waiting takes no real time, and the same calls come in the same order.

Virtual time moves only when no callback is ready; then `select` jumps to the next timer. The loop has no descriptors,
threads or self-pipe; code that needs one gets an error.

A crash kills a `SimulatedProcess`. All callbacks and tasks of a process inherit it through their context. `kill` drops
them at once without running a `finally`, as kill -9 does. Dead tasks are kept until the world ends, because a collected
coroutine would run its `finally` at the collector's time. `pause` stops a process as SIGSTOP does.
"""

from __future__ import annotations

import asyncio
import traceback
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_TURNS_AT_ONE_INSTANT = 200_000
"""The number of loop turns without progress of the clock that counts as a busy loop of the code under test."""


CLOCK_RESOLUTION = 1e-9
"""In seconds. Closer timers count as simultaneous."""
MIN_TIMERS = 100
"""With fewer timers, cancelled ones are not dropped early."""


class ProcessKilledError(BaseException):
    """Unwinds a process that died inside one of its own calls. No `except Exception` stops it."""


class StuckError(Exception):
    """No further event can happen (no timer, no ready callback), or the clock stands still for ever."""


class SimulatedProcess:
    """One life of a program: alive until killed, then dead for ever."""

    __slots__ = ("context", "is_dead", "name", "tasks", "turns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.turns = 0
        """The number of callbacks that have run. While it does not grow, nothing of the process changes."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        """The context of the process: pass it to `call_soon` or `call_later`."""
        self.context.run(CURRENT_PROCESS.set, self)

    def check_alive(self) -> None:
        """Raises ProcessKilledError if dead. Every port of the process calls it."""
        if self.is_dead:
            raise ProcessKilledError(self.name)


CURRENT_PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("CURRENT_PROCESS", default=None)


class _VirtualSelector:
    """The selector of the loop. Waiting only advances the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns_at_this_instant = 0

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise StuckError("nothing is ready and no timer is set: every task waits for another")
        if timeout > 0:
            self.now += timeout
            self.turns_at_this_instant = 0
        else:
            self.turns_at_this_instant += 1
            if self.turns_at_this_instant > MAX_TURNS_AT_ONE_INSTANT:
                raise StuckError(f"a busy loop: {MAX_TURNS_AT_ONE_INSTANT} turns at {self.now:.6f} s")
        return []

    def close(self) -> None:
        """Has nothing to close."""


class _Timer(events.TimerHandle):
    """In the loop's queue a timer comes after its time, so only simultaneous timers are compared, and none is less."""

    __slots__ = ()
    _cancelled: bool
    _run: Callable[[], None]
    _when: float

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __lt__(self, other: object) -> bool:
        return False


class VirtualLoop(base_events.BaseEventLoop):
    """The loop. `time()` is seconds of virtual time since the world began."""

    # attributes of BaseEventLoop, which a subclass outside asyncio must use to drop a dead process
    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[tuple[float, _Timer]] = []
        """A heap that replaces the one of BaseEventLoop, which compares handles instead of numbers, twenty times per
        event."""
        self._cancelled_timers = 0
        self._paused: dict[SimulatedProcess, list[asyncio.Handle]] = {}
        """The delayed callbacks of each paused process."""
        self._selector = _VirtualSelector()
        self.graveyard: list[object] = []
        self.on_unhandled: Callable[[str, BaseException | None], None] = lambda story, error: None
        """Called for errors that nothing handled, which the world reports as violations."""
        self.set_debug(False)
        self.set_task_factory(_make_task)
        self.set_exception_handler(_note_unhandled)

    def time(self) -> float:
        return self._selector.now

    # -- processes

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = events.Handle(callback, args, self, context)
        process = context.get(CURRENT_PROCESS)
        if process is not None and process.is_dead:
            handle.cancel()
        else:
            self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        timer = _Timer(when, callback, args, self, context)
        process = context.get(CURRENT_PROCESS)
        if process is not None and process.is_dead:
            timer.cancel()
        else:
            heappush(self._timers, (when, timer))
            timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += handle._scheduled  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        """One turn of the loop: runs ready callbacks in order. Without any, moves the clock to the next timer."""
        timers, ready, selector = self._timers, self._ready, self._selector
        if len(timers) > MIN_TIMERS and self._cancelled_timers > len(timers) // 2:
            self._timers = timers = [entry for entry in timers if not entry[1]._cancelled]
            heapify(timers)
            self._cancelled_timers = 0
        while timers and timers[0][1]._cancelled:
            self._cancelled_timers -= 1
            heappop(timers)
        timeout = None
        if ready or self._stopping:
            timeout = 0.0
        elif timers:
            timeout = max(0.0, timers[0][0] - selector.now)
        selector.select(timeout)
        end = selector.now + CLOCK_RESOLUTION
        while timers and timers[0][0] < end:
            timer = heappop(timers)[1]
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        paused = self._paused
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT_PROCESS)  # type: ignore[attr-defined]
            if process in paused:
                paused[process].append(handle)
                continue
            handle._run()
            if process is not None:
                process.turns += 1

    def run_in_process(self, process: SimulatedProcess, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task of `process`. Everything that the task starts belongs to the process too."""
        return process.context.copy().run(self.create_task, coroutine)

    def pause(self, process: SimulatedProcess) -> None:
        """The process does nothing until `resume`; then it runs its delayed callbacks in order."""
        if not process.is_dead:
            self._paused.setdefault(process, [])

    def resume(self, process: SimulatedProcess) -> None:
        """The process continues. Does nothing unless it is paused."""
        self._ready.extend(self._paused.pop(process, ()))

    def kill(self, process: SimulatedProcess) -> None:
        """Stops everything of `process` for ever. A task that waits for one of its tasks waits for ever."""
        process.is_dead = True
        self._paused.pop(process, None)
        for handle in [*self._ready, *(timer for _, timer in self._timers)]:
            context = handle._context  # type: ignore[attr-defined]
            if context is not None and context.get(CURRENT_PROCESS) is process:
                # the dropped callback may be the only reader of a failed future, and collecting that future would be
                # reported
                self.graveyard.append((handle._callback, handle._args))  # type: ignore[attr-defined]
                handle.cancel()
        self.graveyard.append(process)

    # -- what a loop without descriptors and threads must answer

    def _write_to_self(self) -> None:
        pass

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(f"the simulator has no {what}: go through the ports")

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        self._refuse("threads")

    async def create_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse("sockets")

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse("sockets")

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse("name service")

    def add_signal_handler(self, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        self._refuse("signals")


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
    *,
    context: Context | None = None,
    **options: Any,
) -> asyncio.Task[T]:
    if context is None:
        context = copy_context()
    process = context.get(CURRENT_PROCESS)
    task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, context=context, **options)
    if process is not None:
        process.tasks.append(task)
        if len(process.tasks) > 256:
            process.tasks = [kept for kept in process.tasks if not kept.done()]
    return task


def _note_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Reports an unhandled error, unless its process was killed while raising it."""
    error = context.get("exception")
    if isinstance(error, ProcessKilledError) or not isinstance(loop, VirtualLoop) or loop.is_closed():
        return
    story = f"{context.get('message')}: {error!r}"
    if error is not None and error.__traceback__ is not None:
        story += "\n" + "".join(traceback.format_tb(error.__traceback__))
    loop.on_unhandled(story, error)


@contextmanager
def virtual_loop() -> Iterator[VirtualLoop]:
    """The event loop of one seed. It is the thread's asyncio loop until the end."""
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()
