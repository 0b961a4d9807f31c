"""Corrects leader epochs from the batches themselves, if the checkpoint file lacks them or is wrong.

DeleteRecords writes the epochs first, which then begin at the new log start offset, and the offset after them. If the
broker stops in between, the log starts below the first epoch in the file. OffsetForLeaderEpoch would then return an
older epoch that reaches into a newer one, and a follower would keep records that it must truncate.

The file has no checksum. A flipped bit that raises its latest epoch would hide each epoch up to that number: the leader
would answer that the batches of these epochs are not in the log, each follower would truncate and fetch them again
without end, and nothing would be committed any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import LEADER_EPOCH_CHECKPOINT
from moldau.core.log.files.segment import Segment, load_offset_index
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.recovery.damage import DamagedBatchError, follow_batches


def recall_epochs(segments: list[Segment], epochs: LeaderEpochs, log_start_offset: int) -> None:
    """Completes `epochs` of a log that starts below the first of them. Waits for the disk only then."""
    first_known = epochs.entries[0][1] if epochs.entries else log_start_offset
    if first_known <= log_start_offset:
        return
    begun = LeaderEpochs()
    for segment in takewhile(lambda segment: segment.base_offset < first_known, segments):
        if segment.next_offset <= log_start_offset:
            continue
        with suppress(DamagedBatchError):  # reads report the damage
            for _, fields in follow_batches(segment.file, 0, segment.size):
                base_offset, epoch, last_offset = fields[0], fields[2], fields[0] + fields[6]
                if base_offset >= first_known:
                    break
                if last_offset >= log_start_offset and epoch >= 0:
                    begun.assign(epoch, max(base_offset, log_start_offset))
    if begun.entries:
        epochs.learn(begun)


def epochs_of_batches(segments: Iterable[Segment]) -> LeaderEpochs:
    """The start of each leader epoch by the headers of all batches. Waits for the disk."""
    epochs = LeaderEpochs()
    for segment in segments:
        with suppress(DamagedBatchError):  # reads report the damage
            for _, fields in follow_batches(segment.file, 0, segment.size):
                epochs.assign(fields[2], fields[0])
    return epochs


def check_latest_epoch(segments: list[Segment], epochs: LeaderEpochs, health: DirectoryHealth) -> LeaderEpochs:
    """`epochs` of an opened log, or those of its batches if no batch has the latest one. Waits.

    A batch of a larger epoch changes nothing, because no checksum covers its epoch. With an empty active segment
    nothing is compared, because compaction may have removed the last batches before it.
    """
    active = segments[-1] if segments else None
    if active is None or not active.size or not epochs.entries:
        return epochs
    index, last_epoch = load_offset_index(active), epochs.latest_epoch
    with suppress(DamagedBatchError):  # reads report the damage
        for _, fields in follow_batches(active.file, index.positions[-1] if len(index) else 0, active.size):
            last_epoch = fields[2]
    if last_epoch >= epochs.latest_epoch:
        return epochs
    begun = epochs_of_batches(segments)
    if begun.latest_epoch >= epochs.latest_epoch:
        return epochs
    health.found(
        f"{active.directory}/{LEADER_EPOCH_CHECKPOINT}",
        f"damaged: no batch is of leader epoch {epochs.latest_epoch}, the latest one in the file; the leader epochs "
        "were read from the log",
    )
    return begun
