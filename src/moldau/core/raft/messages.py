"""The messages between nodes of the quorum: the fields of Kafka's requests that decisions need.

Vote (KIP-595, pre-vote KIP-996), BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata log, FetchSnapshot (KIP-630),
AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (KIP-853). Errors are Kafka's names, "" for none. Every response has the
sender's epoch and leader, so that a slow node learns them from any response.
"""

from __future__ import annotations

import msgspec

from moldau.core.raft.voters import ReplicaKey
from moldau.types import Buffer
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter

NOBODY = -1


class SnapshotId(msgspec.Struct, frozen=True, order=True):
    """The snapshot of all records below `end_offset`. `epoch`: of the last of them."""

    end_offset: int
    epoch: int


NO_SNAPSHOT = SnapshotId(0, -1)


# --- requests ---


class Vote(msgspec.Struct, frozen=True):
    """`leader_epoch`: in a pre-vote the candidate's epoch, else the epoch that it wants to lead. `voter`: the receiver
    as the sender knows it. The candidate's log ends at `log_end_offset`, with a batch of `last_epoch`."""

    leader_epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    last_epoch: int
    log_end_offset: int
    is_pre_vote: bool


class BeginQuorumEpoch(msgspec.Struct, frozen=True):
    """`leader_id` leads in `leader_epoch`."""

    leader_id: int
    leader_epoch: int


class EndQuorumEpoch(msgspec.Struct, frozen=True):
    """`leader_id` no longer leads. `preferred_successors`: those with most of its log first."""

    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[ReplicaKey, ...]


class Fetch(msgspec.Struct, frozen=True):
    """`replica` has everything below `offset` on disk. Without news the leader waits up to `max_wait_ms`. A high
    watermark above `high_watermark` is news too (KIP-1166). `last_fetched_epoch` -1: the log is empty."""

    replica: ReplicaKey
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int


class FetchSnapshot(msgspec.Struct, frozen=True):
    """The bytes of `snapshot` from `position` on."""

    replica: ReplicaKey
    leader_epoch: int
    snapshot: SnapshotId
    position: int


class AddVoter(msgspec.Struct, frozen=True):
    """Answered after the commit, or when the record is in the leader's log: a node that asks for itself must fetch to
    have it committed."""

    voter: VotersRecordVoter
    is_answered_when_committed: bool = True


class RemoveVoter(msgspec.Struct, frozen=True):
    voter: ReplicaKey


class UpdateVoter(msgspec.Struct, frozen=True):
    """The endpoints or versions of a voter have changed. `leader_epoch`: of the addressed leader, -1 for any."""

    voter: VotersRecordVoter
    is_answered_when_committed: bool = True
    leader_epoch: int = -1


VoterChange = AddVoter | RemoveVoter | UpdateVoter
Request = Vote | BeginQuorumEpoch | EndQuorumEpoch | Fetch | FetchSnapshot | VoterChange

# --- answers ---


class Standing(msgspec.Struct, frozen=True):
    """The leader that the sender knows; the whole response to requests that need no more."""

    error: str = ""
    leader_id: int = NOBODY
    leader_epoch: int = -1


class VoteAnswer(Standing, frozen=True):
    is_granted: bool = False


class VoterChangeAnswer(Standing, frozen=True):
    """`message`: the reason of a rejection, as in Apache Kafka."""

    message: str = ""


class FetchAnswer(Standing, frozen=True):
    """Records, or where the logs diverge (`diverging`: epoch and end offset), or the snapshot to fetch first."""

    high_watermark: int = -1
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None


class FetchSnapshotAnswer(Standing, frozen=True):
    """`data`: bytes of the snapshot of `size` bytes, from the requested position on."""

    size: int = 0
    data: Buffer = b""
