"""A follower of the quorum: it fetches, appends and flushes records, and truncates its log (KIP-595, 630).

It sends one request at a time. A fetch tells the leader that everything below its offset is on this disk, so it waits
for the flush. If the logs diverge, the response says where, and the follower truncates there, never below its high
watermark. Or the response names a snapshot, which is fetched in parts and replaces the log.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from moldau.core.raft.membership import Membership
from moldau.core.raft.messages import Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer, Request, SnapshotId
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.steps import (
    Answered,
    Append,
    Appended,
    Ask,
    Event,
    Flushed,
    LoadSnapshot,
    Output,
    QuorumSettings,
    SaveSnapshotPart,
    SnapshotLoaded,
    SnapshotRefused,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.core.raft.voters import ReplicaKey
from moldau.core.replication.divergence import truncation_offset
from moldau.types import LeaderEpoch

LOST_LEADER_TIMEOUT_MS = 500
"""How long a leader that closed its connection may take to respond on another. Kafka waits for its fetch timeout."""
LOST_LEADER_STEP_MS = 100
"""Voters lose the connection at the same time. Each waits this much longer than the last one, or votes are split."""


class _State(enum.Enum):
    FLUSHING = "flushing"
    ASKING = "asking"
    CHANGING = "changing the log"
    BACKING_OFF = "backing off"


class Follower:
    """The follower in one epoch of a leader. `deadline_ms`: when it gives the leader up without a response."""

    def __init__(
        self,
        node: ReplicaKey,
        log: OwnLog,
        settings: QuorumSettings,
        leader_id: int,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        membership: Membership | None = None,
    ) -> None:
        """`membership`: the wanted change of this node's voter entry; None: no change."""
        self.leader_id = leader_id
        self.deadline_ms = now_ms + settings.fetch_timeout_ms
        self.has_fetched = False
        """Whether the leader has responded: then no pre-vote against it is granted."""
        self._node = node
        self._log = log
        self._settings = settings
        self._leader_epoch = leader_epoch
        self._leader_high_watermark = 0
        self._told_high_watermark = -1
        """The highest high watermark that the leader has reported, even in a response that does not confirm this log.
        -1: none yet, because no record of its epoch is committed."""
        self._state = _State.FLUSHING
        self._asked: Request | None = None
        self._log_end_before = 0
        self._retry_ms: int | None = None
        self._membership = membership
        self._next_change_ms = now_ms

    @property
    def has_all_committed(self) -> bool:
        """Whether this node has all records that the leader has reported as committed."""
        return 0 <= self._told_high_watermark <= self._log.high_watermark

    def begin(self) -> tuple[Output, ...]:
        """The first fetch of this epoch. Nothing until the log is flushed, because a fetch promises that."""
        return self._fetch()

    def leader_ended(self, deadline_ms: int) -> None:
        """The leader resigns. The preferred successors try first."""
        self.has_fetched = False
        self.deadline_ms = deadline_ms

    def leader_lost(self, now_ms: int, place: int) -> None:
        """The leader's process has probably died. Without a response soon this node gives it up, as others do. `place`:
        of this node among the remaining voters."""
        self.has_fetched = False
        wait_ms = LOST_LEADER_TIMEOUT_MS + place * LOST_LEADER_STEP_MS
        self.deadline_ms = min(self.deadline_ms, now_ms + wait_ms)

    def next_deadline_ms(self) -> int:
        """When a Tick is due, to retry a fetch or to give up the leader."""
        return self.deadline_ms if self._retry_ms is None else min(self._retry_ms, self.deadline_ms)

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event, after the log has, and returns the outputs."""
        match event:
            case Answered() if self._state is _State.ASKING and event.request == self._asked:
                return self._take_answer(event, now_ms)
            case Appended() if self._state is _State.CHANGING:
                return self._fetch() if self._log.log_end_offset > self._log_end_before else self._back_off(now_ms)
            case Appended() if isinstance(self._asked, Fetch) and self._asked.offset != self._log.log_end_offset:
                return self._fetch()  # this node was the leader until now, and its last append has just ended
            case Truncated() | SnapshotLoaded() if self._state is _State.CHANGING:
                if isinstance(event, SnapshotLoaded):
                    self._leader_high_watermark = max(self._leader_high_watermark, event.snapshot.end_offset)
                return (*self._advance(), *self._fetch())
            case SnapshotRefused() if self._state is _State.CHANGING:
                # half of the timeout: a leader that sends the same bytes again and again still counts as the leader
                return self._back_off(now_ms, self._settings.fetch_timeout_ms // 2)
            case Flushed() if self._state is _State.FLUSHING:
                return (*self._advance(), *self._fetch())
            case Tick() if self._retry_ms is not None and now_ms >= self._retry_ms:
                self._retry_ms = None
                return self._fetch()
        return ()

    def _advance(self) -> tuple[Output, ...]:
        return self._log.advance(min(self._leader_high_watermark, self._log.flushed_offset))

    def _ask(self, request: Fetch | FetchSnapshot) -> tuple[Output, ...]:
        self._state, self._asked = _State.ASKING, request
        return (Ask(self.leader_id, request),)

    def _fetch(self) -> tuple[Output, ...]:
        log = self._log
        if not log.is_flushed:
            self._state = _State.FLUSHING
            return ()
        return self._ask(
            Fetch(
                self._node,
                self._leader_epoch,
                log.log_end_offset,
                log.latest_epoch,
                log.high_watermark,
                self._settings.fetch_max_wait_ms,
            )
        )

    def _fetch_part(self, snapshot: SnapshotId, position: int) -> tuple[Output, ...]:
        return self._ask(FetchSnapshot(self._node, self._leader_epoch, snapshot, position))

    def _back_off(self, now_ms: int, wait_ms: int = 0) -> tuple[Output, ...]:
        self._state = _State.BACKING_OFF
        self._retry_ms = now_ms + max(wait_ms, self._settings.retry_backoff_ms)
        return ()

    def _take_answer(self, event: Answered, now_ms: int) -> tuple[Output, ...]:
        request, answer = event.request, event.answer
        if answer is None or answer.error:
            return self._back_off(now_ms)
        self.deadline_ms = now_ms + self._settings.fetch_timeout_ms
        self.has_fetched = True
        if isinstance(answer, FetchAnswer):
            self._told_high_watermark = max(self._told_high_watermark, answer.high_watermark)
            return self._take_records(answer, now_ms)
        if isinstance(answer, FetchSnapshotAnswer) and isinstance(request, FetchSnapshot):
            return tuple(self._take_part(request, answer))
        return self._back_off(now_ms)

    def _take_records(self, answer: FetchAnswer, now_ms: int) -> tuple[Output, ...]:
        log = self._log
        if answer.snapshot is not None:
            return self._fetch_part(answer.snapshot, 0)
        if answer.diverging is not None:
            self._state = _State.CHANGING
            known = log.end_offset_for_epoch(answer.diverging[0])
            return (TruncateTo(truncation_offset(answer.diverging, known, log.log_end_offset)),)
        self._leader_high_watermark = answer.high_watermark
        if len(answer.records):
            self._state, self._log_end_before = _State.CHANGING, log.log_end_offset
            return (Append(answer.records),)
        return (*self._advance(), *self._ask_for_itself(now_ms), *self._fetch())

    def _ask_for_itself(self, now_ms: int) -> tuple[Output, ...]:
        """Requests the wanted voter change when no records are new, and again later if it is still not made."""
        wanted = None if self._membership is None else self._membership.wanted(self._log.voters, self._leader_epoch)
        if wanted is None or now_ms < self._next_change_ms:
            return ()
        self._next_change_ms = now_ms + self._settings.fetch_timeout_ms
        return (Ask(self.leader_id, wanted),)

    def _take_part(self, request: FetchSnapshot, answer: FetchSnapshotAnswer) -> Iterable[Output]:
        yield SaveSnapshotPart(request.snapshot, request.position, answer.data)
        position = request.position + len(answer.data)
        if position < answer.size:
            yield from self._fetch_part(request.snapshot, position)
        else:
            self._state = _State.CHANGING
            yield LoadSnapshot(request.snapshot)
