"""One node in its own thread and event loop, with calls from other threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from moldau.core.config.broker_settings import BrokerSettings
from moldau.errors import MoldauError
from moldau.ports import Disk
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.simulated.time_travel import CountingWorkers, TimeTravel, TravellingClock, TravellingLoop
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.node.assemble import Node
from moldau.shell.node.ports import NodePorts
from moldau.testing.tracebacks import hides, without_inner_frames
from moldau.transport.network import Network

__tracebackhide__ = hides

T = TypeVar("T")

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 60.0

# Without this handler, a script that kills its broker would find warnings of the next start on standard error. Handlers
# for the broker's log (such as pytest's) work as usual.
logging.getLogger("moldau").addHandler(logging.NullHandler())


class Runtime:
    """One life of the broker, from `start` to `stop` or `kill`. All methods are called from other threads."""

    def __init__(self, settings: BrokerSettings, disk: Disk, travel: TimeTravel, network: Network) -> None:
        self._settings = settings
        self._disk = disk
        self._travel = travel
        self._network = network
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._serving: asyncio.Task[None] | None = None
        self._is_killed = False
        self._go_on = threading.Event()
        self._go_on.set()
        self._before_going_on: Callable[[], None] = lambda: None
        self._calls: dict[Future[Any], asyncio.Task[None] | None] = {}
        """Pending calls with their tasks, because the loop keeps only weak references to tasks."""
        self._calls_lock = threading.Lock()
        self._is_over = False
        self.node: Node | None = None
        self.failure: BaseException | None = None
        """The error with which the node stopped by itself."""
        self._thread = threading.Thread(target=self._run, name="moldau-cluster", daemon=True)
        self.ready: Future[None] = Future()
        """Done once the node serves. Has the error of a failed start."""

    # -- life

    def start(self, on_ready: Callable[[Node], None]) -> None:
        """Starts the thread. `on_ready` is called on the loop just before `ready` is done."""
        self._on_ready = on_ready
        self._thread.start()

    @property
    def has_served(self) -> bool:
        """Whether the start has succeeded."""
        return self.ready.done() and self.ready.exception() is None

    def raise_failed_start(self) -> None:
        """Raises the error of a failed start, if the start has failed."""
        error = self.ready.exception() if self.ready.done() else None
        if error is not None:
            self._thread.join(STOP_TIMEOUT_S)
            raise without_inner_frames(error) from error.__cause__

    def begin_stop(self) -> None:
        """Begins a clean stop, also of a paused broker. `wait_stopped` returns at its end."""
        self.resume()
        if self._ending is not None:
            self.post(self._ending.set)

    def wait_stopped(self) -> None:
        """Waits for the end. If the node stopped by itself, `failure` has the error."""
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise MoldauError(f"the cluster did not stop within {STOP_TIMEOUT_S:.0f} s")

    def kill(self) -> None:
        """Ends the broker at once, also if it is paused: no task of it continues, and nothing more is written."""
        self._is_killed = True
        if self.is_paused:
            self._before_going_on = self._abort
            self._go_on.set()
        else:
            self.post(self._abort)
        if self._ending is not None:
            self.post(self._ending.set)
        self.wait_stopped()

    def _abort(self) -> None:
        if self.node is not None:
            self.node.abort()
        elif self._serving is not None:
            self._serving.cancel()  # it is still starting, and may wait for others

    async def apply_retention(self) -> None:
        """Applies retention now on the node's loop, independent of its next regular check."""
        if self.node is not None and self.node.housekeeping is not None:
            await self.node.housekeeping.apply_retention()

    @property
    def is_alive(self) -> bool:
        """Whether the node still serves."""
        return not self._is_over

    # -- holding it

    @property
    def is_paused(self) -> bool:
        """Whether the broker is suspended, from `pause` to `resume`."""
        return not self._go_on.is_set()

    def pause(self) -> None:
        """Suspends the broker as SIGSTOP does. Returns once it has stopped."""
        if self.is_paused:
            return
        standing = threading.Event()
        self._go_on.clear()

        def stand() -> None:
            standing.set()
            self._go_on.wait()
            before, self._before_going_on = self._before_going_on, lambda: None
            before()

        self.post(stand)
        standing.wait(CALL_TIMEOUT_S)

    def resume(self) -> None:
        """Resumes the broker after `pause`. Does not wait. Does nothing if it was not paused."""
        self._go_on.set()

    # -- the way in

    def call(self, work: Callable[[], T]) -> T:
        """Runs `work` on the loop and returns its result or raises its error."""

        async def run() -> T:
            return work()

        return self.wait(run)

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """As `call`, for a coroutine. Raises MoldauError if the broker ends meanwhile."""
        if threading.current_thread() is self._thread:
            raise MoldauError("the cluster was called from its own thread, which would wait for itself")
        if self.is_paused:
            raise MoldauError("the cluster is paused: call resume() first")
        result: Future[T] = Future()
        with self._calls_lock:
            if self._is_over or self._loop is None:
                raise MoldauError("the cluster is not running")
            self._calls[result] = None
        self.post(lambda: self._begin(work, result))
        try:
            return result.result(timeout_s)
        finally:
            with self._calls_lock:
                self._calls.pop(result, None)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, T]], result: Future[T]) -> None:
        async def run() -> None:
            try:
                value = await work()
            except asyncio.CancelledError:
                if not result.done():
                    result.set_exception(MoldauError("the cluster stopped meanwhile"))
                raise
            except BaseException as error:
                if not result.done():
                    result.set_exception(error)
            else:
                if not result.done():
                    result.set_result(value)

        with self._calls_lock:
            if result in self._calls:  # else its caller has given up
                self._calls[result] = asyncio.get_running_loop().create_task(run())

    def post(self, callback: Callable[[], object]) -> None:
        """Calls `callback` on the loop soon, if the loop still runs."""
        # the loop is closed if the broker has stopped by itself
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    # -- the thread

    def _run(self) -> None:
        workers = CountingWorkers(ThreadWorkers())
        loop = TravellingLoop(self._travel, workers.is_busy)
        self._loop = loop
        try:
            loop.run_until_complete(self._serve(workers))
        except BaseException as error:
            if self.ready.done():
                self.failure = error
            else:
                self.ready.set_exception(error)
        finally:
            with self._calls_lock:
                self._is_over = True
                calls = list(self._calls)
            _cancel_all(loop)
            loop.close()
            for call in calls:
                if not call.done():
                    call.set_exception(MoldauError("the cluster stopped"))

    async def _serve(self, workers: CountingWorkers) -> None:
        self._serving = asyncio.current_task()
        try:
            if self._is_killed:  # killed before a loop or a task existed to cancel
                raise asyncio.CancelledError
            ports = NodePorts(
                clock=TravellingClock(self._travel),
                timer_ns=time.perf_counter_ns,
                random=SystemRandom(),
                disk=self._disk,
                workers=workers,
                network=self._network,
            )
            node = Node(self._settings, ports)
            self._ending = asyncio.Event()
            await node.start()
            self.node = node
            self._on_ready(node)
            self.ready.set_result(None)
            await self._until_over(node, self._ending)
        finally:
            workers.close()

    async def _until_over(self, node: Node, ending: asyncio.Event) -> None:
        """Stops the node cleanly once `ending` is set. Raises the error with which it has stopped by itself."""
        waiting = [asyncio.create_task(ending.wait()), asyncio.create_task(node.stopped.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if node.failure is not None:
            raise node.failure
        if not self._is_killed:
            await node.stop()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels the tasks that a crash left waiting."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
