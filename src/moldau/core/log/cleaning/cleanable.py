"""Which part of a compacted log may be cleaned, and the plan of a round, by Kafka's rules.

Never cleaned: the active segment, uncommitted records, segments with records younger than `min.compaction.lag.ms`, and,
unlike in Kafka, unflushed records. A cleaned segment is below the recovery point, so recovery never reads it.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from moldau.core.log.cleaning.compaction import CompactionPlan, LastRecords, SegmentToClean
from moldau.core.log.files.segment import Segment
from moldau.core.log.log import Log
from moldau.core.log.settings import NO_LIMIT
from moldau.wire.records.batch import HEADER, HEADER_SIZE


class Cleanable(msgspec.Struct, frozen=True):
    """`first_dirty_offset`: the log is clean below. `end_offset`: the end of the part that may be cleaned."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """How much longer than `max.compaction.lag.ms` the oldest dirty record waits (KIP-354); 0: it is in time."""

    @property
    def ratio(self) -> float:
        """The share of bytes that were never compacted in all bytes that compaction would read, 0.0 to 1.0."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, min_ratio: float) -> bool:
        """Whether to compact now: `min.cleanable.dirty.ratio` is reached, or `max.compaction.lag.ms` is over."""
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > min_ratio)


def find_cleanable(log: Log, cleaned_offset: int, high_watermark: int, now_ms: int) -> Cleanable:
    """`cleaned_offset`: from the checkpoint, 0 without an entry. May read the end of time indexes."""
    first_dirty_offset = cleaned_offset if log.log_start_offset <= cleaned_offset <= log.log_end_offset else 0
    first_dirty_offset = max(first_dirty_offset, log.log_start_offset)
    unstable_offset = log.producer_state.first_undecided_offset(high_watermark)
    limit = high_watermark if unstable_offset < 0 else min(high_watermark, unstable_offset)
    settings = log.settings
    clean_bytes = dirty_bytes = 0
    oldest_ms = NO_LIMIT
    segments = log.segments
    end_offset = segments[0].base_offset if segments else log.log_start_offset
    for segment, following in pairwise(segments):
        is_dirty = following.base_offset > first_dirty_offset
        if following.base_offset > limit or not segment.is_index_saved:
            break
        if is_dirty and _is_too_young(segment, settings.min_compaction_lag_ms, now_ms):
            break
        end_offset = following.base_offset
        if not is_dirty:
            clean_bytes += segment.size
            continue
        dirty_bytes += segment.size
        if settings.max_compaction_lag_ms < NO_LIMIT:
            first_ms = _first_timestamp(segment)
            oldest_ms = min(oldest_ms, first_ms) if first_ms > 0 else oldest_ms
    overdue_ms = max(0, now_ms - settings.max_compaction_lag_ms - oldest_ms)
    return Cleanable(first_dirty_offset, end_offset, clean_bytes, dirty_bytes, overdue_ms)


def _is_too_young(segment: Segment, min_lag_ms: int, now_ms: int) -> bool:
    if min_lag_ms <= 0:
        return False
    timestamp_ms = segment.load_max_timestamp()
    return (timestamp_ms if timestamp_ms >= 0 else segment.created_ms) > now_ms - min_lag_ms


def _first_timestamp(segment: Segment) -> int:
    """The largest timestamp of the first batch; -1 in an empty segment."""
    if segment.first_timestamp_ms is None:
        header = segment.file.read(0, HEADER_SIZE)
        segment.first_timestamp_ms = HEADER.unpack(header)[8] if len(header) == HEADER_SIZE else -1
    return segment.first_timestamp_ms


def is_roll_due(log: Log, now_ms: int) -> bool:
    """Whether to seal the active segment, so that its oldest record is compacted in time. Kafka checks only with the
    next record, so the last records of an idle topic wait for ever."""
    segments = log.segments
    if not (log.settings.is_compacted and log.settings.max_compaction_lag_ms < NO_LIMIT and segments):
        return False
    active = segments[-1]
    return active.size > 0 and now_ms > active.roll_timestamp_ms


def plan_round(
    log: Log, cleanable: Cleanable, *, now_ms: int, nonce: str, dedupe_buffer_bytes: int, io_buffer_bytes: int
) -> CompactionPlan:
    """The input of `compact`. `nonce` is random, so a child that outlives its broker writes to its own files."""
    settings = log.settings
    segments = log.segments
    return CompactionPlan(
        directory=log.directory,
        nonce=nonce,
        truncations=log.truncations,
        segments=tuple(
            SegmentToClean(segment.base_offset, following.base_offset, segment.size)
            for segment, following in pairwise(segments)
            if following.base_offset <= cleanable.end_offset
        ),
        first_dirty_offset=cleanable.first_dirty_offset,
        now_ms=now_ms,
        delete_retention_ms=settings.delete_retention_ms,
        segment_bytes=settings.segment_bytes,
        segment_index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        producers=tuple(
            LastRecords(producer_id, entry.epoch, entry.batches[-1][2] if entry.batches else -1)
            for producer_id, entry in log.producer_state.entries.items()
        ),
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        io_buffer_bytes=io_buffer_bytes,
    )
