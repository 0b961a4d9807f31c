"""Adds, removes and updates voters one at a time, each by a VotersRecord in the log (KIP-853).

Two voter sets that differ by one voter have a common voter in any two majorities, so a set may be in force before its
commit. That is true only from one committed set to the next. So a change waits for the previous one, and for the first
record of the leader's epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.metadata.features import KRAFT_VERSION
from moldau.core.raft.messages import AddVoter, RemoveVoter, UpdateVoter, VoterChange, VoterChangeAnswer
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.steps import Answer, AppendControl, Output
from moldau.core.raft.voters import ReplicaKey, VoterSet
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch, uuid_to_text
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.raft_records import VotersRecord, VotersRecordVoter
from moldau.wire.records.control import ControlType


class Progress(msgspec.Struct):
    """The progress of a replica, as the leader knows it."""

    offset: int = 0
    """The replica has everything below on its disk."""
    fetched_ms: int = 0
    caught_up_ms: int | None = None
    """When it last had everything."""


class VoterChanges:
    """The voter changes of one leader, one at a time."""

    def __init__(self, log: OwnLog, leader_epoch: LeaderEpoch, epoch_start_offset: int) -> None:
        self._log = log
        self._leader_epoch = leader_epoch
        self._epoch_start_offset = epoch_start_offset
        self._pending_id: int | None = None
        self._pending_offset = 0

    def ask(
        self, request_id: int, request: VoterChange, progress: Mapping[ReplicaKey, Progress], fresh_ms: int
    ) -> tuple[Output, ...]:
        """`fresh_ms`: a replica that had everything since then has caught up."""
        refusal = self.refusal(request) or self._unfit(request, progress, fresh_ms)
        if refusal is not None:
            return (Answer(request_id, refusal),)
        voters = self._log.voters.latest
        changed = _changed(request, voters)
        if changed == voters:
            return (Answer(request_id, VoterChangeAnswer()),)
        record = encode_message(VotersRecord(voters=changed.voters), 0)
        append = AppendControl(self._leader_epoch, ((ControlType.KRAFT_VOTERS, record),))
        if isinstance(request, AddVoter | UpdateVoter) and not request.is_answered_when_committed:
            return (append, Answer(request_id, VoterChangeAnswer()))
        self._pending_id, self._pending_offset = request_id, self._log.log_end_offset
        return (append,)

    def refusal(self, request: VoterChange) -> VoterChangeAnswer | None:
        """Why this change is rejected now; None: it is possible, as far as known without the new voter."""
        voters = self._log.voters.latest
        doing = "removing" if isinstance(request, RemoveVoter) else "adding"
        if self._log.voters.kraft_version == 0:
            reason = f"Cluster doesn't support {doing} voter because the {KRAFT_VERSION} feature is 0"
            return VoterChangeAnswer("UNSUPPORTED_VERSION", message=reason)
        waited_for = self._waited_for()
        if waited_for:
            return _later(f"Request timed out waiting for {waited_for}")
        return _wrong(request, voters)

    def _waited_for(self) -> str:
        """The event that the next change must wait for; "" if it may begin."""
        log = self._log
        if self._pending_id is not None:
            return "leader to handle previous voter change request"
        if log.high_watermark > max(self._epoch_start_offset, log.voters.latest_offset):
            return ""
        if log.high_watermark <= self._epoch_start_offset:
            return "leader to establish HWM and fence previous voter changes"
        change = f"the latest voter change at {log.voters.latest_offset} with HWM {log.high_watermark}"
        return f"voters to commit {change}"

    def _unfit(
        self, request: VoterChange, progress: Mapping[ReplicaKey, Progress], fresh_ms: int
    ) -> VoterChangeAnswer | None:
        """The rejection of a new voter that has not caught up, because it would delay every commit."""
        if not isinstance(request, AddVoter):
            return None
        at = progress.get(_key_of(request.voter))
        if at is None or at.caught_up_ms is None or at.caught_up_ms < fresh_ms:
            return _later(f"Aborted add voter operation for {named(_key_of(request.voter))} since it is lagging behind")
        return None

    def committed(self) -> tuple[Output, ...]:
        """Continues after the high watermark has moved."""
        if self._pending_id is None or self._log.high_watermark <= self._pending_offset:
            return ()
        request_id, self._pending_id = self._pending_id, None
        return (Answer(request_id, VoterChangeAnswer()),)

    def end(self) -> tuple[Output, ...]:
        """The leadership ends. The next leader may commit the pending change or not."""
        request_id, self._pending_id = self._pending_id, None
        return () if request_id is None else (Answer(request_id, VoterChangeAnswer("NOT_LEADER_OR_FOLLOWER")),)


def _key_of(voter: VotersRecordVoter) -> ReplicaKey:
    return ReplicaKey(BrokerId(voter.voter_id), voter.voter_directory_id)


def _later(message: str) -> VoterChangeAnswer:
    return VoterChangeAnswer("REQUEST_TIMED_OUT", message=message)


def _wrong(request: VoterChange, voters: VoterSet) -> VoterChangeAnswer | None:
    """The rejection of a change that contradicts these voters; None if it is possible."""
    known = ", ".join(map(named, voters.keys))
    match request:
        case AddVoter() if voters.has_node(request.voter.voter_id):
            name = named(_key_of(request.voter))
            reason = f"The voter id for {name} is already part of the set of voters [{known}]."
            return VoterChangeAnswer("DUPLICATE_VOTER", message=reason)
        case RemoveVoter() if request.voter not in voters.keys or len(voters.voters) == 1:
            reason = f"Cannot remove voter {named(request.voter)} from the set of voters [{known}]"
            return VoterChangeAnswer("VOTER_NOT_FOUND", message=reason)
        case UpdateVoter() if _key_of(request.voter) not in voters.keys:
            return VoterChangeAnswer("VOTER_NOT_FOUND")
    return None


def named(key: ReplicaKey) -> str:
    """The key as Kafka prints a ReplicaKey."""
    directory = "<undefined>" if key.directory_id == ZERO_UUID else uuid_to_text(key.directory_id)
    return f"ReplicaKey(id={key.node_id}, directoryId={directory})"


def _changed(request: VoterChange, voters: VoterSet) -> VoterSet:
    if isinstance(request, RemoveVoter):
        return voters.without(request.voter)
    return voters.with_voter(request.voter)
