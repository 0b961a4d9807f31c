"""Writes the offset checkpoints of the log directories, one at a time, in Workers.

Housekeeping writes them periodically. In addition, a log start offset that a client moved is written before the client
is answered: deleted records must not come back after a crash. Waiting requests share the next write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from moldau.core.log.directories.directories import LogDirectories
from moldau.core.log.directories.directory import CheckpointPlan, LogDirectory
from moldau.errors import StorageFailedError, StorageFullError
from moldau.shell.broker.own_node import OwnNode
from moldau.types import TopicPartition


class Checkpoints:
    """Writes the checkpoint files; used from the broker's loop only."""

    def __init__(self, node: OwnNode, logs: LogDirectories) -> None:
        self._node = node
        self._logs = logs
        self._is_due = False
        self._lock = asyncio.Lock()
        self._asked = 0
        self._saved = 0

    def changed(self) -> None:
        """The checkpoints are out of date: the next periodic write is due."""
        self._is_due = True

    def take_due(self) -> bool:
        """Whether anything changed since the last call."""
        is_due, self._is_due = self._is_due, False
        return is_due

    @asynccontextmanager
    async def standing_still(self) -> AsyncIterator[None]:
        """No other code writes a checkpoint meanwhile."""
        async with self._lock:
            yield

    async def write(self, high_watermarks: Mapping[TopicPartition, int], needed: LogDirectory | None = None) -> None:
        """Writes all checkpoints. Reports a failing directory to the broker. Raises StorageFullError if the directory
        `needed` (None: any directory) has no room for its checkpoints."""
        async with self._lock:
            _check(await self._run(lambda directory: directory.checkpoint(high_watermarks)), needed)

    async def save_log_start_offsets(self, needed: LogDirectory | None = None) -> None:
        """Waits until the current log start offsets are on the disk, unless their directory fails; see
        `Flusher.save_log_start_offsets`. Raises as `write`."""
        self._asked += 1
        number = self._asked
        async with self._lock:
            if self._saved >= number:
                return
            covered = self._asked
            full = await self._run(LogDirectory.checkpoint_log_start_offsets)
            if not full:
                self._saved = covered
        _check(full, needed)

    async def save_cleaned_offsets(self, needed: LogDirectory | None = None) -> None:
        """Writes how far the cleaner has cleaned each log. Raises as `write`."""
        async with self._lock:
            _check(await self._run(LogDirectory.checkpoint_cleaned_offsets), needed)

    async def _run(
        self, plan_of: Callable[[LogDirectory], CheckpointPlan]
    ) -> list[tuple[LogDirectory, StorageFullError]]:
        """Returns the directories without room."""
        full: list[tuple[LogDirectory, StorageFullError]] = []
        for directory in self._logs:
            if directory.health.is_offline:
                # a worker may just have found this: no request is answered before the partitions are offline
                self._node.directory_failed()
                continue
            try:
                plan = plan_of(directory)
                await self._node.workers.run(plan.run)
                directory.checkpointed(plan)
            except StorageFullError as error:
                full.append((directory, error))
            except StorageFailedError:
                self._node.directory_failed()
        return full


def _check(full: list[tuple[LogDirectory, StorageFullError]], needed: LogDirectory | None) -> None:
    for directory, error in full:
        if needed is None or directory is needed:
            raise error
