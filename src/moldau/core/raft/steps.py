"""The events that a node of the quorum takes, and the outputs that its driver performs for it, in order.

See quorum for the machine. An event reports what happened; an output is a request to the world or news of the node.
"""

from __future__ import annotations

import msgspec

from moldau.core.raft.messages import NOBODY, FetchAnswer, FetchSnapshotAnswer, Request, SnapshotId, Standing
from moldau.core.raft.voters import VoterSet
from moldau.types import ZERO_UUID, Buffer, LeaderEpoch, Offset, uuid_to_text
from moldau.wire.records.control import ControlType


class QuorumState(msgspec.Struct, frozen=True):
    """What a voter must not forget: the epoch it has reached, whom it voted for, who leads (KIP-595, 853).

    `voter_ids`: only data version 0 of the file keeps them here; None where they are records of the log.
    """

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: str = uuid_to_text(ZERO_UUID)
    voter_ids: tuple[int, ...] | None = None


class QuorumSettings(msgspec.Struct, frozen=True):
    """Kafka's `controller.quorum.*.timeout.ms` and `controller.quorum.retry.backoff.ms`; how long a leader may hold a
    fetch that finds nothing."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500


# --- events ---


class Asked(msgspec.Struct, frozen=True):
    """Another node, or an operator, asks; answered once by an output with this `request_id`, perhaps later."""

    request_id: int
    request: Request


class Answered(msgspec.Struct, frozen=True):
    """What came of an Ask; `answer` is None where none came in time."""

    node_id: int
    request: Request
    answer: Standing | None


class Appended(msgspec.Struct, frozen=True):
    """The metadata log ends here now, with a batch of `latest_epoch`, and what was appended is applied: it may be
    committed. `voters`: those among it (see `voter_sets_in`). Where an Append found no room, the end did not move."""

    log_end_offset: int
    latest_epoch: int
    voters: tuple[tuple[int, VoterSet], ...] = ()


class Truncated(msgspec.Struct, frozen=True):
    """A TruncateTo was performed: the log ends here now."""

    log_end_offset: int
    latest_epoch: int


class Flushed(msgspec.Struct, frozen=True):
    """A Flush was performed: everything below `end_offset` is on the disk of this voter."""

    end_offset: int


class DiskFull(msgspec.Struct, frozen=True):
    """A Flush found no room for a file beside the log: it is asked for again."""


class SnapshotTaken(msgspec.Struct, frozen=True):
    """`snapshot` is on the disk now, and the log begins at the end offset of `oldest`, the oldest one that is kept."""

    snapshot: SnapshotId
    oldest: SnapshotId


class SnapshotLoaded(msgspec.Struct, frozen=True):
    """A LoadSnapshot was performed: `snapshot` is all there is, and names these voters (None: they are configured)."""

    snapshot: SnapshotId
    voters: VoterSet | None


class SnapshotRefused(msgspec.Struct, frozen=True):
    """A LoadSnapshot was not performed, for the bytes that came are no whole snapshot: they are gone, and the log is as
    it was."""


class ConnectionLost(msgspec.Struct, frozen=True):
    """The other node ended the connection to it: it may have died."""

    node_id: int


class Resign(msgspec.Struct, frozen=True):
    """This node stops cleanly, or its disk has failed: it takes no part any more."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed: due at `next_deadline_ms`, harmless at any time."""


Event = (
    Asked
    | Answered
    | Appended
    | Truncated
    | Flushed
    | DiskFull
    | SnapshotTaken
    | SnapshotLoaded
    | SnapshotRefused
    | ConnectionLost
    | Resign
    | Tick
)

# --- outputs ---


class Save(msgspec.Struct, frozen=True):
    """Make `state` durable before anything behind it is performed: an epoch or a vote that was forgotten could be given
    twice."""

    state: QuorumState


class Ask(msgspec.Struct, frozen=True):
    """Send `request` to the node, then step with Answered."""

    node_id: int
    request: Request


class Answer(msgspec.Struct, frozen=True):
    """The answer to the Asked of `request_id`."""

    request_id: int
    answer: Standing


class AnswerRecords(msgspec.Struct, frozen=True):
    """Answer with `answer` and the records from `offset` up to the log end, as many as a Fetch gives."""

    request_id: int
    answer: FetchAnswer
    offset: Offset


class AnswerSnapshot(msgspec.Struct, frozen=True):
    """Answer with `answer`, and the size of `snapshot` and its bytes from `position` on, as many as a Fetch gives."""

    request_id: int
    answer: FetchSnapshotAnswer
    snapshot: SnapshotId
    position: int


class AppendControl(msgspec.Struct, frozen=True):
    """Append these control records as one batch of `leader_epoch`, then step with Appended."""

    leader_epoch: LeaderEpoch
    records: tuple[tuple[ControlType, bytes], ...]


class Append(msgspec.Struct, frozen=True):
    """Append the leader's batches as they are, then step with Appended."""

    records: Buffer


class TruncateTo(msgspec.Struct, frozen=True):
    """Drop what reaches to `offset` or beyond, take back what was applied of it, then step with Truncated."""

    offset: Offset


class SaveSnapshotPart(msgspec.Struct, frozen=True):
    """Write `data` at `position` of the file of `snapshot`, under a name that no start reads."""

    snapshot: SnapshotId
    position: int
    data: Buffer


class LoadSnapshot(msgspec.Struct, frozen=True):
    """The parts are complete: make `snapshot` durable, let it take the place of the log, which begins and ends at its
    end offset then, and step with SnapshotLoaded; with SnapshotRefused where it cannot be read."""

    snapshot: SnapshotId


class LeadershipBegan(msgspec.Struct, frozen=True):
    """This voter leads: its controller decides from now on."""

    leader_epoch: LeaderEpoch


class LeadershipEnded(msgspec.Struct, frozen=True):
    """The controller of `leader_epoch` decides no more. What it applied above the high watermark is to be taken back:
    nobody knows whether that will be committed."""

    leader_epoch: LeaderEpoch


class Flush(msgspec.Struct, frozen=True):
    """Put everything up to the log end on the disk, then step with Flushed or DiskFull. There is one at a time."""


class HighWatermarkMoved(msgspec.Struct, frozen=True):
    """Everything below `high_watermark` is committed. It never goes back."""

    high_watermark: Offset


Output = (
    Save
    | Ask
    | Answer
    | AnswerRecords
    | AnswerSnapshot
    | AppendControl
    | Append
    | TruncateTo
    | SaveSnapshotPart
    | LoadSnapshot
    | LeadershipBegan
    | LeadershipEnded
    | Flush
    | HighWatermarkMoved
)
