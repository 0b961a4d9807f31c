"""The error for damaged bytes in a log, and the walk from batch to batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.errors import KafkaError
from moldau.ports import File
from moldau.wire.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC

MIN_BATCH_LENGTH: Final = HEADER_SIZE - LENGTH_OVERHEAD
"""The smallest batch length that a header may have. With a smaller one, a walk over batches might never end."""


class DamagedBatchError(KafkaError):
    """CORRUPT_MESSAGE (2): the requested records are in or after damaged bytes. `path`, `position`: their beginning."""

    code = 2
    name = "CORRUPT_MESSAGE"
    is_retriable = True

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}, position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


_CHUNK_BYTES = 64 << 10


def follow_batches(file: File, start: int, size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, header fields) of the batches between two positions. Waits. Raises DamagedBatchError for other bytes,
    and if the last batch reaches beyond `size`."""
    chunk, chunk_position, position = b"", start, start
    while position < size:
        local = position - chunk_position
        if local + HEADER_SIZE > len(chunk):
            chunk, chunk_position, local = file.read(position, _CHUNK_BYTES), position, 0
        if len(chunk) < HEADER_SIZE:
            raise DamagedBatchError(file.path, position, "a record batch is cut")
        fields = HEADER.unpack_from(chunk, local)
        end = position + fields[1] + LENGTH_OVERHEAD
        if fields[3] != MAGIC or not position + HEADER_SIZE <= end <= size:
            raise DamagedBatchError(file.path, position, "no record batch begins here")
        yield position, fields
        position = end
