"""Rebuilds the producer state of a log at a start: from the newest snapshot, then from the batches.

A wrong transaction index is rebuilt in the same way. It has no checksum, and transactions that it does not name count
as committed: readers would get aborted records, and the cleaner would keep those instead of the last committed record
of a key. A missing file is no sign of damage, because most segments have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.segment import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    base_offsets,
    flush_file,
    save_transactions,
    segment_file_name,
)
from moldau.core.log.files.transaction_index import ENTRY_SIZE, AbortedTransaction, decode_transactions
from moldau.core.log.producer_state import ProducerState
from moldau.core.log.recovery.damage import MIN_BATCH_LENGTH
from moldau.core.log.recovery.recalled_batches import recall_batches
from moldau.wire.records.batch import CONTROL_FLAG, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL_FLAG
from moldau.wire.records.control import end_of_transaction

_CHUNK_BYTES = 512 << 10
_unpack_header = HEADER.unpack_from


def take_in_batch(
    producers: ProducerState,
    fields: tuple[int, ...],
    data: bytes,
    start: int,
    end: int,
    now_ms: int,
    all_aborted: list[AbortedTransaction],
) -> None:
    """Updates the producer state for one batch in the log, without checks. A transaction that it aborts is added to
    `all_aborted`."""
    first, attributes, delta, timestamp = fields[0], fields[5], fields[6], fields[8]
    producer_id, epoch, base_sequence = fields[9], fields[10], fields[11]
    if attributes & CONTROL_FLAG:
        marker = end_of_transaction(data[start:end])
        if marker is not None:
            aborted = None if marker.is_commit else producers.aborted_by_marker(producer_id, first)
            producers.end_transaction(producer_id, epoch, marker.coordinator_epoch, timestamp, now_ms, first)
            if aborted is not None:
                all_aborted.append(aborted)
        return
    producers.update(
        producer_id,
        epoch,
        base_sequence,
        first + delta,
        delta,
        timestamp,
        now_ms,
        is_transactional=bool(attributes & TRANSACTIONAL_FLAG),
    )


def rebuild_producers(
    producers: ProducerState,
    segments: list[Segment],
    snapshots: list[int],
    end_offset: int,
    now_ms: int,
    health: DirectoryHealth,
    *,
    log_start_offset: int = 0,
) -> None:
    """The producer state at `end_offset`: the newest readable snapshot that is not above it, then the batches in
    between."""
    producers.clear(max(log_start_offset, segments[0].base_offset))
    for base in sorted((base for base in snapshots if base <= end_offset), reverse=True):
        segment = segments[0]
        path = f"{segment.directory}/{segment_file_name(base, SNAPSHOT_SUFFIX)}"
        try:
            producers.load(segment.disk.read_file(path), base, now_ms)
            recall_batches(segments, producers, base, now_ms)
            break
        except ValueError as error:
            health.found(path, f"{error}: the producers are read from the log instead")
            segment.disk.remove(path)
            snapshots.remove(base)
    for segment in segments:
        if segment.next_offset > producers.map_end_offset and segment.base_offset < end_offset:
            _replay(producers, segment, end_offset, now_ms, [], health)
    producers.map_end_offset = end_offset


def repair_transactions(
    trusted: Sequence[Segment],
    segments: list[Segment],
    names: Sequence[str],
    snapshots: list[int],
    now_ms: int,
    health: DirectoryHealth,
    *,
    max_producer_ids: int,
) -> None:
    """Rebuilds wrong transaction indexes of the `trusted` segments, which recovery does not read. `names`: the files of
    the log. Waits. Raises StorageFullError, StorageFailedError."""
    indexed = set(base_offsets(names, TRANSACTION_INDEX_SUFFIX))
    for segment in trusted:
        if segment.base_offset not in indexed:
            continue
        path = segment.path(TRANSACTION_INDEX_SUFFIX)
        data = segment.disk.read_file(path)
        if _is_sound(data, segment):
            continue
        producers, aborted = ProducerState(max_producer_ids), list[AbortedTransaction]()
        rebuild_producers(producers, segments, snapshots, segment.base_offset, now_ms, health)
        _replay(producers, segment, segment.next_offset, now_ms, aborted, health)
        save_transactions(segment, aborted)
        flush_file(segment.disk, path)
        segment.disk.flush_directory(segment.directory)
        if data or aborted:
            health.found(path, "the file is damaged, and was rebuilt from the log")


def _is_sound(data: bytes, segment: Segment) -> bool:
    """Whether the index is whole, its markers in `segment`, in order. Apache Kafka's recovery leaves empty files."""
    try:
        entries = decode_transactions(data)
    except ValueError:
        return False
    expected = segment.base_offset
    for entry in entries:
        first, last = entry.first_offset, entry.last_offset
        if not (expected <= last < segment.next_offset and 0 <= first < last and entry.producer_id >= 0):
            return False
        expected = last + 1
    return bool(data) and len(data) % ENTRY_SIZE == 0


def _replay(
    producers: ProducerState,
    segment: Segment,
    end_offset: int,
    now_ms: int,
    aborted: list[AbortedTransaction],
    health: DirectoryHealth,
) -> None:
    """Takes in the batches of one segment between the state's end and `end_offset`; CRCs were checked when written."""
    position, chunk_bytes = 0, _CHUNK_BYTES
    while position + HEADER_SIZE <= segment.size:
        data = segment.file.read(position, chunk_bytes)
        local, chunk_bytes = 0, _CHUNK_BYTES
        while local + HEADER_SIZE <= len(data):
            fields = _unpack_header(data, local)
            end = local + fields[1] + LENGTH_OVERHEAD
            if fields[0] >= end_offset:
                return
            if fields[1] < MIN_BATCH_LENGTH or fields[3] != MAGIC or position + end > segment.size:
                reason = f"no record batch begins at {position + local}: the producers of what follows are not known"
                health.found(segment.path(LOG_SUFFIX), reason)
                return
            if end > len(data):
                chunk_bytes = max(_CHUNK_BYTES, end - local)
                break
            if fields[9] >= 0 and fields[0] >= producers.map_end_offset:
                take_in_batch(producers, fields, data, local, end, now_ms, aborted)
            local = end
        if local == 0 and chunk_bytes == _CHUNK_BYTES:
            return
        position += local
