"""The leader of an epoch: the progress of each replica, the commits, and the check for a majority (KIP-595).

**High watermark.** The records that a majority of the voters has on disk are committed, once they include a record of
this epoch. A record of an earlier epoch may be on a majority and still be replaced.

**Check quorum.** A leader without fetches from a majority may have an unknown successor. It resigns, so that clients
look for the other one.

**Fetches** without new records are parked, one for each replica, until records come or their time is over.
"""

from __future__ import annotations

import msgspec

from moldau.core.beat import beat_ms
from moldau.core.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    VoterChange,
    VoterChangeAnswer,
)
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.steps import (
    Answer,
    AnswerRecords,
    AnswerSnapshot,
    AppendControl,
    Appended,
    Ask,
    Event,
    Flushed,
    Output,
    QuorumSettings,
    Tick,
)
from moldau.core.raft.voter_changes import Progress, VoterChanges
from moldau.core.raft.voters import ReplicaKey
from moldau.core.replication.divergence import diverging_epoch
from moldau.errors import KafkaError
from moldau.types import LeaderEpoch, Offset
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.raft_records import LeaderChangeMessage, LeaderChangeMessageVoter
from moldau.wire.records.control import ControlType

OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""An observer without a fetch for this time is forgotten, as in Kafka."""


class _Parked(msgspec.Struct, frozen=True):
    request_id: int
    request: Fetch
    deadline_ms: int


class Leader:
    """Created after a won election. `begin` gives the first outputs of the epoch."""

    def __init__(
        self, node: ReplicaKey, log: OwnLog, settings: QuorumSettings, leader_epoch: LeaderEpoch, now_ms: int
    ) -> None:
        self.leader_epoch = leader_epoch
        self._node = node
        self._log = log
        self._settings = settings
        self._epoch_start_offset = log.log_end_offset
        """The offset of this epoch's first record."""
        self._began_ms = now_ms
        self._progress: dict[ReplicaKey, Progress] = {}
        """The progress of voters and observers, by their keys in the voter set."""
        self._parked: dict[ReplicaKey, _Parked] = {}
        self._announce_ms = now_ms
        self._changes = VoterChanges(log, leader_epoch, self._epoch_start_offset)

    # --- begin and end ---

    def begin(self) -> tuple[Output, ...]:
        """The first record of the epoch. The first leader of a cluster also writes the voters of the empty snapshot
        into the log (KIP-853)."""
        voters = tuple(LeaderChangeMessageVoter(key.node_id) for key in self._log.voters.latest.keys)
        change = LeaderChangeMessage(0, self._node.node_id, voters, (LeaderChangeMessageVoter(self._node.node_id),))
        first = self._log.voters.control_at(0).records() if self._log.log_end_offset == 0 else ()
        records = ((ControlType.LEADER_CHANGE, encode_message(change, 0)), *first)
        return (AppendControl(self.leader_epoch, records),)

    def end(self) -> tuple[Output, ...]:
        """Answers all waiting requests: this node no longer leads."""
        parked, self._parked = self._parked, {}
        fetches = (Answer(each.request_id, FetchAnswer("NOT_LEADER_OR_FOLLOWER")) for each in parked.values())
        return (*fetches, *self._changes.end())

    def farewell(self) -> tuple[Output, ...]:
        """EndQuorumEpoch to the other voters. Those with most of the log should try first."""
        others = self._log.voters.latest.others(self._node)
        successors = tuple(sorted(others, key=lambda key: -self._offset_of(key)))
        request = EndQuorumEpoch(self._node.node_id, self.leader_epoch, successors)
        return tuple(Ask(key.node_id, request) for key in others)

    def replicas(self, now_ms: int) -> dict[ReplicaKey, Progress]:
        """The progress of each replica. A voter that never fetched has none."""
        own = self._log.voters.latest.key_of(self._node) or self._node
        voters = {key: Progress() for key in self._log.voters.latest.keys}
        return {**voters, **self._progress, own: Progress(self._log.log_end_offset, now_ms, now_ms)}

    # --- time ---

    def check_quorum_ms(self) -> int | None:
        """When this leader resigns unless more voters fetch. None: it alone is a majority."""
        voters = self._log.voters.latest
        needed = voters.majority - (voters.key_of(self._node) is not None)
        if needed == 0:
            return None
        heard = sorted((self._heard_ms(key) for key in voters.others(self._node)), reverse=True)
        return heard[needed - 1] + self._settings.fetch_timeout_ms * 3 // 2

    def _heard_ms(self, key: ReplicaKey) -> int:
        return self._progress[key].fetched_ms if key in self._progress else self._began_ms

    def next_deadline_ms(self) -> int | None:
        """When a Tick is due: a parked fetch ends, BeginQuorumEpoch is due, or this leader resigns. None: no timer."""
        deadlines = [each.deadline_ms for each in self._parked.values()]
        check_ms = self.check_quorum_ms()
        if check_ms is not None:
            deadlines += [check_ms, self._announce_ms]
        return min(deadlines, default=None)

    # --- events ---

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event, after the log has, and returns the outputs."""
        match event:
            case Appended():
                return (*self._advance(), *self._answer_parked())
            case Flushed():
                return self._advance()
            case Tick():
                return (*self._announce(now_ms), *self._end_parked(now_ms))
        return ()

    @property
    def is_removed(self) -> bool:
        """Whether the removal of this voter is committed. It must stop leading then."""
        voters = self._log.voters
        return voters.latest.key_of(self._node) is None and voters.latest_offset < self._log.high_watermark

    def _announce(self, now_ms: int) -> tuple[Output, ...]:
        """BeginQuorumEpoch to the voters without a recent fetch."""
        if now_ms < self._announce_ms:
            return ()
        interval_ms = self._settings.fetch_timeout_ms // 2
        self._announce_ms = now_ms + interval_ms
        request = BeginQuorumEpoch(self._node.node_id, self.leader_epoch)
        return tuple(
            Ask(key.node_id, request)
            for key in self._log.voters.latest.others(self._node)
            if key not in self._progress or self._progress[key].fetched_ms <= now_ms - interval_ms
        )

    def _advance(self) -> tuple[Output, ...]:
        voters = self._log.voters.latest
        offsets = sorted((self._offset_of(key) for key in voters.keys), reverse=True)
        committed = offsets[voters.majority - 1]
        if committed <= self._epoch_start_offset:
            return ()
        moved = self._log.advance(committed)
        return (*moved, *self._changes.committed(), *self._answer_parked()) if moved else ()

    def _offset_of(self, key: ReplicaKey) -> int:
        if key == self._log.voters.latest.key_of(self._node):
            return self._log.flushed_offset
        return self._progress[key].offset if key in self._progress else 0

    # --- requests of replicas ---

    def fetch(self, request_id: int, request: Fetch, now_ms: int) -> tuple[Output, ...]:
        """Answers a Fetch of this epoch, or parks it until records come."""
        log = self._log
        key = self._heard(request.replica, now_ms)
        snapshot = log.snapshot_for(request.offset, request.last_fetched_epoch)
        if snapshot is not None:
            return (Answer(request_id, self._fetch_answer(snapshot=snapshot)),)
        if request.offset > 0:
            known = log.end_offset_for_epoch(request.last_fetched_epoch)
            try:
                diverging = diverging_epoch(known, request.offset, request.last_fetched_epoch)
            except KafkaError as error:
                return (Answer(request_id, self._fetch_answer(error.name)),)
            if diverging is not None:
                return (Answer(request_id, self._fetch_answer(diverging=diverging)),)
        progress = self._progress[key]
        progress.offset = request.offset
        if request.offset >= log.log_end_offset:
            progress.caught_up_ms = now_ms
        waiting = _Parked(request_id, request, beat_ms(now_ms, request.max_wait_ms))
        replaced = self._parked.pop(key, None)
        self._parked[key] = waiting
        outputs = (*(() if replaced is None else self._answer(replaced)), *self._advance())
        return (*outputs, *self._answer_parked(), *self._end_parked(now_ms))

    def fetch_snapshot(self, request_id: int, request: FetchSnapshot, now_ms: int) -> tuple[Output, ...]:
        """Answers a FetchSnapshot of this epoch."""
        self._heard(request.replica, now_ms)
        standing = FetchSnapshotAnswer("", self._node.node_id, self.leader_epoch)
        return (AnswerSnapshot(request_id, standing, request.snapshot, request.position),)

    def refusal(self, request: VoterChange) -> VoterChangeAnswer | None:
        """Why a change of voters is rejected, see VoterChanges."""
        return self._changes.refusal(request)

    def change_voters(self, request_id: int, request: VoterChange, now_ms: int) -> tuple[Output, ...]:
        """Begins a change of voters (KIP-853): see voter_changes."""
        fresh_ms = now_ms - self._settings.fetch_timeout_ms
        return self._changes.ask(request_id, request, self._progress, fresh_ms)

    def _heard(self, replica: ReplicaKey, now_ms: int) -> ReplicaKey:
        voters = self._log.voters.latest
        key = voters.key_of(replica) or replica
        if key not in self._progress:
            old_ms = now_ms - OBSERVER_SESSION_TIMEOUT_MS
            kept = {each: at for each, at in self._progress.items() if voters.key_of(each) or at.fetched_ms > old_ms}
            self._progress = {**kept, key: Progress()}
        self._progress[key].fetched_ms = now_ms
        return key

    def _fetch_answer(self, error: str = "", **found: object) -> FetchAnswer:
        answer = FetchAnswer(error, self._node.node_id, self.leader_epoch, self._told_high_watermark)
        return msgspec.structs.replace(answer, **found)

    @property
    def _told_high_watermark(self) -> int:
        """The reported high watermark: -1 until a record of this epoch is committed. Before that, a replica may know a
        higher one, and Apache Kafka's node stops if the high watermark goes back."""
        known = self._log.high_watermark
        return known if known > self._epoch_start_offset else -1

    def _answer(self, parked: _Parked) -> tuple[Output, ...]:
        return (AnswerRecords(parked.request_id, self._fetch_answer(), Offset(parked.request.offset)),)

    def _answer_parked(self) -> tuple[Output, ...]:
        """Answers the parked fetches that have news."""
        return self._answer_those(
            [
                key
                for key, each in self._parked.items()
                if each.request.offset < self._log.log_end_offset
                or each.request.high_watermark < min(self._told_high_watermark, each.request.offset)
            ]
        )

    def _end_parked(self, now_ms: int) -> tuple[Output, ...]:
        return self._answer_those([key for key, each in self._parked.items() if each.deadline_ms <= now_ms])

    def _answer_those(self, keys: list[ReplicaKey]) -> tuple[Output, ...]:
        return tuple(output for key in keys for output in self._answer(self._parked.pop(key)))
