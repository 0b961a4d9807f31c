"""Finding an offset by a timestamp (ListOffsets): by the time index to a batch, then by its records.

The one place in the log where records are read, so it may take milliseconds and wait for the disk: plan it on the loop,
run it in Workers. A search holds what it needs; a segment that is deleted meanwhile answers as if it were empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moldau.core.log.offset_index import OffsetIndex
from moldau.core.log.segment import Segment, load_offset_index, load_time_index
from moldau.ports import File
from moldau.wire.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD
from moldau.wire.records.record import read_records


class FoundOffset(msgspec.Struct, frozen=True):
    """A record: its offset, its timestamp in ms, the leader epoch it was written in."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class TimestampSearch:
    """`run()` gives the first record at or after `log_start_offset` with a timestamp of at least `timestamp_ms`."""

    __slots__ = ("_log_start_offset", "_segments", "_timestamp_ms")

    def __init__(self, segments: list[tuple[Segment, int]], timestamp_ms: int, log_start_offset: int) -> None:
        self._segments = segments
        """With the size each had when the search was planned: later appends are not looked at."""
        self._timestamp_ms = timestamp_ms
        self._log_start_offset = log_start_offset

    def run(self) -> FoundOffset | None:
        """None if no record is that late. Raises ProtocolError for a batch whose records cannot be read."""
        for segment, size in self._segments:
            start = self._start_position(segment)
            try:
                found = self._search(segment.file, start, size)
            except ValueError:  # closed: deleted since the search was planned
                continue
            if found is not None:
                return found
        return None

    def _start_position(self, segment: Segment) -> int:
        relative_offset = load_time_index(segment).lookup(self._timestamp_ms)
        relative_offset = max(relative_offset, self._log_start_offset - segment.base_offset)
        index: OffsetIndex = load_offset_index(segment)
        return index.lookup(relative_offset)

    def _search(self, file: File, start: int, size: int) -> FoundOffset | None:
        for position, fields in _headers(file, start, size):
            leader_epoch, max_timestamp_ms = fields[2], fields[8]
            if max_timestamp_ms < self._timestamp_ms or fields[0] + fields[6] < self._log_start_offset:
                continue
            batch = file.read(position, fields[1] + LENGTH_OVERHEAD)
            for record in read_records(batch):
                if record.timestamp >= self._timestamp_ms and record.offset >= self._log_start_offset:
                    return FoundOffset(record.offset, record.timestamp, leader_epoch)
        return None


def _headers(file: File, start: int, size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, header fields) of the batches between two positions."""
    position = start
    while position + HEADER_SIZE <= size:
        header = file.read(position, HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return
        fields = HEADER.unpack(header)
        yield position, fields
        position += fields[1] + LENGTH_OVERHEAD
