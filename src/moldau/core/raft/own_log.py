"""The ends, flushes and high watermark of this node's replica of the metadata log, in any role."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.raft.messages import NO_SNAPSHOT, SnapshotId
from moldau.core.raft.steps import (
    Appended,
    DiskFull,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    Output,
    SnapshotLoaded,
    SnapshotTaken,
    Tick,
    Truncated,
)
from moldau.core.raft.voters import VoterHistory
from moldau.errors import invariant
from moldau.types import Offset

FLUSH_RETRY_MS = 500


class OwnLog:
    """Begins with the recovered log. `end_offset_for_epoch`: as `Log.end_offset_for_epoch`."""

    def __init__(
        self,
        voters: VoterHistory,
        end_offset_for_epoch: Callable[[int], tuple[int, int]],
        *,
        log_end_offset: int,
        latest_epoch: int,
        snapshot: SnapshotId = NO_SNAPSHOT,
        oldest: SnapshotId = NO_SNAPSHOT,
    ) -> None:
        self.voters = voters
        self.end_offset_for_epoch = end_offset_for_epoch
        self.log_end_offset = log_end_offset
        self.snapshot = snapshot
        """The newest snapshot. Everything below its end is committed."""
        self.oldest = oldest
        """The snapshot at whose end the log begins."""
        self.latest_epoch = max(latest_epoch, oldest.epoch)
        """The epoch of the last batch, in the log or the snapshot; -1: both are empty."""
        self.flushed_offset = 0
        """0 until the first flush of this start, because the data of a killed process may be only in the page cache."""
        self.high_watermark = Offset(0)
        """0 until records are known to be committed, as in Kafka."""
        self._is_flushing = False
        self._retry_ms: int | None = None

    @property
    def is_flushed(self) -> bool:
        """Whether the whole log is on the disk."""
        return self.flushed_offset >= self.log_end_offset

    def take(self, event: Event, now_ms: int) -> None:
        """Takes an event about the log, before the roles do."""
        match event:
            case Appended():
                self.log_end_offset, self.latest_epoch = event.log_end_offset, event.latest_epoch
                self.voters.append(event.voters)
            case Truncated():
                self._end_at(event.log_end_offset, event.latest_epoch)
                self.voters.truncate_to(event.log_end_offset)
            case Flushed():
                self._is_flushing = False
                self.flushed_offset = max(self.flushed_offset, min(event.end_offset, self.log_end_offset))
            case SnapshotTaken():
                self.snapshot, self.oldest = event.snapshot, event.oldest
            case SnapshotLoaded():
                self._restart(event)
            case DiskFull():
                self._retry_ms = now_ms + FLUSH_RETRY_MS
            case Tick() if self._retry_ms is not None and now_ms >= self._retry_ms:
                self._retry_ms = None
                self._is_flushing = False

    def _end_at(self, log_end_offset: int, latest_epoch: int) -> None:
        invariant(log_end_offset >= self.high_watermark, "the metadata log is cut below its high watermark")
        self.log_end_offset = log_end_offset
        self.latest_epoch = max(latest_epoch, self.oldest.epoch)
        self.flushed_offset = min(self.flushed_offset, log_end_offset)

    def _restart(self, event: SnapshotLoaded) -> None:
        self.snapshot = self.oldest = event.snapshot
        self._end_at(event.snapshot.end_offset, event.snapshot.epoch)
        self.flushed_offset = event.snapshot.end_offset
        if event.voters is not None:
            self.voters.restart(event.snapshot.end_offset, event.voters)

    def next_deadline_ms(self) -> int | None:
        """When to retry a flush that found the disk full; None: no retry is due."""
        return self._retry_ms

    def flush(self) -> tuple[Output, ...]:
        """Requests a flush if one is needed and none runs. Appends in the meantime go with the next flush."""
        if self._is_flushing or self.is_flushed:
            return ()
        self._is_flushing = True
        return (Flush(),)

    def advance(self, high_watermark: int) -> tuple[Output, ...]:
        """Moves the high watermark forward, never back."""
        if high_watermark <= self.high_watermark or high_watermark < self.snapshot.end_offset:
            return ()
        self.high_watermark = Offset(high_watermark)
        return (HighWatermarkMoved(self.high_watermark),)

    def is_covered_by(self, last_epoch: int, log_end_offset: int) -> bool:
        """Whether a log with that end has everything that this one may have committed. A voter checks it before it
        votes."""
        return (last_epoch, log_end_offset) >= (self.latest_epoch, self.log_end_offset)

    def snapshot_for(self, offset: int, last_fetched_epoch: int) -> SnapshotId | None:
        """The snapshot that a replica with such a log end needs; None: it can continue from there (KIP-630)."""
        oldest = self.oldest
        if oldest.end_offset == 0:
            return None
        is_same = last_fetched_epoch == oldest.epoch or (
            offset > oldest.end_offset and last_fetched_epoch > oldest.epoch
        )
        return None if offset >= oldest.end_offset and is_same else self.snapshot
