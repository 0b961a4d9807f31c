"""A cluster of one broker in this process, in a thread and an event loop of its own.

It touches nothing of its host: no event loop policy, no signal handler, no gc setting. A forked child gives up its
copies of the sockets, so that the parent's broker stays the only one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.errors import MoldauError
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.network.listener import TcpNetwork
from moldau.shell.node.assemble import Doors, Node
from moldau.shell.node.main import open_disk

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

# Where a test wants another answer than production does. `Cluster(settings=...)` wins over these.
TEST_SETTINGS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Production has 50, which a test would only wait for.
    "offsets.topic.num.partitions": "1",
    # A first member need not wait for others that a test does not have.
    "group.initial.rebalance.delay.ms": "0",
}


class Cluster:
    """One broker on 127.0.0.1, on a port of its own; as many as you like in one process.

    `data_dir`: where it keeps its files; None keeps everything in memory. A directory can be opened again later.
    `settings`: Kafka's broker settings by name. Where they are silent, offsets have one partition instead of 50 and
    the initial rebalance delay is 0 instead of 3,000 ms; everything else is Kafka's default.

    Use it as a context manager, or call `start` and `stop`. Both may be called from any thread.
    """

    def __init__(
        self, *, data_dir: str | os.PathLike[str] | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._settings = parse_broker_settings({**TEST_SETTINGS, **(settings or {})})
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._owner_pid = 0

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT`. Raises MoldauError before `start` and after `stop`."""
        if self._node is None:
            raise MoldauError("the cluster is not running: use it as a context manager, or call start()")
        return self._node.bootstrap_servers

    def start(self) -> Cluster:
        """Returns once it serves. Raises what the start failed with, say a data directory that is in use."""
        if self._thread is not None:
            raise MoldauError("the cluster is running already")
        self._failure = None
        ready: Future[None] = Future()
        thread = threading.Thread(target=self._run, args=(ready,), name="moldau-cluster", daemon=True)
        thread.start()
        try:
            ready.result(START_TIMEOUT_S)
        except BaseException:
            thread.join(STOP_TIMEOUT_S)
            raise
        self._thread = thread
        self._owner_pid = os.getpid()
        _running.add(self)
        return self

    def stop(self) -> None:
        """Stops cleanly; silent if it does not run. Raises what the broker itself stopped with, if it did."""
        thread, loop, stopping = self._thread, self._loop, self._stopping
        if thread is None or self._owner_pid != os.getpid():
            return
        self._thread = None
        _running.discard(self)
        if loop is not None and stopping is not None:
            # The loop is closed where the broker has stopped by itself.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stopping.set)
        thread.join(STOP_TIMEOUT_S)
        if thread.is_alive():
            raise MoldauError(f"the cluster did not stop within {STOP_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, ready: Future[None]) -> None:
        """The thread: one loop, one node, until `stop` says so or the node fails."""
        loop = asyncio.new_event_loop()
        self._loop = loop
        try:
            loop.run_until_complete(self._serve(ready))
        except BaseException as error:
            if ready.done():
                self._failure = error
            else:
                ready.set_exception(error)
        finally:
            self._node = None
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _serve(self, ready: Future[None]) -> None:
        workers = ThreadWorkers()
        try:
            doors = Doors(
                clock=SystemClock(),
                random=SystemRandom(),
                disk=open_disk(self._data_dir, self._settings),
                workers=workers,
                network=TcpNetwork(self._settings.socket_listen_backlog_size),
            )
            node = Node(self._settings, doors)
            self._stopping = asyncio.Event()
            await node.start()
            self._node = node
            ready.set_result(None)
            await self._until_stopped(node, self._stopping)
        finally:
            workers.close()

    async def _until_stopped(self, node: Node, stopping: asyncio.Event) -> None:
        """Stops the node cleanly once `stop` says so; raises what it has stopped with by itself."""
        waiting = [asyncio.create_task(stopping.wait()), asyncio.create_task(node.stopped.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if node.failure is not None:
            raise node.failure
        await node.stop()

    def _abandon_in_child(self) -> None:
        """In a forked child: the thread is not here, its sockets are; they belong to the parent."""
        if self._node is not None:
            self._node.close_sockets_in_child()
        self._thread = self._loop = self._node = self._stopping = None


_running: weakref.WeakSet[Cluster] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for cluster in list(_running):
        cluster._abandon_in_child()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
