"""Recognises messages of the formats 0 and 1, before Kafka 0.11. They are not supported."""

from __future__ import annotations

import zlib

from moldau.core.log.files.segment import LOG_SUFFIX, Segment
from moldau.errors import StorageFailedError
from moldau.wire.records.batch import LENGTH_OVERHEAD

_MIN_LENGTH = 14
_HEAD_BYTES = 17
"""Offset, length, CRC-32 and magic of a message."""


def refuse_old_format(segment: Segment, file_size: int) -> None:
    """Raises StorageFailedError if an old message begins at the end of the readable part of `segment`. It is not
    damaged, and is never cut off."""
    head = segment.file.read(segment.size, _HEAD_BYTES)
    length = int.from_bytes(head[8:12], "big", signed=True)
    size = LENGTH_OVERHEAD + length
    if len(head) < _HEAD_BYTES or length < _MIN_LENGTH or segment.size + size > file_size or head[16] > 1:
        return
    message = segment.file.read(segment.size, size)
    if zlib.crc32(message[16:]) == int.from_bytes(message[12:16], "big"):
        path = segment.path(LOG_SUFFIX)
        raise StorageFailedError(f"{path} holds messages of format {message[16]}, which Kafka 4 does not write")
