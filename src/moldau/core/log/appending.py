"""What goes into an append and what comes out of it."""

from __future__ import annotations

import enum

import msgspec

from moldau.errors import kafka_error
from moldau.types import Buffer
from moldau.wire.records.batch import LENGTH_OVERHEAD


class AppendOrigin(enum.Enum):
    """Who wrote the batches: it says what they are checked for."""

    CLIENT = "client"
    """Exactly one batch; header and producer state are checked."""
    COORDINATOR = "coordinator"
    """Our own records of a group or transaction coordinator: any number of batches, control batches too."""
    CONTROLLER = "controller"
    """The metadata log: as COORDINATOR; never stamped with LogAppendTime."""


class Appended(msgspec.Struct, frozen=True):
    """What a produce response says. `log_append_time_ms` is -1 unless the topic stamps batches."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False


def writable(batches: Buffer) -> bytearray | memoryview:
    """The buffer itself if it can be patched, else a copy."""
    if isinstance(batches, memoryview):
        return bytearray(batches) if batches.readonly else batches
    return batches if isinstance(batches, bytearray) else bytearray(batches)


def check_batch_size(batches: Buffer, max_message_bytes: int) -> None:
    """Raises MESSAGE_TOO_LARGE (10) for a whole batch above the limit; stray bytes behind it do not count."""
    size = int.from_bytes(batches[8:12], "big", signed=True) + LENGTH_OVERHEAD
    if max_message_bytes < size <= len(batches):
        raise kafka_error(
            "MESSAGE_TOO_LARGE", f"a batch of {size} bytes is larger than max.message.bytes, {max_message_bytes}"
        )
