"""Compaction: the last record of each key stays, at its offset (`cleanup.policy=compact`, KIP-354, KIP-534).

The log has a clean part, then a dirty part, then the active segment, which is never touched. One round:

    learn    read the dirty part and remember the last offset of each key, until the map is full (`KeyOffsets`).
             The clean part will end there. Later records wait for the next round.
    clean    read everything from the start of the log to there, keep records without a later one in the map, and
             write them to `<base offset>.log.<nonce>.cleaned`, neighbouring small segments into one
    flush    `flush_cleaned`, in Workers
    swap     on the event loop, between two requests: see `swap.py`

A batch keeps its base offset, last offset, producer id, epoch and first sequence, however few records stay. It stays
even empty if it has the last sequence of a producer that is still known, or the last offset of the round. A tombstone
(a record without a value) stays for `delete.retention.ms` after the round that found it to be the last of its key. That
round gives the batch a *delete horizon*: attribute bit 6, and the horizon as base timestamp. Transaction markers follow
the same rule (see cleaned_transactions).

`compact` is a generator that pauses after about 1 ms of work and writes only `.cleaned` files of its own nonce. It runs
in slices on the loop of a node in memory, and without pauses in a child process on a real one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import msgspec

from moldau.core.log.cleaning.cleaned_records import keep_records, learn_keys, move_timestamps
from moldau.core.log.cleaning.cleaned_transactions import CleanedTransactions
from moldau.core.log.cleaning.key_offsets import KeyOffsets, keys_within
from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
    write_whole_file,
)
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.files.transaction_index import AbortedTransaction, decode_transactions, encode_transactions
from moldau.errors import ProtocolError
from moldau.ports import Disk
from moldau.wire.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    compression_of,
)
from moldau.wire.records.batch import HEADER as _HEADER
from moldau.wire.records.builder import assemble_batch
from moldau.wire.records.compression import COMPRESSION_MASK, Compression, compress
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.crc import crc32c
from moldau.wire.records.record import iterate_fields, read_payload

MIN_KEYS = 1000
"""The fewest keys of a map, even with a small `log.cleaner.dedupe.buffer.size`: a round must make progress."""
SLICE_BYTES = 256 << 10
MAX_GROUP_SEGMENTS = 32
"""The most segments of one swap: about ten system calls each, in one turn of the loop. Later rounds continue."""
NO_TIMESTAMP = -1

_unpack_header = _HEADER.unpack_from


class SegmentToClean(msgspec.Struct, frozen=True):
    """A sealed and flushed segment. `end_offset`: the base offset of the next one."""

    base_offset: int
    end_offset: int
    size: int


class LastRecords(msgspec.Struct, frozen=True):
    """The last records of a known producer. -1 if only a marker of `epoch` is left."""

    producer_id: int
    epoch: int
    last_offset: int


class CompactionPlan(msgspec.Struct, frozen=True):
    """One round over one log: the whole input of `compact`, so that it can be sent to another process.

    `truncations`: the truncations of the log so far. `segments`: from the start of the log to the end of the cleanable
    part. Times in ms, sizes in bytes.
    """

    directory: str
    nonce: str
    truncations: int
    segments: tuple[SegmentToClean, ...]
    first_dirty_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: tuple[LastRecords, ...]
    dedupe_buffer_bytes: int
    io_buffer_bytes: int

    def cleaned_path(self, base_offset: int, suffix: str) -> str:
        """The path of a file that the round writes, until it is swapped in."""
        return f"{self.directory}/{segment_file_name(base_offset, suffix)}.{self.nonce}{CLEANED_SUFFIX}"


class CleanedSegment(msgspec.Struct, frozen=True):
    """One new file for the segments `replaced`, by their base offsets."""

    base_offset: int
    size: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    replaced: tuple[int, ...]
    has_transaction_index: bool


class CompactionResult(msgspec.Struct, frozen=True):
    """`end_offset`: the log is clean below it."""

    segments: tuple[CleanedSegment, ...]
    end_offset: int
    keys: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_written: int


Batch = tuple[tuple[int, ...], bytes]
"""(header fields in the order of BatchHeader, the whole batch)"""


def compact(disk: Disk, plan: CompactionPlan) -> Generator[int, None, CompactionResult]:
    """Runs one round. Yields the bytes that it read and wrote since the last pause. Files are not flushed.

    Raises ProtocolError for a damaged batch, with its address (the log is no longer cleaned then), FileNotFoundError if
    retention or a deletion removed a segment, StorageFullError, StorageFailedError.
    """
    known = KeyOffsets(max(MIN_KEYS, keys_within(plan.dedupe_buffer_bytes)), plan.first_dirty_offset)
    aborted = _aborted_transactions(disk, plan)
    # a transaction that ended in the clean part would stay open here, because its marker is not read
    dirty = [entry for entry in aborted if entry.last_offset >= plan.first_dirty_offset]
    yield from _learn(disk, plan, known, CleanedTransactions(dirty))
    cleaner = _Cleaner(disk, plan, known, CleanedTransactions(aborted))
    for group in group_segments(disk, plan, known.end_offset):
        yield from cleaner.clean(group)
    return cleaner.result()


def flush_cleaned(disk: Disk, plan: CompactionPlan, result: CompactionResult) -> None:
    """Makes the new files durable, content and names, before the swap. Waits."""
    for segment in result.segments:
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            if suffix == TRANSACTION_INDEX_SUFFIX and not segment.has_transaction_index:
                continue
            file = disk.open(plan.cleaned_path(segment.base_offset, suffix), create=False)
            try:
                file.flush()
            finally:
                file.close()
    disk.flush_directory(plan.directory)


def remove_cleaned(disk: Disk, plan: CompactionPlan) -> None:
    """Removes the files of a round that failed or came too late."""
    for name in disk.list_directory(plan.directory):
        if name.endswith(f".{plan.nonce}{CLEANED_SUFFIX}"):
            disk.remove(f"{plan.directory}/{name}")


def group_segments(disk: Disk, plan: CompactionPlan, end_offset: int) -> list[list[SegmentToClean]]:
    """Neighbours, up to `end_offset`, that fit in one segment even if all their records stay."""
    groups: list[list[SegmentToClean]] = []
    size = index_size = time_index_size = 0
    for segment in plan.segments:
        if segment.base_offset >= end_offset:
            break
        index = _file_size(disk, f"{plan.directory}/{segment_file_name(segment.base_offset, INDEX_SUFFIX)}")
        time_index = _file_size(disk, f"{plan.directory}/{segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX)}")
        if (
            groups
            and len(groups[-1]) < MAX_GROUP_SEGMENTS
            and size + segment.size <= plan.segment_bytes
            and index_size + index <= plan.segment_index_bytes
            and time_index_size + time_index <= plan.segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(segment)
            size, index_size, time_index_size = size + segment.size, index_size + index, time_index_size + time_index
        else:
            groups.append([segment])
            size, index_size, time_index_size = segment.size, index, time_index
    return groups


def _file_size(disk: Disk, path: str) -> int:
    try:
        file = disk.open(path, create=False)
    except FileNotFoundError:
        return 0
    try:
        return file.size()
    finally:
        file.close()


def _aborted_transactions(disk: Disk, plan: CompactionPlan) -> list[AbortedTransaction]:
    """The aborted transactions of the whole log, because a marker may be far after its records."""
    found: list[AbortedTransaction] = []
    for name in disk.list_directory(plan.directory):
        if name.endswith(TRANSACTION_INDEX_SUFFIX):
            found.extend(decode_transactions(disk.read_file(f"{plan.directory}/{name}")))
    return found


def _read_batches(disk: Disk, plan: CompactionPlan, segment: SegmentToClean) -> Iterator[Batch]:
    """The batches of a segment, each whole and with its CRC checked, because a damaged batch must not get a new CRC."""
    path = f"{plan.directory}/{segment_file_name(segment.base_offset, LOG_SUFFIX)}"
    file = disk.open(path, create=False)
    try:
        position, length = 0, plan.io_buffer_bytes
        while position < segment.size:
            asked = min(length, segment.size - position)
            data = file.read(position, asked)
            local, length = 0, plan.io_buffer_bytes
            while local + HEADER_SIZE <= len(data):
                fields = _unpack_header(data, local)
                size = fields[1] + LENGTH_OVERHEAD
                if fields[3] != MAGIC or size < HEADER_SIZE or position + local + size > segment.size:
                    raise ProtocolError(f"{path} holds no record batch at {position + local}")
                if local + size > len(data):
                    length = max(length, size)
                    break
                batch = data[local : local + size]
                if crc32c(batch[ATTRIBUTES_POSITION:]) != fields[4]:
                    raise ProtocolError(f"{path} holds a damaged record batch at {position + local}")
                yield fields, batch
                local += size
            if len(data) < asked or (local == 0 and asked < HEADER_SIZE):
                raise ProtocolError(f"{path} is cut at {position + len(data)} of {segment.size} bytes")
            position += local
    finally:
        file.close()


def _marker_type(batch: bytes, header: BatchHeader) -> ControlType | None:
    """The type of a control batch; None if it was emptied before or its type is unknown."""
    for fields in iterate_fields(read_payload(batch, header), header.record_count):
        return decode_control_key(fields.key)
    return None


def _learn(
    disk: Disk, plan: CompactionPlan, known: KeyOffsets, transactions: CleanedTransactions
) -> Generator[int, None, None]:
    """Fills the map from the dirty part. Stops when the map is full, or after the last segment."""
    pending = 0
    for segment in plan.segments:
        if segment.end_offset <= plan.first_dirty_offset:
            continue
        for fields, batch in _read_batches(disk, plan, segment):
            pending += len(batch)
            if pending >= SLICE_BYTES:
                yield pending
                pending = 0
            attributes, last_offset, producer_id = fields[5], fields[0] + fields[6], fields[9]
            if last_offset < plan.first_dirty_offset:
                continue
            if attributes & CONTROL_FLAG:
                kind = _marker_type(batch, BatchHeader(*fields))
                if kind in (ControlType.ABORT, ControlType.COMMIT):
                    transactions.is_marker_spare(producer_id, last_offset, is_commit=kind is ControlType.COMMIT)
            elif not (attributes & TRANSACTIONAL_FLAG and transactions.is_aborted(producer_id, last_offset)):
                payload = read_payload(batch, BatchHeader(*fields))
                if not (yield from learn_keys(payload, fields[12], fields[0], plan.first_dirty_offset, known)):
                    return
            known.end_offset = last_offset + 1
        known.end_offset = segment.end_offset
        yield pending
        pending = 0


class _Cleaner:
    """The second half of a round: writes the cleaned segments."""

    def __init__(self, disk: Disk, plan: CompactionPlan, known: KeyOffsets, transactions: CleanedTransactions) -> None:
        self._disk = disk
        self._plan = plan
        self._known = known
        self._transactions = transactions
        self._producers = {entry.producer_id: entry for entry in plan.producers}
        self._cleaned: list[CleanedSegment] = []
        self._records_read = self._records_kept = self._bytes_read = self._bytes_written = 0

    def result(self) -> CompactionResult:
        return CompactionResult(
            segments=tuple(self._cleaned),
            end_offset=self._known.end_offset,
            keys=len(self._known.offsets),
            records_read=self._records_read,
            records_kept=self._records_kept,
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
        )

    def clean(self, group: Sequence[SegmentToClean]) -> Generator[int, None, None]:
        """Writes one new segment in place of the group."""
        writer = _SegmentWriter(self._disk, self._plan, group[0].base_offset)
        try:
            pending = 0
            for segment in group:
                for fields, batch in _read_batches(self._disk, self._plan, segment):
                    kept = yield from self._clean_batch(fields, batch)
                    self._records_read += fields[12]
                    self._bytes_read += len(batch)
                    pending += len(batch)
                    if kept is not None:
                        self._bytes_written += len(kept)
                        pending += len(kept)
                        writer.append(kept)
                    if pending >= SLICE_BYTES:
                        yield pending
                        pending = 0
            yield pending
            self._cleaned.append(writer.finish(group, self._transactions.cleaned))
            self._transactions.cleaned = []
        finally:
            writer.close()

    def _clean_batch(self, fields: tuple[int, ...], batch: bytes) -> Generator[int, None, bytes | None]:
        """The bytes that replace the batch: itself, a smaller one, an empty one, or None."""
        header = BatchHeader(*fields)
        if header.base_offset >= self._known.end_offset:
            self._note_transaction(batch, header)
            self._records_kept += header.record_count
            return batch
        has_horizon = header.attributes & DELETE_HORIZON_FLAG != 0
        is_horizon_reached = has_horizon and header.base_timestamp <= self._plan.now_ms
        needs_horizon = False
        if header.is_control:
            is_spare = self._is_control_spare(batch, header)
            if is_spare and is_horizon_reached:
                return self._emptied(header)
            needs_horizon = is_spare
            payload, count = read_payload(batch, header), header.record_count
            largest_ms = header.max_timestamp
        elif header.is_transactional and self._transactions.is_aborted(header.producer_id, header.last_offset):
            return self._emptied(header)
        else:
            payload = read_payload(batch, header)
            kept = yield from keep_records(
                payload,
                header.record_count,
                header.base_offset,
                self._known,
                are_tombstones_kept=not is_horizon_reached,
            )
            count, needs_horizon = kept.count, kept.has_tombstone
            largest_ms = header.base_timestamp + kept.max_timestamp_delta
            if count != header.record_count:
                payload = b"".join(kept.parts)
        if count == 0:
            return self._emptied(header)
        self._records_kept += count
        if count == header.record_count and (has_horizon or not needs_horizon):
            return batch
        horizon_ms = None if has_horizon or not needs_horizon else self._plan.now_ms + self._plan.delete_retention_ms
        return (yield from _rebuilt(header, payload, count, largest_ms, horizon_ms))

    def _note_transaction(self, batch: bytes, header: BatchHeader) -> None:
        """Tracks an unchanged batch, because the new transaction index names the transactions that end there."""
        if header.is_control:
            self._is_control_spare(batch, header)
        elif header.is_transactional:
            self._transactions.is_aborted(header.producer_id, header.last_offset)

    def _is_control_spare(self, batch: bytes, header: BatchHeader) -> bool:
        if header.record_count == 0:
            return True
        kind = _marker_type(batch, header)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return False
        is_commit = kind is ControlType.COMMIT
        return self._transactions.is_marker_spare(header.producer_id, header.last_offset, is_commit=is_commit)

    def _emptied(self, header: BatchHeader) -> bytes | None:
        """The batch without records if its header is still needed, else None."""
        if header.next_offset != self._known.end_offset and not self._is_last_of_producer(header):
            return None
        return assemble_batch(
            b"",
            msgspec.structs.replace(
                header,
                attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG),
                base_timestamp=NO_TIMESTAMP,
                record_count=0,
            ),
        )

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the batch holds the last sequence of an active producer, or its last marker, which has its epoch."""
        last = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return last.last_offset == header.last_offset
        return header.is_control and header.producer_epoch == last.epoch


def _rebuilt(
    header: BatchHeader, payload: bytes, count: int, largest_ms: int, horizon_ms: int | None
) -> Generator[int, None, bytes]:
    """The batch with fewer records, a delete horizon, or both."""
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is not None:
        payload = yield from move_timestamps(payload, count, base_timestamp - horizon_ms)
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, horizon_ms
    compression = compression_of(attributes)
    if compression is not Compression.NONE:
        payload = compress(compression, payload)
    return assemble_batch(
        payload,
        msgspec.structs.replace(
            header,
            attributes=attributes,
            base_timestamp=base_timestamp,
            # with log append time this is the time of every record
            max_timestamp=header.max_timestamp if attributes & LOG_APPEND_TIME_FLAG else largest_ms,
            record_count=count,
        ),
    )


class _SegmentWriter:
    """Writes one `.cleaned` segment with its indexes."""

    def __init__(self, disk: Disk, plan: CompactionPlan, base_offset: int) -> None:
        self._disk = disk
        self._plan = plan
        self._base_offset = base_offset
        self._file = disk.open(plan.cleaned_path(base_offset, LOG_SUFFIX))
        self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._size = 0
        self._since_entry = 0
        self._max_timestamp_ms, self._max_timestamp_offset = NO_TIMESTAMP, base_offset

    def append(self, batch: bytes) -> None:
        """Appends the batch, indexed as by Segment.append_entry."""
        fields = _unpack_header(batch)
        last_offset, timestamp_ms = fields[0] + fields[6], fields[8]
        if timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = timestamp_ms, last_offset
        if self._since_entry > self._plan.index_interval_bytes:
            self._offset_index.append(last_offset - self._base_offset, self._size)
            self._time_index.maybe_append(self._max_timestamp_ms, self._max_timestamp_offset - self._base_offset)
            self._since_entry = 0
        self._since_entry += len(batch)
        self._size += len(batch)
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= self._plan.io_buffer_bytes:
            self._write()

    def _write(self) -> None:
        self._file.append(b"".join(self._waiting))
        self._waiting.clear()
        self._waiting_bytes = 0

    def finish(self, group: Sequence[SegmentToClean], aborted: Sequence[AbortedTransaction]) -> CleanedSegment:
        if self._waiting:
            self._write()
        self._time_index.maybe_append(self._max_timestamp_ms, self._max_timestamp_offset - self._base_offset)
        files = [(INDEX_SUFFIX, self._offset_index.encode()), (TIME_INDEX_SUFFIX, self._time_index.encode())]
        if aborted:
            files.append((TRANSACTION_INDEX_SUFFIX, encode_transactions(aborted)))
        for suffix, data in files:
            write_whole_file(self._disk, self._plan.cleaned_path(self._base_offset, suffix), data)
        return CleanedSegment(
            base_offset=self._base_offset,
            size=self._size,
            max_timestamp_ms=self._max_timestamp_ms,
            max_timestamp_offset=self._max_timestamp_offset,
            replaced=tuple(segment.base_offset for segment in group),
            has_transaction_index=bool(aborted),
        )

    def close(self) -> None:
        self._file.close()
