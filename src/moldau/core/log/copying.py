"""Batches of another copy of the log, appended as they are: what a follower and a move do.

The other copy may begin inside its first batch (DeleteRecords), and compaction may have taken batches out of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moldau.core.log.appending import aborted_by, write_with_aborted
from moldau.core.log.producer_state import ProducerState
from moldau.core.log.recovery import take_in_batch
from moldau.core.log.segment import Segment
from moldau.core.log.segments import Segments
from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.records.batch import BatchHeader, iterate_batches


def copied_batches(batches: Buffer, log_end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of another copy of the log, in order. Raises ProtocolError for one that begins below the end of
    what was there before it."""
    view = memoryview(batches)
    for position, header in iterate_batches(batches):
        if header.base_offset < log_end_offset or header.last_offset_delta < 0:
            raise ProtocolError(f"a batch of offset {header.base_offset} where the log ends at {log_end_offset}")
        yield header, view[position : position + header.size]
        log_end_offset = header.next_offset


def write_copied(
    segments: Segments, segment: Segment, producers: ProducerState, header: BatchHeader, batch: memoryview
) -> int:
    """As `appending.write_own`, of one copied batch."""
    aborted = aborted_by(producers, header, batch) if header.producer_id >= 0 else []
    return write_with_aborted(segments, segment, batch, aborted)


def take_in_copied(producers: ProducerState, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
    """The producer of a batch that `write_copied` has written."""
    if header.producer_id >= 0:
        data = bytes(batch) if header.is_control else b""
        take_in_batch(producers, msgspec.structs.astuple(header), data, 0, header.size, now_ms, [])
