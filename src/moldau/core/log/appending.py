"""The checks and the patching of batches before an append, and the result of an append."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from moldau.core.log.files.segment import Segment
from moldau.core.log.files.segments import Segments
from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.log.producer_state import MAX_SEQUENCE, ProducedBatch, ProducerState
from moldau.core.log.recovery.replay import take_in_batch
from moldau.core.log.settings import LogSettings
from moldau.errors import ProtocolError, StorageFullError, kafka_error
from moldau.types import Buffer
from moldau.wire.records.batch import (
    CONTROL_FLAG,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    clear_log_append_time,
    iterate_batches,
    patch_base_offset,
    read_header,
    set_log_append_time,
    set_max_timestamp,
)
from moldau.wire.records.control import end_of_transaction
from moldau.wire.records.validate import BatchFields, BatchLimits, check_records


class AppendOrigin(enum.Enum):
    """The writer of the batches; it decides which checks apply."""

    CLIENT = "client"
    """Exactly one batch; header and producer state are checked. A transactional one is rejected."""
    TRANSACTIONAL_CLIENT = "transactional client"
    """As CLIENT, for a client that may write under its transactional id."""
    COORDINATOR = "coordinator"
    """The records of this broker's group or transaction coordinator: any number of batches, also control batches."""
    CONTROLLER = "controller"
    """The metadata log: as COORDINATOR, but never stamped with LogAppendTime."""


OF_CLIENTS = CLIENT, TRANSACTIONAL_CLIENT = AppendOrigin.CLIENT, AppendOrigin.TRANSACTIONAL_CLIENT
"""Constants for the hot path: Python 3.11 takes 0.15 us to find a member in its enum."""


class Appended(msgspec.Struct, frozen=True):
    """The values for a produce response. `log_append_time_ms` is -1 unless the topic stamps batches."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False


def writable(batches: Buffer) -> bytearray | memoryview:
    """The buffer itself if it is writable, else a copy."""
    if isinstance(batches, memoryview):
        return bytearray(batches) if batches.readonly else batches
    return batches if isinstance(batches, bytearray) else bytearray(batches)


def repeated(batch: ProducedBatch, log_start_offset: int) -> Appended:
    """The result of a repeated batch."""
    _, _, last_offset, delta, timestamp_ms = batch
    return Appended(last_offset - delta, last_offset, timestamp_ms, log_start_offset, True)


def check_batch_size(batches: Buffer, max_message_bytes: int) -> None:
    """Raises MESSAGE_TOO_LARGE (10) for a whole batch above the limit. Bytes after it do not count."""
    size = int.from_bytes(batches[8:12], "big", signed=True) + LENGTH_OVERHEAD
    if max_message_bytes < size <= len(batches):
        raise kafka_error(
            "MESSAGE_TOO_LARGE", f"a batch of {size} bytes is larger than max.message.bytes, {max_message_bytes}"
        )


def check_segment_size(size: int, segment_bytes: int) -> None:
    """Raises RECORD_LIST_TOO_LARGE (18) for a batch that fits in no segment."""
    if size > segment_bytes:
        raise kafka_error("RECORD_LIST_TOO_LARGE", f"{size} bytes do not fit a segment of {segment_bytes} bytes")


def check_client_records(
    batch: Buffer, fields: BatchFields, now_ms: int, limits: BatchLimits, settings: LogSettings, partition_name: str
) -> int:
    """As `check_records`, with the settings of the log. Returns the largest timestamp. Raises KafkaError."""
    return check_records(
        batch,
        BatchHeader(*fields),
        now_ms=now_ms,
        limits=limits,
        is_key_required=settings.is_compacted,
        partition_name=partition_name,
    )


def stamp(
    batch: bytearray | memoryview, fields: BatchFields, log_append_time_ms: int, true_max_timestamp_ms: int
) -> int:
    """Writes the timestamp fields of a client's batch, and returns its largest timestamp (ms). `log_append_time_ms` -1:
    the timestamps of the records count, and the header gets their maximum."""
    if log_append_time_ms >= 0:
        set_log_append_time(batch, 0, len(batch), log_append_time_ms)
        return log_append_time_ms
    if fields[5] & LOG_APPEND_TIME_FLAG:
        clear_log_append_time(batch, 0, len(batch))
    if true_max_timestamp_ms != fields[8]:
        set_max_timestamp(batch, 0, len(batch), true_max_timestamp_ms)
    return true_max_timestamp_ms


class OwnBatch(msgspec.Struct, frozen=True):
    """One batch of a coordinator, as written to the log."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    is_of_producer: bool

    @property
    def place(self) -> tuple[int, int, int]:
        """Base offset, last offset and largest timestamp (ms) of the batch."""
        return self.base_offset, self.last_offset, self.max_timestamp_ms


def patch_own(
    batches: Buffer, base_offset: int, leader_epoch: int, stamp_ms: int
) -> tuple[bytearray | memoryview, list[OwnBatch]]:
    """Sets the offsets of a coordinator's batches, and with `stamp_ms` >= 0 the LogAppendTime of those with data.

    Raises ProtocolError unless the bytes are whole consecutive batches.
    """
    buffer = writable(batches)
    placed: list[OwnBatch] = []
    end = 0
    for position, header in list(iterate_batches(buffer)):
        timestamp_ms = header.max_timestamp if stamp_ms < 0 else stamp_ms
        if stamp_ms >= 0 and not header.attributes & CONTROL_FLAG:
            set_log_append_time(buffer, position, header.size, stamp_ms)
        patch_base_offset(buffer, position, base_offset, header.batch_length, leader_epoch)
        last_offset = base_offset + header.last_offset_delta
        placed.append(OwnBatch(position, header.size, base_offset, last_offset, timestamp_ms, header.producer_id >= 0))
        base_offset, end = last_offset + 1, position + header.size
    if not placed or end != len(buffer):
        raise ProtocolError("what a coordinator appends is not a row of whole batches")
    return buffer, placed


def write_own(
    segments: Segments, segment: Segment, producers: ProducerState, buffer: Buffer, batches: list[OwnBatch]
) -> int:
    """Writes a coordinator's batches with their offsets, and the index entry of an abort. Returns the position. Both or
    neither, because without the entry readers would take the records for committed ones."""
    aborted: list[AbortedTransaction] = []
    for batch in batches:
        if batch.is_of_producer:
            view = memoryview(buffer)[batch.position : batch.position + batch.size]
            aborted.extend(aborted_by(producers, read_header(view), view))
    return write_with_aborted(segments, segment, buffer, aborted)


def write_with_aborted(
    segments: Segments, segment: Segment, batches: Buffer, aborted: Sequence[AbortedTransaction]
) -> int:
    """Writes batches and the index entries of their aborts, or nothing. Returns the position. Raises StorageFullError,
    StorageFailedError."""
    start = segment.file.append(batches)
    try:
        segments.append_aborted(segment, aborted)
    except StorageFullError:
        segment.file.truncate(start)
        raise
    return start


def aborted_by(producers: ProducerState, header: BatchHeader, batch: memoryview) -> list[AbortedTransaction]:
    """The transaction that the batch aborts, if it is a marker. The batch is not taken in yet."""
    found = end_of_transaction(batch) if header.is_control else None
    if found is None or found.is_commit:
        return []
    aborted = producers.aborted_by_marker(header.producer_id, header.base_offset)
    return [] if aborted is None else [aborted]


def check_transactional(
    producers: ProducerState, fields: BatchFields, origin: AppendOrigin, settings: LogSettings
) -> None:
    """Checks a transactional batch of a client. Raises KafkaError 53 if its request has no authorized transactional id,
    87, and the errors of the producer state (45, 47, 48)."""
    if origin is AppendOrigin.CLIENT:
        raise kafka_error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "a transactional batch without a transactional id")
    delta, producer_id, epoch, base_sequence = fields[6], fields[9], fields[10], fields[11]
    if producer_id < 0:
        raise kafka_error("INVALID_RECORD", "a transactional batch without a producer id")
    if not settings.is_transaction_verified:
        return
    if producers.check(producer_id, epoch, base_sequence, (base_sequence + delta) & MAX_SEQUENCE) is None:
        producers.check_transactional(producer_id, epoch, base_sequence)


def take_in_own(producers: ProducerState, buffer: Buffer, batch: OwnBatch, now_ms: int) -> None:
    """Updates the producer state with a coordinator's batch that `write_own` has written."""
    if batch.is_of_producer:
        data = bytes(memoryview(buffer)[batch.position : batch.position + batch.size])
        take_in_batch(producers, msgspec.structs.astuple(read_header(data)), data, 0, len(data), now_ms, [])
