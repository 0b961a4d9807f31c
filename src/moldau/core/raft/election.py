"""Elections of the quorum: when a node grants its vote, and when a round is won (KIP-595, 996)."""

from __future__ import annotations

from moldau.core.raft.messages import NOBODY, Vote
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.voters import ReplicaKey, VoterSet


class Waiting:
    """No known leader. Until `deadline_ms` this node only listens."""

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms


class Round:
    """A round of votes for this node. A pre-vote round begins no epoch. It asks whether an election could be won, so
    that a node that was cut off does not disturb others with ever higher epochs."""

    def __init__(self, node: ReplicaKey, voters: VoterSet, deadline_ms: int, *, is_pre_vote: bool) -> None:
        self.deadline_ms = deadline_ms
        self.is_pre_vote = is_pre_vote
        self._voters = voters
        self._votes: dict[int, bool] = {} if voters.key_of(node) is None else {node.node_id: True}

    def take(self, voter_id: int, *, is_granted: bool) -> None:
        """Counts one response. A voter has one vote."""
        if self._voters.has_node(voter_id):
            self._votes.setdefault(voter_id, is_granted)

    @property
    def is_won(self) -> bool:
        """Whether a majority of the voters voted for this node, itself included."""
        return sum(self._votes.values()) >= self._voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether no majority is possible any more."""
        return sum(not vote for vote in self._votes.values()) > len(self._voters.voters) - self._voters.majority


def is_vote_granted(
    request: Vote, log: OwnLog, leader_id: int, voted: ReplicaKey | None, *, has_working_leader: bool
) -> bool:
    """Whether this node, in the epoch of `request`, grants its vote: one in each epoch, and none if the epoch has a
    leader. A pre-vote costs nothing, but a node that hears from a leader rejects it."""
    if not log.is_covered_by(request.last_epoch, request.log_end_offset):
        return False
    if request.is_pre_vote:
        return not has_working_leader
    return leader_id == NOBODY and voted in (None, request.candidate)
