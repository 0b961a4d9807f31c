"""A batch that is read from its file while its consumer receives it: a slow consumer holds one piece in memory.

It serves fetches of batches that are larger than the free memory for responses. It reads through the log's own file
descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moldau.core.log.reading import BatchInFile
from moldau.core.log.recovery.damage import DamagedBatchError
from moldau.errors import StorageFailedError
from moldau.shell.broker.own_node import OwnNode
from moldau.types import Buffer

_CANNOT_READ = (DamagedBatchError, StorageFailedError, FileNotFoundError, ValueError)


class StreamedBatch:
    """A `LaterBytes`. Used from the loop."""

    __slots__ = ("_batch", "_node", "_position")

    def __init__(self, node: OwnNode, batch: BatchInFile) -> None:
        self._node = node
        self._batch = batch
        self._position = 0

    def __len__(self) -> int:
        return self._batch.size

    def next_piece(self, max_bytes: int, then: Callable[[Buffer | None], None]) -> Buffer | None:
        """See `LaterBytes`."""
        start = self._position
        length = min(max_bytes, self._batch.size - start)
        self._position = start + length
        try:
            piece = self._batch.read_cached(start, length)
        except _CANNOT_READ:
            piece = None  # the read in Workers gets the same error and reports it
        if piece is None:
            self._node.spawn(self._load(start, length, then))
        return piece

    async def _load(self, start: int, length: int, then: Callable[[Buffer | None], None]) -> None:
        try:
            piece = await self._node.workers.run(partial(self._batch.read, start, length))
        except _CANNOT_READ as error:
            if isinstance(error, StorageFailedError):
                self._node.directory_failed()
            then(None)
        else:
            then(piece)
