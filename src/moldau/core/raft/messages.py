"""What the nodes of a quorum ask each other: the fields of Kafka's requests that its decisions rest on.

Vote (KIP-595, pre-vote KIP-996), BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata log, FetchSnapshot (KIP-630),
AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (KIP-853). Errors are Kafka's names, "" for none. Every answer says whom
its sender knows as the leader, and in which epoch: a node that lags learns it from any answer.
"""

from __future__ import annotations

import msgspec

from moldau.core.raft.voters import ReplicaKey
from moldau.types import Buffer
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter

NOBODY = -1


class SnapshotId(msgspec.Struct, frozen=True, order=True):
    """A snapshot stands for all records below `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int


NO_SNAPSHOT = SnapshotId(0, -1)


# --- requests ---


class Vote(msgspec.Struct, frozen=True):
    """`leader_epoch`: in a pre-vote that of the candidate, else the one that it wants to lead. `voter`: whom it takes
    the receiver for. The candidate's log ends at `log_end_offset`, with a batch of `last_epoch`."""

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
    """`leader_id` leads no more; `preferred_successors` have most of its log, in this order."""

    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[ReplicaKey, ...]


class Fetch(msgspec.Struct, frozen=True):
    """`replica` has everything below `offset` on its disk. With nothing new the leader waits up to `max_wait_ms`; new
    is a high watermark above `high_watermark`, too (KIP-1166). `last_fetched_epoch` -1: the log is empty."""

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
    """Answered when the change is committed, or as soon as it stands in the leader's log: a node that asks for itself
    must fetch to have it committed."""

    voter: VotersRecordVoter
    is_answered_when_committed: bool = True


class RemoveVoter(msgspec.Struct, frozen=True):
    voter: ReplicaKey


class UpdateVoter(msgspec.Struct, frozen=True):
    """The endpoints or versions of a voter have changed. `leader_epoch`: of the leader that it means, -1 for any."""

    voter: VotersRecordVoter
    is_answered_when_committed: bool = True
    leader_epoch: int = -1


VoterChange = AddVoter | RemoveVoter | UpdateVoter
Request = Vote | BeginQuorumEpoch | EndQuorumEpoch | Fetch | FetchSnapshot | VoterChange

# --- answers ---


class Standing(msgspec.Struct, frozen=True):
    """Whom the sender knows as the leader; the whole answer to what asks for nothing else."""

    error: str = ""
    leader_id: int = NOBODY
    leader_epoch: int = -1


class VoteAnswer(Standing, frozen=True):
    is_granted: bool = False


class VoterChangeAnswer(Standing, frozen=True):
    """`message`: why not, as Apache Kafka says it."""

    message: str = ""


class FetchAnswer(Standing, frozen=True):
    """Records, or where the logs part (`diverging`: epoch and end offset), or which snapshot to fetch first."""

    high_watermark: int = -1
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None


class FetchSnapshotAnswer(Standing, frozen=True):
    """`data` is what the snapshot of `size` bytes has at the position asked for."""

    size: int = 0
    data: Buffer = b""
