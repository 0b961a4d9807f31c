"""Reading a range of whole batches out of one segment, without waiting for the disk.

Where a batch begins is known exactly for the last few batches of the log and to within `index.interval.bytes` for the
others; from there batch headers are followed. The end of a range is moved back to a batch that the index knows, so that
the usual fetch is one `pread` of exactly the bytes that are sent.
"""

from __future__ import annotations

import msgspec

from moldau.core.log.offset_index import OffsetIndex
from moldau.core.log.segment import INDEX_SUFFIX, IndexCache, Segment
from moldau.ports import Disk, File
from moldau.types import Buffer
from moldau.wire.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD

_unpack_header = HEADER.unpack_from
COLD_READ_BYTES = 2 << 20
"""The least that is fetched at a time: a reader of old records comes back for what follows."""


class ColdRead:
    """A read that would have waited: `run()` in Workers fetches the bytes into the page cache, then ask the log again.

    It decides nothing and holds no view, so it does not matter what happens to the log in the meantime.
    """

    __slots__ = ("_disk", "_file", "_length", "_path", "_position")

    def __init__(self, disk: Disk, path: str, file: File | None, position: int, length: int) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self._position = position
        self._length = length

    def run(self) -> None:
        """Silent if the file has gone. Raises StorageFailedError."""
        try:
            if self._file is not None:
                self._file.read(self._position, max(self._length, COLD_READ_BYTES))
            else:
                self._disk.read_file(self._path)
        except (FileNotFoundError, ValueError):
            return


class Read(msgspec.Struct, frozen=True):
    """`records`: whole batches, the first one holding the offset asked for; empty if there is nothing to read.

    None if that would wait for the disk: then run `cold` in Workers and read again.
    """

    records: Buffer | None
    cold: ColdRead | None = None

    @property
    def is_cold(self) -> bool:
        return self.cold is not None


NOTHING = Read(b"")
TOO_LARGE = Read(b"")
"""There is something, only not within the bytes asked for."""


class _WouldWaitError(Exception):
    def __init__(self, cold: ColdRead) -> None:
        self.cold = cold


class SegmentReader:
    """Reads one segment. With `may_wait` nothing is ever cold: for tests, loading, and after cold reads that the page
    cache did not keep."""

    __slots__ = ("_cache", "_file", "_may_wait", "_segment")

    def __init__(self, segment: Segment, cache: IndexCache, *, may_wait: bool) -> None:
        self._segment = segment
        self._file = segment.file
        self._cache = cache
        self._may_wait = may_wait

    def read(
        self, offset: int, end_offset: int, max_bytes: int, at_least_one_batch: bool, recent: dict[int, int]
    ) -> Read:
        """Batches from the one that holds `offset` on, those that end at or before `end_offset`. Empty if this segment
        has none. `recent`: known positions by base offset."""
        try:
            start = recent.get(offset)
            if start is None:
                start = self._locate(offset)
            end = self._segment.size
            if end_offset < self._segment.next_offset:
                known = recent.get(end_offset)
                end = self._locate(end_offset) if known is None else known
            if start >= end:
                return NOTHING
            if end - start > max_bytes:
                return self._read_limited(start, end, max_bytes, at_least_one_batch)
            return Read(self._bytes(start, end - start))
        except _WouldWaitError as waiting:
            return Read(None, waiting.cold)

    def _read_limited(self, start: int, end: int, max_bytes: int, at_least_one_batch: bool) -> Read:
        boundary = self._index().floor_position(start + max_bytes)
        if boundary > start:
            return Read(self._bytes(start, boundary - start))
        length = min(max(max_bytes, HEADER_SIZE), end - start)
        data = self._bytes(start, length)
        whole = _whole_batches(data, max_bytes)
        if whole:
            return Read(memoryview(data)[:whole] if whole < len(data) else data)
        if not at_least_one_batch:
            return TOO_LARGE
        first_size = _unpack_header(data)[1] + LENGTH_OVERHEAD
        return Read(self._bytes(start, first_size))

    def _locate(self, offset: int) -> int:
        segment = self._segment
        start = self._index().lookup(offset - segment.base_offset)
        position = segment.locate(offset, start, is_cached_only=not self._may_wait)
        if position < 0:
            raise _WouldWaitError(ColdRead(segment.disk, self._file.path, self._file, ~position, COLD_READ_BYTES))
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
            return OffsetIndex()
        try:
            size = file.size()
            data = file.read(0, size) if self._may_wait else file.read_cached(0, size)
        finally:
            file.close()
        if data is None:
            raise _WouldWaitError(ColdRead(segment.disk, path, None, 0, size))
        return OffsetIndex.decode(bytes(data), segment.size) or OffsetIndex()

    def _bytes(self, position: int, length: int) -> bytes | bytearray:
        data = self._file.read(position, length) if self._may_wait else self._file.read_cached(position, length)
        if data is None:
            segment = self._segment
            raise _WouldWaitError(ColdRead(segment.disk, self._file.path, self._file, position, length))
        return data


def _whole_batches(data: Buffer, limit: int) -> int:
    """How many bytes of `data` are whole batches that end at or before `limit`."""
    end = 0
    while end + HEADER_SIZE <= len(data):
        next_end = end + _unpack_header(data, end)[1] + LENGTH_OVERHEAD
        if next_end > limit or next_end > len(data):
            break
        end = next_end
    return end
