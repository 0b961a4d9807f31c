"""Reads a range of whole batches from one segment, without waiting for the disk.

The beginning of a batch is known exactly for the last few batches of the log, and to within `index.interval.bytes` for
others; from there batch headers are followed. The end of a range is moved back to an indexed batch, so that the usual
fetch is one `pread` of exactly the bytes that are sent.
"""

from __future__ import annotations

import msgspec

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.segment import INDEX_SUFFIX, LOG_SUFFIX, IndexCache, Segment
from moldau.core.log.recovery.damage import DamagedBatchError
from moldau.core.log.recovery.inspection import Extent, inspect, repair_indexes
from moldau.ports import Disk, File
from moldau.types import Buffer
from moldau.wire.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader

_unpack_header = HEADER.unpack_from
COLD_READ_BYTES = 2 << 20
"""The least that a cold read fetches, because a reader of old records also needs the following ones."""

FIRST_READ_BYTES = 512
"""The least that is read if the first batch may exceed the requested size, so that a small one needs no second read."""
HOLD_ANY = 1 << 31


class ColdRead:
    """A read that would have waited. `run()` in Workers fetches the bytes into the page cache; then read again.

    It decides nothing and keeps no view, so the log may change in the meantime.
    """

    __slots__ = ("_disk", "_file", "_health", "_length", "_path", "_position")

    def __init__(
        self, disk: Disk, path: str, file: File | None, position: int, length: int, health: DirectoryHealth
    ) -> None:
        self._disk = disk
        self._health = health
        self._path = path
        self._file = file
        self._position = position
        self._length = length

    def run(self) -> None:
        """Does nothing if the file is gone. Raises StorageFailedError and takes the directory offline, otherwise the
        log would tell its caller to wait for ever."""
        try:
            with self._health.watched():
                if self._file is not None:
                    self._file.read(self._position, max(self._length, COLD_READ_BYTES))
                else:
                    self._disk.read_file(self._path)
        except (FileNotFoundError, ValueError):
            return


class RepairRead(ColdRead):
    """A read that met damage. `run()` finds what is still readable, see inspection."""

    __slots__ = ("_extent", "_interval", "_is_active", "_may_have_holes", "_segment")

    def __init__(
        self, segment: Segment, interval: int, health: DirectoryHealth, may_have_holes: bool, *, is_active: bool = False
    ) -> None:
        self._segment = segment
        self._extent = Extent(segment.size, segment.next_offset)
        self._is_active = is_active
        self._interval = interval
        self._health = health
        self._may_have_holes = may_have_holes

    def run(self) -> None:
        """Does nothing if the segment was deleted. Raises StorageFailedError and takes the directory offline."""
        try:
            with self._health.watched():
                if self._is_active:
                    self._segment.repair = inspect(
                        self._segment, self._extent, self._interval, self._health, may_have_holes=self._may_have_holes
                    )
                else:
                    repair_indexes(self._segment, self._interval, self._health, self._may_have_holes)
        except (FileNotFoundError, ValueError):
            self._segment.is_inspected = True


class BatchInFile:
    """One batch of which only the header was read. Each read checks that this header is still there, because the file
    may have been replaced."""

    __slots__ = ("_file", "_header", "_position", "next_offset", "size")

    def __init__(self, file: File, position: int, header: bytes, size: int) -> None:
        self._file = file
        self._position = position
        self._header = header
        self.size = size
        self.next_offset = BatchHeader(*_unpack_header(header)).next_offset

    def read_cached(self, start: int, length: int) -> Buffer | None:
        """Bytes of the batch; None if that would wait for the disk. Raises as `read`."""
        header = self._file.read_cached(self._position, HEADER_SIZE)
        if header is None:
            return None
        data = self._file.read_cached(self._position + start, length)
        return None if data is None else self._checked(header, data, length)

    def read(self, start: int, length: int) -> Buffer:
        """Bytes of the batch; for Workers. Raises DamagedBatchError, StorageFailedError, FileNotFoundError, and
        ValueError for a file that was closed."""
        data = self._file.read(self._position + start, length)
        return self._checked(self._file.read(self._position, HEADER_SIZE), data, length)

    def _checked(self, header: Buffer, data: Buffer, length: int) -> Buffer:
        if header != self._header or len(data) != length:
            raise DamagedBatchError(self._file.path, self._position, "the batch is not there any more")
        return data


class Read(msgspec.Struct, frozen=True):
    """`records`: whole batches, the first one with the requested offset; empty if nothing is available.

    None if that would wait for the disk: run `cold` in Workers and read again. `later`: a single batch that is larger
    than its reader may hold.
    """

    records: Buffer | None
    cold: ColdRead | None = None
    later: BatchInFile | None = None

    @property
    def is_cold(self) -> bool:
        """Whether the records must be read from the disk first: `records` is None."""
        return self.cold is not None


NOTHING = Read(b"")
TOO_LARGE = Read(b"")
"""Records are available, but not within the requested size."""


class _WouldWaitError(Exception):
    def __init__(self, cold: ColdRead) -> None:
        self.cold = cold


class SegmentReader:
    """Reads one segment. With `may_wait` nothing is cold: for tests, loads, and after cold reads that the page cache
    did not keep. `may_have_holes`: compaction may have removed batches.

    Headers are checked where they are followed, never between two known positions: a fetch of undamaged batches is one
    `pread`. The reader checks the rest and then asks for the offset that failed.
    """

    __slots__ = ("_cache", "_file", "_health", "_may_have_holes", "_may_wait", "_segment")

    def __init__(
        self, segment: Segment, cache: IndexCache, health: DirectoryHealth, may_wait: bool, may_have_holes: bool
    ) -> None:
        self._segment = segment
        self._health = health
        self._file = segment.file
        self._cache = cache
        self._may_wait = may_wait
        self._may_have_holes = may_have_holes

    def read(
        self,
        offset: int,
        end_offset: int,
        max_bytes: int,
        at_least_one_batch: bool,
        recent: dict[int, int],
        held_bytes: int = HOLD_ANY,
        is_all_or_none: bool = False,
    ) -> Read:
        """Batches from the one with `offset` on that end at or before `end_offset`; empty without any. `recent`: known
        positions by base offset. `held_bytes`, `is_all_or_none`: see Log.read. Raises DamagedBatchError, see
        Segment.locate."""
        segment = self._segment
        try:
            start = recent.get(offset)
            if start is None:
                start = self._locate(offset)
            end = segment.size
            if end_offset < segment.next_offset:
                known = recent.get(end_offset)
                end = self._locate(end_offset) if known is None else known
            if start >= end:
                if start == segment.size and offset < segment.next_offset and not self._may_have_holes:
                    raise DamagedBatchError(self._file.path, start, f"the file ends before offset {offset}")
                return NOTHING
            if segment.damages:
                end = _end_of_sound_bytes(segment, start, end)
            if end - start > max_bytes:
                if is_all_or_none:
                    return TOO_LARGE
                return self._read_limited(start, end, max_bytes, at_least_one_batch, held_bytes)
            return Read(self._bytes(start, end - start))
        except _WouldWaitError as waiting:
            return Read(None, waiting.cold)

    def _read_limited(self, start: int, end: int, max_bytes: int, at_least_one_batch: bool, held_bytes: int) -> Read:
        boundary = self._index().floor_position(start + max_bytes)
        if boundary > start:
            data = self._bytes(start, boundary - start)
            if _unpack_header(data)[1] + LENGTH_OVERHEAD <= boundary - start:
                return Read(data)
            raise DamagedBatchError(
                self._file.path, start, f"the index names a batch at byte {boundary} inside another"
            )
        length = min(max(max_bytes, FIRST_READ_BYTES), end - start)
        data = self._bytes(start, length)
        whole = _whole_batches(data, max_bytes)
        if whole:
            return Read(memoryview(data)[:whole] if whole < len(data) else data)
        if not at_least_one_batch:
            return TOO_LARGE
        first_size = _unpack_header(data)[1] + LENGTH_OVERHEAD
        if not HEADER_SIZE <= first_size <= end - start:
            raise DamagedBatchError(self._file.path, start, f"a record batch of {first_size} bytes cannot be here")
        if first_size > held_bytes:
            return Read(b"", later=BatchInFile(self._file, start, bytes(data[:HEADER_SIZE]), first_size))
        return Read(data[:first_size] if first_size <= len(data) else self._bytes(start, first_size))

    def _locate(self, offset: int) -> int:
        segment = self._segment
        start = self._index().lookup(offset - segment.base_offset)
        # the end of a range may be requested, which is in no batch yet
        may_have_holes = self._may_have_holes or offset >= segment.next_offset
        position = segment.locate(offset, start, is_cached_only=not self._may_wait, may_have_holes=may_have_holes)
        if position < 0:
            raise self._would_wait(self._file.path, self._file, ~position, COLD_READ_BYTES)
        return position

    def _index(self) -> OffsetIndex:
        segment = self._segment
        index = segment.offset_index
        if index is None:
            index = self._cache.get(segment)
        if index is None:
            index = self._load_index()
            self._cache.put(segment, index)
        return index

    def _load_index(self) -> OffsetIndex:
        segment = self._segment
        path = segment.path(INDEX_SUFFIX)
        try:
            file = segment.disk.open(path, create=False)
        except FileNotFoundError:
            if segment.is_inspected:
                return OffsetIndex()
            raise DamagedBatchError(path, 0, "the index is missing") from None
        try:
            size = file.size()
            data = file.read(0, size) if self._may_wait else file.read_cached(0, size)
        finally:
            file.close()
        if data is None:
            raise self._would_wait(path, None, 0, size)
        index = OffsetIndex.decode(bytes(data), segment.size)
        if index is None:
            raise DamagedBatchError(path, 0, "the index is damaged")
        return index

    def _would_wait(self, path: str, file: File | None, position: int, length: int) -> _WouldWaitError:
        return _WouldWaitError(ColdRead(self._segment.disk, path, file, position, length, self._health))

    def _bytes(self, position: int, length: int) -> bytes | bytearray:
        data = self._file.read(position, length) if self._may_wait else self._file.read_cached(position, length)
        if data is None:
            raise self._would_wait(self._file.path, self._file, position, length)
        if len(data) < length:
            raise DamagedBatchError(self._file.path, position + len(data), "the file ends here, and was longer before")
        return data


def _end_of_sound_bytes(segment: Segment, start: int, end: int) -> int:
    """The end of the bytes from `start` on that are not known as damaged. Raises DamagedBatchError."""
    for begin, damage_end in segment.damages:
        if begin <= start < damage_end:
            raise DamagedBatchError(segment.path(LOG_SUFFIX), begin, f"{damage_end - begin} bytes are damaged")
        if start < begin < end:
            return begin
    return end


def _whole_batches(data: Buffer, limit: int) -> int:
    """The number of bytes of `data` that are whole batches and end at or before `limit`."""
    end = 0
    while end + HEADER_SIZE <= len(data):
        next_end = end + _unpack_header(data, end)[1] + LENGTH_OVERHEAD
        if next_end > limit or next_end > len(data) or next_end < end + HEADER_SIZE:
            break
        end = next_end
    return end
