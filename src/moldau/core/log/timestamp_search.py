"""Finds an offset by a timestamp (ListOffsets): the time index leads to a batch, its records to the offset.

Only here the log reads records, so it may take milliseconds and wait for the disk: plan it on the loop, run it in
Workers. A search keeps what it needs. A segment that is deleted in the meantime counts as empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import msgspec

from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.segment import Segment, load_offset_index, load_time_index
from moldau.core.log.recovery.damage import DamagedBatchError, follow_batches
from moldau.errors import ProtocolError
from moldau.ports import File
from moldau.wire.records.batch import LENGTH_OVERHEAD
from moldau.wire.records.record import Record, read_records


class FoundOffset(msgspec.Struct, frozen=True):
    """A record: its offset, its timestamp in ms, its leader epoch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class _Search(ABC):
    """The common part of both searches: segments that are closed or found damaged during the search."""

    __slots__ = ("_log_start_offset", "_repair", "_searched", "_segments")

    def __init__(
        self, segments: list[tuple[Segment, int]], log_start_offset: int, repair: Callable[[Segment], bool]
    ) -> None:
        self._segments = segments
        """Each with its size when the search was planned: later appends are not searched."""
        self._log_start_offset = log_start_offset
        self._repair = repair
        """Finds the readable part of a damaged segment. False if that was done before."""
        self._searched: Segment | None = None

    @abstractmethod
    def _look(self, segment: Segment, size: int) -> FoundOffset | None:
        """Searches the first `size` bytes of one segment."""

    def _search(self, planned: Segment, planned_size: int) -> FoundOffset | None:
        segment: Segment | None = planned
        size = planned_size
        while segment is not None and segment is not self._searched:
            try:
                found = self._look_at_damaged(segment, size)
            except ValueError:
                # closed since the search was planned: deleted, or replaced by a cleaned one
                segment = segment.replacement
                size = segment.size if segment is not None else 0
                continue
            if found is not None:
                return found
            self._searched = segment
        return None

    def _look_at_damaged(self, segment: Segment, size: int) -> FoundOffset | None:
        try:
            return self._look(segment, size)
        except (DamagedBatchError, ProtocolError):
            if not self._repair(segment):
                raise
            return self._look(segment, size)

    def _first(self, segment: Segment, size: int, timestamp_ms: int) -> FoundOffset | None:
        """The first record of the segment at or after the log start with at least this timestamp."""
        for position, fields in follow_batches(segment.file, self._position(segment, timestamp_ms), size):
            leader_epoch, max_timestamp_ms = fields[2], fields[8]
            if max_timestamp_ms < timestamp_ms or fields[0] + fields[6] < self._log_start_offset:
                continue
            for record in _records_at(segment.file, position, fields[1]):
                if record.timestamp >= timestamp_ms and record.offset >= self._log_start_offset:
                    return FoundOffset(record.offset, record.timestamp, leader_epoch)
        return None

    def _position(self, segment: Segment, timestamp_ms: int) -> int:
        """A position before every record at or after the log start that has at least this timestamp."""
        relative_offset = load_time_index(segment).lookup(timestamp_ms)
        relative_offset = max(relative_offset, self._log_start_offset - segment.base_offset)
        index: OffsetIndex = load_offset_index(segment)
        return index.lookup(relative_offset)


class TimestampSearch(_Search):
    """`run()` gives the first record at or after `log_start_offset` with a timestamp of at least `timestamp_ms`."""

    __slots__ = ("_timestamp_ms",)

    def __init__(
        self,
        segments: list[tuple[Segment, int]],
        timestamp_ms: int,
        log_start_offset: int,
        repair: Callable[[Segment], bool],
    ) -> None:
        super().__init__(segments, log_start_offset, repair)
        self._timestamp_ms = timestamp_ms

    def run(self) -> FoundOffset | None:
        """None if every record is earlier. Raises DamagedBatchError for unreadable batches, StorageFailedError."""
        for segment, size in self._segments:
            found = self._search(segment, size)
            if found is not None:
                return found
        return None

    def _look(self, segment: Segment, size: int) -> FoundOffset | None:
        return self._first(segment, size, self._timestamp_ms)


class MaxTimestampSearch(_Search):
    """`run()` gives the first record with the largest timestamp at or after `log_start_offset`.

    `segments`: those with the largest timestamps first, with equal ones the oldest.

    The largest timestamp of a segment may belong to a deleted record. Then the largest of the remaining ones counts.
    (Apache Kafka finds the deleted one, whose offset is unreadable.)
    """

    __slots__ = ()

    def run(self) -> FoundOffset | None:
        """None if no record has a timestamp. Raises as TimestampSearch."""
        latest: FoundOffset | None = None
        for segment, size in self._segments:
            if latest is not None and segment.load_max_timestamp() <= latest.timestamp_ms:
                break
            found = self._search(segment, size)
            if found is not None and (latest is None or found.timestamp_ms > latest.timestamp_ms):
                latest = found
        return latest

    def _look(self, segment: Segment, size: int) -> FoundOffset | None:
        found = self._first(segment, size, segment.load_max_timestamp())
        if found is not None:
            return found
        left_ms = self._largest_left(segment, size)
        return self._first(segment, size, left_ms) if left_ms >= 0 else None

    def _largest_left(self, segment: Segment, size: int) -> int:
        """The largest timestamp at or after the log start, -1 for none: only the batch around that is decoded."""
        largest_ms = -1
        for position, fields in follow_batches(segment.file, self._position(segment, 0), size):
            # a batch that compaction emptied keeps its largest timestamp, which no record has
            if fields[0] + fields[6] < self._log_start_offset or not fields[12]:
                continue
            if fields[0] >= self._log_start_offset:
                largest_ms = max(largest_ms, fields[8])
                continue
            for record in _records_at(segment.file, position, fields[1]):
                if record.offset >= self._log_start_offset:
                    largest_ms = max(largest_ms, record.timestamp)
        return largest_ms


def _records_at(file: File, position: int, batch_length: int) -> Sequence[Record]:
    """The records of the batch at this position. Raises DamagedBatchError."""
    try:
        return read_records(file.read(position, batch_length + LENGTH_OVERHEAD))
    except ProtocolError as error:
        raise DamagedBatchError(file.path, position, str(error)) from None


def plan_timestamp_search(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int, repair: Callable[[Segment], bool]
) -> TimestampSearch:
    """The search over the segments that may have such a late record."""
    candidates: list[tuple[Segment, int]] = []
    for segment in segments:
        if (candidates or segment.load_max_timestamp() >= timestamp_ms) and segment.size:
            candidates.append((segment, segment.size))
    return TimestampSearch(candidates, timestamp_ms, log_start_offset, repair)


def plan_max_timestamp_search(
    segments: Sequence[Segment], log_start_offset: int, repair: Callable[[Segment], bool]
) -> MaxTimestampSearch:
    """The search for the first record with the largest timestamp."""
    candidates = [(segment, segment.size) for segment in segments if segment.size and segment.load_max_timestamp() >= 0]
    candidates.sort(key=lambda candidate: -candidate[0].load_max_timestamp())
    return MaxTimestampSearch(candidates, log_start_offset, repair)
