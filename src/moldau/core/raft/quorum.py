"""One voter of the quorum as a step machine (KIP-595): who leads, in which epoch, and what is committed.

    begin(now_ms), step(event, now_ms) -> outputs     performed by the driver in their order, each before the next event
    next_deadline_ms()                                when a Tick is due; None: nothing waits for time

Deterministic, without callbacks or futures, as core/replication/replica. The driver owns the metadata log, the file
`quorum-state` and the clock. A remote fault will be an event and never an exception.

**Election.** Each start is an election in a new epoch, which lies above every epoch in `quorum-state` and in the log.
So far this node is the only voter: its own vote is the majority. The epoch is saved before the log says it.

**High watermark.** What a majority of the voters has on the disk is committed; here that is what this voter has
flushed. One flush runs at a time, and what is appended meanwhile goes with the next one. A disk without room is asked
again after a while: what is in the log stays there.

**Resignation.** A voter that resigned decides nothing until the next start. The state is not saved: a start is an
election in any case.
"""

from __future__ import annotations

from moldau.core.metadata.snapshot import QuorumControl
from moldau.core.raft.steps import (
    AppendControl,
    Appended,
    DiskFull,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    Output,
    QuorumState,
    Resign,
    Save,
    Tick,
)
from moldau.types import BrokerId, LeaderEpoch, Offset
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.raft_records import LeaderChangeMessage, LeaderChangeMessageVoter
from moldau.wire.records.control import ControlType

FLUSH_RETRY_MS = 500


class Quorum:
    """`saved`: what `quorum-state` holds; `control`: what the control records of the log say; `latest_epoch`: of the
    last batch in the log."""

    def __init__(
        self,
        node_id: BrokerId,
        saved: QuorumState | None,
        control: QuorumControl,
        *,
        log_end_offset: int,
        latest_epoch: int,
    ) -> None:
        self.node_id = node_id
        self.leader_epoch = LeaderEpoch(max(latest_epoch, 0 if saved is None else saved.leader_epoch))
        self.high_watermark = Offset(0)
        """0 until something of this start's epoch is committed, as in Kafka."""
        self._control = control
        self._log_end_offset = log_end_offset
        self._flushed_offset = 0
        self.is_leader = False
        self._is_flushing = False
        self._retry_ms: int | None = None

    def begin(self, now_ms: int) -> tuple[Output, ...]:
        """The election at the start."""
        self.leader_epoch = LeaderEpoch(self.leader_epoch + 1)
        self.is_leader = True
        voter_ids = (self.node_id,) if self._control.voters is None else None
        return (
            Save(QuorumState(self.node_id, self.leader_epoch, voter_ids=voter_ids)),
            AppendControl(self.leader_epoch, self._first_records()),
            LeadershipBegan(self.leader_epoch),
        )

    def _first_records(self) -> tuple[tuple[ControlType, bytes], ...]:
        voter = LeaderChangeMessageVoter(self.node_id)
        change = LeaderChangeMessage(0, self.node_id, (voter,), (voter,))
        # the first voters stand in a snapshot of nothing; the first leader writes them into the log (KIP-853)
        voters = self._control.records() if self._log_end_offset == 0 else ()
        return ((ControlType.LEADER_CHANGE, encode_message(change, 0)), *voters)

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event; a voter that resigned takes none. `now_ms`: steady time."""
        if not self.is_leader:
            return ()
        match event:
            case Appended():
                self._log_end_offset = event.log_end_offset
            case Flushed():
                self._is_flushing = False
                self._flushed_offset = max(self._flushed_offset, min(event.end_offset, self._log_end_offset))
            case DiskFull():
                self._retry_ms = now_ms + FLUSH_RETRY_MS
            case Tick() if self._retry_ms is not None and now_ms >= self._retry_ms:
                self._retry_ms = None
                self._is_flushing = False
            case Resign():
                self.is_leader = False
                self._retry_ms = None
                return (LeadershipEnded(self.leader_epoch),)
        return (*self._advance(), *self._flush())

    def next_deadline_ms(self) -> int | None:
        """When the next Tick is due, in steady time; None: none is."""
        return self._retry_ms

    def _advance(self) -> tuple[Output, ...]:
        if self._flushed_offset <= self.high_watermark:
            return ()
        self.high_watermark = Offset(self._flushed_offset)
        return (HighWatermarkMoved(self.high_watermark),)

    def _flush(self) -> tuple[Output, ...]:
        if self._is_flushing or self._flushed_offset >= self._log_end_offset:
            return ()
        self._is_flushing = True
        return (Flush(),)
