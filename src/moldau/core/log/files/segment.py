"""One segment of a log: a file of record batches, named by its base offset, with two indexes.

The active segment keeps its indexes in memory and writes no index file. When it is sealed, a FlushPlan writes the
files, off the event loop. After that its indexes are read on demand and evicted again (see IndexCache). The files of a
segment are named `<base offset, 20 digits>.<suffix>` as in Apache Kafka: `log`, `index`, `timeindex`, and perhaps
`snapshot` (producers at the base offset) and `txnindex`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import msgspec

from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.files.transaction_index import AbortedTransaction, decode_transactions, encode_transactions
from moldau.core.log.recovery.damage import MIN_BATCH_LENGTH, DamagedBatchError
from moldau.core.log.settings import LogSettings
from moldau.ports import Disk, File
from moldau.wire.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from moldau.wire.records.crc import crc32c

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX)

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_NEVER_MS = 1 << 62
_SCAN_BYTES = 8192
"""Two index intervals: one read finds a batch after an index entry, unless batches are larger."""

_unpack_place = struct.Struct(">qi4xb6xi").unpack_from
"""Unpacks from a batch header: base offset, batch length, magic, last offset delta."""


def segment_file_name(base_offset: int, suffix: str) -> str:
    """The name as in Kafka: the base offset in twenty digits, and the suffix with its dot."""
    return f"{base_offset:020d}{suffix}"


def parse_base_offset(name: str, suffix: str) -> int | None:
    """The base offset in a file name with this suffix, None for any other name."""
    stem = name[: -len(suffix)]
    return int(stem) if name.endswith(suffix) and len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def base_offsets(names: Iterable[str], suffix: str) -> list[int]:
    """The base offsets in the file names that have this suffix, in the order of the names."""
    return [base for name in names if (base := parse_base_offset(name, suffix)) is not None]


class Repair(msgspec.Struct, frozen=True):
    """Rebuilt indexes of the first `size` bytes of a segment, with the offsets below `end_offset`, and the (position,
    end) of damaged bytes."""

    size: int
    end_offset: int
    offset_index: OffsetIndex
    time_index: TimeIndex
    damages: tuple[tuple[int, int], ...]


class Segment:
    """The sizes and offsets of one segment. `append_entry` updates them; the owner (Log) writes the bytes."""

    __slots__ = (
        "_file",
        "_is_closed",
        "_offset_index",
        "_time_index",
        "aborted_transactions",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "damages",
        "directory",
        "disk",
        "first_timestamp_ms",
        "is_index_full",
        "is_index_saved",
        "is_inspected",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "offset_index_capacity",
        "repair",
        "replacement",
        "roll_timestamp_ms",
        "size",
        "time_index_capacity",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, *, size: int, created_ms: int) -> None:
        self.disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        """The offset after the last one. In a compacted log, for a sealed segment, at most the next base offset."""
        self.size = size
        self.created_ms = created_ms
        self.max_timestamp_ms: int | None = None
        """Largest timestamp, -1 if no record has one; None until it is read (see load_max_timestamp)."""
        self.max_timestamp_offset = base_offset
        self.first_timestamp_ms: int | None = None
        """Largest timestamp of the first batch; None if it is unknown: no batch yet, or sealed before this start."""
        self.roll_timestamp_ms = _NEVER_MS
        """A batch with a later maximum timestamp goes to a new segment."""
        self.bytes_since_index_entry = 0
        self.offset_index_capacity = self.time_index_capacity = 1 << 31
        self.is_index_full = False
        """An index is full: the next batch goes to a new segment."""
        self.is_index_saved = False
        self.aborted_transactions: list[AbortedTransaction] | None = None
        """From the transaction index; None until it is read."""
        self.is_inspected = False
        """The whole segment was read after a contradiction (see inspection), and its indexes are right."""
        self.repair: Repair | None = None
        """The result of an inspection of the active segment in Workers, until the loop takes it over (see
        `take_repair`)."""
        self.damages: Sequence[tuple[int, int]] = ()
        """(position, end) of known damaged bytes, in order."""
        self.replacement: Segment | None = None
        """After this one is closed: the cleaned segment that replaces it."""
        self._file: File | None = None
        self._is_closed = False
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, now_ms: int, settings: LogSettings) -> Segment:
        """An empty segment. Its file appears with the first append, so an idle partition has none
        (docs/decisions/0006)."""
        segment = cls(disk, directory, base_offset, size=0, created_ms=now_ms)
        segment.max_timestamp_ms = -1
        segment.aborted_transactions = []
        segment.use_indexes(OffsetIndex(), TimeIndex())
        segment.bound_indexes(settings)
        return segment

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files. `suffix` includes the dot."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def file(self) -> File:
        """The log file, created if absent. Raises ValueError for a closed segment, which may have been deleted."""
        if self._file is None:
            if self._is_closed:
                raise ValueError(f"closed segment: {self.path(LOG_SUFFIX)}")
            self._file = self.disk.open(self.path(LOG_SUFFIX))
        return self._file

    @property
    def has_file(self) -> bool:
        """Whether its `.log` exists. It appears with the first append (decision 0006)."""
        return self._file is not None

    def close(self) -> None:
        """Closes the file. No reads and appends after that."""
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def move_to(self, directory: str) -> None:
        """The directory has a new name. The file is opened there when needed."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.directory = directory

    # --- appending ---

    def set_roll_time(self, first_timestamp_ms: int, settings: LogSettings) -> None:
        """Set with the first batch: the segment takes timestamps up to `segment.ms` after that batch's, less a jitter
        of at most `segment.jitter.ms` that differs by segment (KIP-32: by the time of records, not the clock)."""
        self.first_timestamp_ms = first_timestamp_ms
        jitter_bound = min(settings.segment_jitter_ms, settings.roll_ms)
        jitter_ms = crc32c(self.path("").encode()) % jitter_bound if jitter_bound > 0 else 0
        self.roll_timestamp_ms = first_timestamp_ms + settings.roll_ms - jitter_ms

    def update_settings(self, settings: LogSettings) -> None:
        """The active segment rolls by these settings from now on."""
        self.bound_indexes(settings)
        if self.first_timestamp_ms is not None:
            self.set_roll_time(self.first_timestamp_ms, settings)

    def append_entry(self, position: int, size: int, last_offset: int, max_timestamp_ms: int, interval: int) -> None:
        """Updates the segment for a batch that was written at `position`. The order of the steps is Kafka's."""
        if max_timestamp_ms > self.max_timestamp_ms:  # type: ignore[operator]  # known while active
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index_entry > interval:
            base_offset = self.base_offset
            self._offset_index.append(last_offset - base_offset, position)  # type: ignore[union-attr]
            self._time_index.maybe_append(  # type: ignore[union-attr]
                self.max_timestamp_ms,  # type: ignore[arg-type]
                self.max_timestamp_offset - base_offset,
            )
            self.bytes_since_index_entry = size
            self.note_full_index()
        else:
            self.bytes_since_index_entry += size
        self.size = position + size
        self.next_offset = last_offset + 1

    # --- indexes ---

    def bound_indexes(self, settings: LogSettings) -> None:
        """Each index has its own bound, because entries with equal or falling timestamps fill only the offset index.
        The last entry of the time index is reserved for `seal`."""
        self.offset_index_capacity = settings.segment_index_bytes // 8
        self.time_index_capacity = settings.segment_index_bytes // TIME_ENTRY_SIZE - 1
        self.note_full_index()

    def note_full_index(self) -> None:
        """Call it after the indexes in memory have changed."""
        offsets, times = self._offset_index, self._time_index
        self.is_index_full = (offsets is not None and len(offsets) >= self.offset_index_capacity) or (
            times is not None and len(times) >= self.time_index_capacity
        )

    def use_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Keeps these indexes in memory: the segment is active, or its index files are not written yet."""
        self._offset_index = offset_index
        self._time_index = time_index
        self.is_index_saved = False
        self.note_full_index()

    def take_repair(self, repair: Repair) -> None:
        """Replaces the indexes by those of `repair`, with the entries of later appends. On the loop."""
        offsets, times = repair.offset_index, repair.time_index
        if self._offset_index is not None and self._time_index is not None:
            known_end = offsets.offsets[-1] if len(offsets) else -1
            for relative_offset, position in zip(self._offset_index.offsets, self._offset_index.positions, strict=True):
                if position >= repair.size and relative_offset > known_end:
                    offsets.append(relative_offset, position)
            for timestamp_ms, relative_offset in zip(
                self._time_index.timestamps, self._time_index.offsets, strict=True
            ):
                if relative_offset >= repair.end_offset - self.base_offset:
                    times.maybe_append(timestamp_ms, relative_offset)
        self.use_indexes(offsets, times)
        self.damages, self.is_inspected, self.repair = repair.damages, True, None

    def seal(self) -> None:
        """Ends the appends. The time index gets its last entry."""
        if self._time_index is not None and self.max_timestamp_ms is not None:
            self._time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)

    @property
    def offset_index(self) -> OffsetIndex | None:
        """The offset index; None if it is not in memory."""
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex | None:
        """The time index of the active segment; None: the segment is sealed, and the index is in a file."""
        return self._time_index

    def forget_indexes(self) -> None:
        """Drops the indexes from memory, after their files are written."""
        self._offset_index = None
        self._time_index = None
        self.is_index_saved = True

    def remove_index_files(self) -> None:
        """Call it before the segment changes: index files on disk are complete or absent, so that recovery may trust
        those of a segment that it does not read."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self.disk.remove(self.path(suffix))

    def save_indexes(self) -> None:
        """Writes both index files without a flush. In a worker thread, for a sealed segment only."""
        if self._offset_index is None or self._time_index is None:
            return
        for suffix, data in (
            (INDEX_SUFFIX, self._offset_index.encode()),
            (TIME_INDEX_SUFFIX, self._time_index.encode()),
        ):
            write_whole_file(self.disk, self.path(suffix), data)

    def load_max_timestamp(self) -> int:
        """The largest timestamp. For a sealed segment read once, from the end of its time index."""
        if self.max_timestamp_ms is None:
            self.max_timestamp_ms, relative_offset = load_time_index(self).last
            self.max_timestamp_offset = self.base_offset + relative_offset
        return self.max_timestamp_ms

    # --- searching ---

    def locate(self, offset: int, start: int, *, is_cached_only: bool, may_have_holes: bool = True) -> int:
        """The position of the first batch that reaches beyond `offset`, searched from the batch at `start`; `size` if
        none does. With `is_cached_only`, ~p (negative) if it would wait for the disk at position p.

        Raises DamagedBatchError if other bytes than the next batch are on the way, or if the batch begins beyond
        `offset` without a possible hole.
        """
        position, size = start, self.size
        expected, end_offset = self.base_offset, self.next_offset
        file = self.file
        while position < size:
            length = min(_SCAN_BYTES, size - position)
            data = file.read_cached(position, length) if is_cached_only else file.read(position, length)
            if data is None:
                return ~position
            local = 0
            while local + HEADER_SIZE <= len(data):
                first, length, magic, delta = _unpack_place(data, local)
                last = first + delta
                if length < MIN_BATCH_LENGTH or magic != MAGIC or first < expected or last < first:
                    raise DamagedBatchError(file.path, position + local, "no record batch begins here")
                if last >= offset:
                    if last >= end_offset or position + local + length + LENGTH_OVERHEAD > size:
                        raise DamagedBatchError(file.path, position + local, "a record batch that cannot end here")
                    if first > offset and not may_have_holes:
                        raise DamagedBatchError(file.path, position + local, f"offset {first} where {offset} must be")
                    return position + local
                expected = last + 1
                local += length + LENGTH_OVERHEAD
            if local == 0 or position + local > size:
                raise DamagedBatchError(file.path, position, f"a record batch is cut at byte {position + len(data)}")
            position += local
        return size


def load_offset_index(segment: Segment) -> OffsetIndex:
    """The segment's offset index, from memory or its file. An absent or damaged file counts as empty: a search then
    reads the segment from its start, and the next start rewrites the file."""
    if segment.offset_index is not None:
        return segment.offset_index
    try:
        index = OffsetIndex.decode(segment.disk.read_file(segment.path(INDEX_SUFFIX)), segment.size)
    except FileNotFoundError:
        index = None
    return index if index is not None else OffsetIndex()


def load_time_index(segment: Segment) -> TimeIndex:
    """As load_offset_index, for the time index."""
    if segment.time_index is not None:
        return segment.time_index
    try:
        index = TimeIndex.decode(segment.disk.read_file(segment.path(TIME_INDEX_SUFFIX)))
    except FileNotFoundError:
        index = None
    return index if index is not None else TimeIndex()


def load_transactions(segment: Segment) -> list[AbortedTransaction]:
    """The aborted transactions of the segment, read once from its file, if any."""
    if segment.aborted_transactions is None:
        try:
            entries = decode_transactions(segment.disk.read_file(segment.path(TRANSACTION_INDEX_SUFFIX)))
        except FileNotFoundError:
            entries = []
        segment.aborted_transactions = entries
    return segment.aborted_transactions


def save_transactions(segment: Segment, entries: Sequence[AbortedTransaction]) -> None:
    """Rewrites the transaction index, in the page cache only. An empty one has no file."""
    segment.aborted_transactions = list(entries)
    path = segment.path(TRANSACTION_INDEX_SUFFIX)
    if entries:
        write_whole_file(segment.disk, path, encode_transactions(entries))
    elif segment.disk.exists(path):
        segment.disk.remove(path)


def write_whole_file(disk: Disk, path: str, data: bytes) -> None:
    """Creates or overwrites a file, in the page cache only."""
    file = disk.open(path)
    try:
        if file.size() > len(data):
            file.truncate(len(data))
        file.write_at(0, data)
    finally:
        file.close()


def flush_file(disk: Disk, path: str) -> None:
    """fsync of a file that is not open. A missing file is no error."""
    try:
        file = disk.open(path, create=False)
    except FileNotFoundError:
        return
    try:
        file.flush()
    finally:
        file.close()


class IndexCache:
    """The recently used offset indexes of sealed segments, bounded in bytes over all logs of a directory."""

    __slots__ = ("_entries", "max_bytes", "size_bytes")

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._entries: dict[Segment, OffsetIndex] = {}

    def get(self, segment: Segment) -> OffsetIndex | None:
        """The index, which becomes the newest entry; None: read it from its file."""
        index = self._entries.pop(segment, None)
        if index is not None:
            self._entries[segment] = index
        return index

    def put(self, segment: Segment, index: OffsetIndex) -> None:
        """Adds an index, and evicts the oldest ones above the bound."""
        self.drop(segment)
        self._entries[segment] = index
        self.size_bytes += index.size_bytes
        while self.size_bytes > self.max_bytes and len(self._entries) > 1:
            self.drop(next(iter(self._entries)))

    def drop(self, segment: Segment) -> None:
        """Removes the index of a segment that was deleted, replaced, closed or found damaged."""
        index = self._entries.pop(segment, None)
        if index is not None:
            self.size_bytes -= index.size_bytes
