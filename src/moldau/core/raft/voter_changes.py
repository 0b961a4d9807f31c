"""Voters are added, removed and updated one at a time, each by a VotersRecord in the log (KIP-853).

Two sets that differ by one voter have a voter of every two majorities in common, so that a set may be in force before
it is committed. That holds only from one committed set to the next: a change waits for the one before it, and for the
first record of its leader's epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.raft.messages import AddVoter, RemoveVoter, Standing, UpdateVoter, VoterChange
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.steps import Answer, AppendControl, Output
from moldau.core.raft.voters import ReplicaKey, VoterSet
from moldau.types import BrokerId, LeaderEpoch
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.raft_records import VotersRecord, VotersRecordVoter
from moldau.wire.records.control import ControlType


class Progress(msgspec.Struct):
    """What the leader knows of a replica."""

    offset: int = 0
    """It has everything below on its disk."""
    fetched_ms: int = 0
    caught_up_ms: int | None = None
    """When it last had everything."""


class VoterChanges:
    """Of one leader. A change is answered when it is committed."""

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
        voters = self._log.voters.latest
        error = self._refusal(request) or _error_of(request, voters)
        if not error and isinstance(request, AddVoter):
            at = progress.get(_key_of(request.voter))
            if at is None or at.caught_up_ms is None or at.caught_up_ms < fresh_ms:
                error = "REQUEST_TIMED_OUT"
        if error:
            return (Answer(request_id, Standing(error)),)
        changed = _changed(request, voters)
        if changed == voters:
            return (Answer(request_id, Standing()),)
        self._pending_id, self._pending_offset = request_id, self._log.log_end_offset
        record = encode_message(VotersRecord(voters=changed.voters), 0)
        return (AppendControl(self._leader_epoch, ((ControlType.KRAFT_VOTERS, record),)),)

    def _refusal(self, request: VoterChange) -> str:
        log = self._log
        if log.voters.kraft_version == 0:
            return "UNSUPPORTED_VERSION"
        is_settled = log.high_watermark > max(self._epoch_start_offset, log.voters.latest_offset)
        return "" if is_settled and self._pending_id is None else "REQUEST_TIMED_OUT"

    def committed(self) -> tuple[Output, ...]:
        """The high watermark has moved."""
        if self._pending_id is None or self._log.high_watermark <= self._pending_offset:
            return ()
        request_id, self._pending_id = self._pending_id, None
        return (Answer(request_id, Standing()),)

    def end(self) -> tuple[Output, ...]:
        """The next leader may commit what is pending, or not."""
        request_id, self._pending_id = self._pending_id, None
        return () if request_id is None else (Answer(request_id, Standing("NOT_LEADER_OR_FOLLOWER")),)


def _key_of(voter: VotersRecordVoter) -> ReplicaKey:
    return ReplicaKey(BrokerId(voter.voter_id), voter.voter_directory_id)


def _error_of(request: VoterChange, voters: VoterSet) -> str:
    match request:
        case AddVoter():
            return "DUPLICATE_VOTER" if voters.has_node(request.voter.voter_id) else ""
        case RemoveVoter():
            return "" if request.voter in voters.keys and len(voters.voters) > 1 else "VOTER_NOT_FOUND"
        case UpdateVoter():
            return "" if _key_of(request.voter) in voters.keys else "VOTER_NOT_FOUND"


def _changed(request: VoterChange, voters: VoterSet) -> VoterSet:
    if isinstance(request, RemoveVoter):
        return voters.without(request.voter)
    return voters.with_voter(request.voter)
