"""Runs tasks concurrently with the connections and handles their errors in one way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.errors import InvariantError, KafkaError, MoldauError
from moldau.shell.network.event_log import EventLog


class BackgroundTasks:
    """The tasks of one owner on one loop. A broken invariant stops the node; any other error is logged."""

    __slots__ = ("_has_ended", "_log", "_loop", "_on_invariant_broken", "_tasks")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, log: EventLog, on_invariant_broken: Callable[[InvariantError], None]
    ) -> None:
        self._loop = loop
        self._log = log
        self._on_invariant_broken = on_invariant_broken
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._has_ended = False

    def __bool__(self) -> bool:
        """Whether any task still runs."""
        return bool(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs the work concurrently with the connections; logs its error, and stops the node on an InvariantError.
        After `cancel` the work does not start: a timer may still ask for a flush while the clean stop flushes."""
        task = self._loop.create_task(work)
        if self._has_ended:
            task.cancel()
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Ends all running tasks in the next turn of the loop, and all that are spawned from now on."""
        self._has_ended = True
        for task in list(self._tasks):
            task.cancel()

    async def wait(self) -> None:
        """Returns when no task runs any more; call it after `cancel`."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, InvariantError):
            self._on_invariant_broken(error)
        elif isinstance(error, MoldauError) and not isinstance(error, KafkaError):
            self._log.error(f"task {type(error).__name__}", str(error))
        elif isinstance(error, Exception):
            self._log.unforeseen(f"task {type(error).__name__}", "a task failed", error)
