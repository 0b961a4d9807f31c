"""Appends batches of another replica or copy of the log unchanged, for followers and moves.

The other log may begin inside its first batch (DeleteRecords), and compaction may have removed batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moldau.core.log.appending import aborted_by, write_with_aborted
from moldau.core.log.files.segment import MAX_RELATIVE_OFFSET, Segment
from moldau.core.log.files.segments import Segments
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.producer_state import ProducerState
from moldau.core.log.recovery.replay import take_in_batch
from moldau.core.log.settings import LogSettings
from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.records.batch import BatchHeader, iterate_batches


def copied_batches(
    batches: Buffer, log_start_offset: int, log_end_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of another log, in order. Raises ProtocolError for one that begins below the log end. An empty
    log accepts a first batch of which only the last records belong to the log."""
    view = memoryview(batches)
    for position, header in iterate_batches(batches):
        is_first = log_start_offset == log_end_offset <= header.last_offset
        if (header.base_offset < log_end_offset and not is_first) or header.last_offset_delta < 0:
            raise ProtocolError(f"a batch of offset {header.base_offset} where the log ends at {log_end_offset}")
        yield header, view[position : position + header.size]
        log_end_offset = header.next_offset


def needs_new_segment(active: Segment | None, header: BatchHeader, log_end_offset: int) -> bool:
    """Whether the batch fits neither the active segment nor one that begins at the log end: it begins before both, in
    an empty log, or after a hole that no index can span."""
    start = log_end_offset if active is None or active.size else active.base_offset
    return header.base_offset < start or header.last_offset - start > MAX_RELATIVE_OFFSET


def room_for(header: BatchHeader, settings: LogSettings) -> int:
    """The bytes that a segment must have free for the batch. One that was produced with a larger `segment.bytes` gets
    its own segment, otherwise no replica and no other log directory could accept it."""
    return min(header.size, settings.segment_bytes)


def write_copied(
    segments: Segments, segment: Segment, producers: ProducerState, header: BatchHeader, batch: memoryview
) -> int:
    """As `appending.write_own`, for one copied batch."""
    aborted = aborted_by(producers, header, batch) if header.producer_id >= 0 else []
    return write_with_aborted(segments, segment, batch, aborted)


def take_in_copied(
    producers: ProducerState,
    leader_epochs: LeaderEpochs,
    header: BatchHeader,
    batch: memoryview,
    log_start_offset: int,
    now_ms: int,
) -> None:
    """Updates producers and leader epochs with a batch that `write_copied` has written. The epoch of a batch that
    begins before the log does begins with the log."""
    if header.producer_id >= 0:
        data = bytes(batch) if header.is_control else b""
        take_in_batch(producers, msgspec.structs.astuple(header), data, 0, header.size, now_ms, [])
    if header.base_offset < log_start_offset:
        leader_epochs.truncate_from_start(log_start_offset)
