"""A follower of a partition: it fetches and appends the leader's records, and truncates its log.

One fetch at a time: fetch, append, with `flush.messages=1` flush, and fetch again. The offset of a fetch tells the
leader that the follower has everything below. The fetch also has the epoch of the last batch. If the logs diverge, the
leader answers with the epoch and offset of that place, and the follower truncates there. It never truncates to its high
watermark, which may be below acknowledged records (KIP-101, KIP-595).

A follower whose log ends before the leader's begins starts again at that beginning. One that ends after the leader's
end, in an epoch unknown to the leader, truncates to that end: as in Kafka, the leader's log counts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.divergence import truncation_offset
from moldau.core.replication.steps import (
    MOVED,
    Append,
    Copied,
    Event,
    FetchAnswered,
    FetchFailed,
    FetchFrom,
    FetchOutOfRange,
    Flushed,
    LogPosition,
    Output,
    ReplicationSettings,
    SettingsChanged,
    StartAt,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.types import LeaderEpoch, Offset

FULL_DISK_BACKOFFS = 10
"""How many backoffs a follower with a full disk waits, because it cannot keep the records that it fetches."""


class _State(enum.Enum):
    FETCHING = "fetching"
    APPENDING = "appending"
    FLUSHING = "flushing"
    TRUNCATING = "truncating"
    STARTING_ANEW = "starting anew"
    BACKING_OFF = "backing off"


class Follower:
    """The follower in one leader epoch of another broker; replica creates it."""

    def __init__(
        self,
        position: LogPosition,
        settings: ReplicationSettings,
        partition: PartitionImage,
        end_offset_for_epoch: Callable[[int], tuple[int, int]],
    ) -> None:
        self.position = position
        self.settings = settings
        self.leader_id = partition.leader
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self._end_offset_for_epoch = end_offset_for_epoch
        self._leader_high_watermark = 0
        self._state = _State.FETCHING
        self._retry_ms: int | None = None

    @property
    def lag(self) -> int:
        """The committed records of the leader, as far as it has reported, that this replica lacks."""
        return max(0, self._leader_high_watermark - self.position.log_end_offset)

    def begin(self, now_ms: int) -> tuple[Output, ...]:
        """The first fetch. Unflushed appends of an earlier leadership are flushed first, if necessary."""
        return self._fetch()

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event, and returns the outputs in order. An event of another state or epoch has none."""
        match event:
            case FetchAnswered():
                return self._answered(event)
            case Copied() if self._state is _State.APPENDING:
                self._end_at(event)
                return (*self._advance(), *self._fetch())
            case Truncated() if self._state is _State.TRUNCATING:
                self._end_at(event)
                return (*self._lower(), *self._fetch())
            case Truncated() if self._state is _State.STARTING_ANEW:
                self._end_at(event)
                self.position.high_watermark = event.log_end_offset
                return (*MOVED, *self._fetch())
            case FetchOutOfRange() if self._is_answer(event):
                return self._out_of_range(event, now_ms)
            case Flushed() | SettingsChanged() if self._state is _State.FLUSHING:
                return self._fetch()
            case FetchFailed() if event.leader_epoch == self.leader_epoch:
                self._back_off(now_ms, FULL_DISK_BACKOFFS if event.is_disk_full else 1)
            case Tick() if self._retry_ms is not None and now_ms >= self._retry_ms:
                return self._fetch()
        return ()

    def next_deadline_ms(self) -> int | None:
        """When a failed fetch is retried; None: no timer."""
        return self._retry_ms

    def _fetch(self) -> tuple[Output, ...]:
        position = self.position
        self._retry_ms = None
        if self.settings.waits_for_flush and position.flushed_offset < position.log_end_offset:
            self._state = _State.FLUSHING
            return ()
        self._state = _State.FETCHING
        offset = Offset(position.log_end_offset)
        return (FetchFrom(self.leader_id, self.leader_epoch, offset, position.latest_epoch),)

    def _back_off(self, now_ms: int, times: int = 1) -> None:
        self._state = _State.BACKING_OFF
        self._retry_ms = now_ms + times * self.settings.replica_fetch_backoff_ms

    def _is_answer(self, event: FetchAnswered | FetchOutOfRange) -> bool:
        return (
            self._state is _State.FETCHING
            and event.leader_epoch == self.leader_epoch
            and event.fetch_offset == self.position.log_end_offset
        )

    def _out_of_range(self, event: FetchOutOfRange, now_ms: int) -> tuple[Output, ...]:
        log_end_offset = self.position.log_end_offset
        if event.log_end_offset < log_end_offset:
            self._state = _State.TRUNCATING
            return (TruncateTo(Offset(event.log_end_offset)),)
        if event.log_start_offset > log_end_offset:
            self._state = _State.STARTING_ANEW
            return (StartAt(Offset(event.log_start_offset)),)
        self._back_off(now_ms)
        return ()

    def _answered(self, event: FetchAnswered) -> tuple[Output, ...]:
        position = self.position
        if not self._is_answer(event):
            return ()
        if event.diverging is not None:
            self._state = _State.TRUNCATING
            known = self._end_offset_for_epoch(event.diverging[0])
            return (TruncateTo(truncation_offset(event.diverging, known, position.log_end_offset)),)
        self._leader_high_watermark = event.high_watermark
        if len(event.records):
            self._state = _State.APPENDING
            return (Append(event.records),)
        return (*self._advance(), *self._fetch())

    def _end_at(self, event: Copied | Truncated) -> None:
        position = self.position
        position.log_end_offset, position.latest_epoch = event.log_end_offset, event.latest_epoch
        position.flushed_offset = min(position.flushed_offset, event.log_end_offset)

    def _advance(self) -> tuple[Output, ...]:
        return self.position.advance(min(self._leader_high_watermark, self.position.log_end_offset))

    def _lower(self) -> tuple[Output, ...]:
        """Lowers the high watermark after an unclean election: the new leader's log counts, even without acknowledged
        records."""
        position = self.position
        if position.high_watermark <= position.log_end_offset:
            return ()
        position.high_watermark = position.log_end_offset
        return MOVED
