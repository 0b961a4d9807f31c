"""Finding an offset by a timestamp (ListOffsets): by the time index to a batch, then by its records.

The one place in the log where records are read, so it may take milliseconds and wait for the disk: plan it on the loop,
run it in Workers. A search holds what it needs; a segment that is deleted meanwhile answers as if it were empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from moldau.core.log.damage import DamagedBatchError, follow_batches
from moldau.core.log.offset_index import OffsetIndex
from moldau.core.log.segment import Segment, load_offset_index, load_time_index
from moldau.errors import ProtocolError
from moldau.ports import File
from moldau.wire.records.batch import LENGTH_OVERHEAD
from moldau.wire.records.record import read_records


class FoundOffset(msgspec.Struct, frozen=True):
    """A record: its offset, its timestamp in ms, the leader epoch it was written in."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class TimestampSearch:
    """`run()` gives the first record at or after `log_start_offset` with a timestamp of at least `timestamp_ms`."""

    __slots__ = ("_log_start_offset", "_repair", "_segments", "_timestamp_ms")

    def __init__(
        self,
        segments: list[tuple[Segment, int]],
        timestamp_ms: int,
        log_start_offset: int,
        repair: Callable[[Segment], bool],
    ) -> None:
        self._segments = segments
        """With the size each had when the search was planned: later appends are not looked at."""
        self._timestamp_ms = timestamp_ms
        self._log_start_offset = log_start_offset
        self._repair = repair
        """Looks for what can still be read in a segment that is damaged; False if that was done before."""

    def run(self) -> FoundOffset | None:
        """None if no record is that late. Raises DamagedBatchError where no batch can be read, StorageFailedError."""
        searched: Segment | None = None
        for planned, planned_size in self._segments:
            segment: Segment | None = planned
            size = planned_size
            while segment is not None and segment is not searched:
                try:
                    found = self._search(segment, size)
                except ValueError:
                    # closed since the search was planned: deleted, or replaced by a cleaned one
                    segment = segment.replacement
                    size = segment.size if segment is not None else 0
                    continue
                if found is not None:
                    return found
                searched = segment
        return None

    def _start_position(self, segment: Segment) -> int:
        relative_offset = load_time_index(segment).lookup(self._timestamp_ms)
        relative_offset = max(relative_offset, self._log_start_offset - segment.base_offset)
        index: OffsetIndex = load_offset_index(segment)
        return index.lookup(relative_offset)

    def _search(self, segment: Segment, size: int) -> FoundOffset | None:
        try:
            return self._search_from(segment.file, self._start_position(segment), size)
        except (DamagedBatchError, ProtocolError):
            if not self._repair(segment):
                raise
            return self._search_from(segment.file, self._start_position(segment), size)

    def _search_from(self, file: File, start: int, size: int) -> FoundOffset | None:
        for position, fields in follow_batches(file, start, size):
            leader_epoch, max_timestamp_ms = fields[2], fields[8]
            if max_timestamp_ms < self._timestamp_ms or fields[0] + fields[6] < self._log_start_offset:
                continue
            batch = file.read(position, fields[1] + LENGTH_OVERHEAD)
            try:
                records = read_records(batch)
            except ProtocolError as error:
                raise DamagedBatchError(file.path, position, str(error)) from None
            for record in records:
                if record.timestamp >= self._timestamp_ms and record.offset >= self._log_start_offset:
                    return FoundOffset(record.offset, record.timestamp, leader_epoch)
        return None


def plan_timestamp_search(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int, repair: Callable[[Segment], bool]
) -> TimestampSearch:
    """The search over the segments that may hold so late a record."""
    candidates: list[tuple[Segment, int]] = []
    for segment in segments:
        if (candidates or segment.load_max_timestamp() >= timestamp_ms) and segment.size:
            candidates.append((segment, segment.size))
    return TimestampSearch(candidates, timestamp_ms, log_start_offset, repair)


def plan_max_timestamp_search(
    segments: Sequence[Segment], log_start_offset: int, repair: Callable[[Segment], bool]
) -> TimestampSearch:
    """The search for the first record with the largest timestamp of all."""
    best: Segment | None = None
    for segment in segments:
        if segment.size and (best is None or segment.load_max_timestamp() > best.load_max_timestamp()):
            best = segment
    if best is None or best.load_max_timestamp() < 0:
        return TimestampSearch([], 0, 0, repair)
    return TimestampSearch([(best, best.size)], best.load_max_timestamp(), log_start_offset, repair)
