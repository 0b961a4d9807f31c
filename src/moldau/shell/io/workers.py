"""The Workers port on threads: for fsync, compression and cold reads, which release the GIL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

DEFAULT_THREADS = 4
DEFAULT_MAX_PENDING = 1024


class ThreadWorkers:
    """A bounded pool of threads, used from one event loop.

    At most `max_pending` pieces of work are in the pool; further callers wait on the loop. A slow disk thus grows a
    queue of coroutines, which their own bounds (requests in memory) already limit.
    """

    __slots__ = ("_executor", "_slots", "_under_way")

    def __init__(self, *, threads: int = DEFAULT_THREADS, max_pending: int = DEFAULT_MAX_PENDING) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="moldau-worker")
        self._slots = asyncio.Semaphore(max_pending)
        self._under_way: dict[Future[Any], None] = {}

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` in a thread. Cancelling the caller does not stop work that has started."""
        async with self._slots:
            future = self._executor.submit(work)
            self._under_way[future] = None
            future.add_done_callback(self._under_way.pop)
            return await asyncio.wrap_future(future)

    async def drain(self) -> None:
        while self._under_way:
            await asyncio.wait([asyncio.wrap_future(future) for future in list(self._under_way)])

    def close(self) -> None:
        """Waits for running work and drops the rest. No thread of ours outlives this call."""
        self._executor.shutdown(wait=True, cancel_futures=True)
