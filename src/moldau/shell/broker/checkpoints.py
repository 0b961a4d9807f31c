"""Writing the offset checkpoints of the log directories: one writer at a time, in Workers.

Beside the writing by the clock (see housekeeping) a log start offset that a client moved is written before the client
is answered, so that records once deleted do not come back after a crash; requests that wait share the next writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.core.log.directory import CheckpointPlan, LogDirectory
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, StorageFailedError, StorageFullError
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker


class Checkpoints:
    """Used from the broker's loop only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = asyncio.Lock()
        self._asked = 0
        self._saved = 0

    async def write(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """All checkpoints. A directory that fails is reported to the broker. Raises StorageFullError."""
        async with self._lock:
            await self._run(lambda directory: directory.checkpoint(high_watermarks))

    async def save_log_start_offsets(self, partitions: Iterable[Partition]) -> None:
        """Until the log start offsets that these partitions have now are on the disk; those of a directory that fails
        are offline then. Raises StorageFullError."""
        for partition in partitions:
            # first the leader epochs, which then begin at the new start: a later start believes what both files say
            with suppress(KafkaError):
                await self._broker.flusher.wait_saved(partition)
        self._asked += 1
        number = self._asked
        async with self._lock:
            if self._saved >= number:
                return
            covered = self._asked
            await self._run(LogDirectory.checkpoint_log_start_offsets)
            self._saved = covered

    async def save_cleaned_offsets(self) -> None:
        """What the cleaner has done until now. Raises StorageFullError."""
        async with self._lock:
            await self._run(LogDirectory.checkpoint_cleaned_offsets)

    async def _run(self, plan_of: Callable[[LogDirectory], CheckpointPlan]) -> None:
        full: StorageFullError | None = None
        for directory in self._broker.partitions.logs:
            if directory.health.is_offline:
                # a worker may have found that just now: nobody is answered before the partitions are offline
                self._broker.directory_failed()
                continue
            try:
                plan = plan_of(directory)
                await self._broker.workers.run(plan.run)
                directory.checkpointed(plan)
            except StorageFullError as error:
                full = error
            except StorageFailedError:
                self._broker.directory_failed()
        if full is not None:
            raise full
