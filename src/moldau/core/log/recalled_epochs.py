"""The leader epochs of batches that the file of the epochs says nothing of, read from the batches themselves.

DeleteRecords writes the epochs first, which then begin at the new log start offset, and the offset after them. Where
the broker ends in between, the log starts below the first epoch that the file names, and its answers to
OffsetForLeaderEpoch would say that an older epoch reaches into a newer one: a follower would keep what it has to cut.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile

from moldau.core.log.damage import DamagedBatchError, follow_batches
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.segment import Segment


def recall_epochs(segments: list[Segment], epochs: LeaderEpochs, log_start_offset: int) -> None:
    """Completes `epochs` of a log that starts below the first of them. Waits for the disk only then."""
    first_known = epochs.entries[0][1] if epochs.entries else log_start_offset
    if first_known <= log_start_offset:
        return
    begun = LeaderEpochs()
    for segment in takewhile(lambda segment: segment.base_offset < first_known, segments):
        if segment.next_offset <= log_start_offset:
            continue
        with suppress(DamagedBatchError):  # a reader is told of it
            for _, fields in follow_batches(segment.file, 0, segment.size):
                base_offset, epoch, last_offset = fields[0], fields[2], fields[0] + fields[6]
                if base_offset >= first_known:
                    break
                if last_offset >= log_start_offset and epoch >= 0:
                    begun.assign(epoch, max(base_offset, log_start_offset))
    if begun.entries:
        epochs.learn(begun)
