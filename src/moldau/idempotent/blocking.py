"""Runs the coroutines of this package without an event loop, so that one text serves blocking and asyncio programs.
Lets a blocking program wait and stop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, because each call below it blocks. Raises RuntimeError if it
    suspends: an object of asyncio was given to the blocking library."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    coroutine.close()
    raise RuntimeError("an object of asyncio needs moldau.idempotent.asyncio")


async def settled(result: Awaitable[T] | T) -> T:
    """The result of a call of a driver or a client, blocking or asyncio."""
    return await result if inspect.isawaitable(result) else result


class Stoppable:
    """What consumer and relay share: `run` polls until `stop`, and a pause ends with it."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends `run` after its round. For a signal handler, or another thread."""
        self._stopped.set()

    async def pause(self, seconds: float) -> None:
        """Lets time pass until it is stopped."""
        self._stopped.wait(seconds)
