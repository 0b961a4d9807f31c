"""The requests of a node for itself: to join the voters (KIP-1186), and to update its address (KIP-853)."""

from __future__ import annotations

import msgspec

from moldau.core.raft.messages import AddVoter, RemoveVoter, UpdateVoter, VoterChange
from moldau.core.raft.voters import ReplicaKey, VoterHistory
from moldau.types import BrokerId, LeaderEpoch
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter


class Membership(msgspec.Struct, frozen=True):
    """`voter`: the wanted voter record of this node. `joins`: it should become a voter
    (`controller.quorum.auto.join.enable`)."""

    voter: VotersRecordVoter
    joins: bool

    def wanted(self, voters: VoterHistory, leader_epoch: LeaderEpoch) -> VoterChange | None:
        """The next change. A node that lost its directory removes its old voter first. That one may have voted, and
        this one does not know for whom."""
        if voters.kraft_version == 0:
            return None
        node = ReplicaKey(BrokerId(self.voter.voter_id), self.voter.voter_directory_id)
        for known in voters.latest.voters:
            key = ReplicaKey(BrokerId(known.voter_id), known.voter_directory_id)
            if key == node:
                is_told = _in_order(known) == _in_order(self.voter)
                return None if is_told else UpdateVoter(self.voter, False, leader_epoch)
            if key.node_id == node.node_id:
                return RemoveVoter(key) if self.joins else None
        return AddVoter(self.voter, is_answered_when_committed=False) if self.joins else None


def _in_order(voter: VotersRecordVoter) -> VotersRecordVoter:
    """The voter with its listeners sorted by name, because Apache Kafka writes them in another order."""
    points = tuple(sorted(voter.endpoints, key=lambda point: point.name))
    return msgspec.structs.replace(voter, endpoints=points)
