"""The events of a quorum node, and the outputs that its driver performs in order.

See quorum for the machine. An event reports a fact. An output is a request to the driver, or news about the node.
"""

from __future__ import annotations

import msgspec

from moldau.core.raft.messages import NOBODY, FetchAnswer, FetchSnapshotAnswer, Request, SnapshotId, Standing
from moldau.core.raft.voters import VoterSet
from moldau.types import ZERO_UUID, Buffer, LeaderEpoch, Offset, uuid_to_text
from moldau.wire.records.control import ControlType


class QuorumState(msgspec.Struct, frozen=True):
    """The durable state of a voter: its epoch, its vote, the leader (KIP-595, 853).

    `voter_ids`: only in data version 0 of the file. None: they are in the log.
    """

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: str = uuid_to_text(ZERO_UUID)
    voter_ids: tuple[int, ...] | None = None


class QuorumSettings(msgspec.Struct, frozen=True):
    """Kafka's `controller.quorum.*.timeout.ms` and `controller.quorum.retry.backoff.ms`, and the longest time that a
    leader parks a fetch."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500


# --- events ---


class Asked(msgspec.Struct, frozen=True):
    """A request of another node or an operator. One output with this `request_id` answers it, perhaps later."""

    request_id: int
    request: Request


class Answered(msgspec.Struct, frozen=True):
    """The result of an Ask. `answer` None: no response in time."""

    node_id: int
    request: Request
    answer: Standing | None


class Appended(msgspec.Struct, frozen=True):
    """The metadata log ends here now, with a batch of `latest_epoch`. The records are applied, so they may be
    committed. `voters`: the voter sets among them (see `voter_sets_in`). After an Append without room the end is
    unchanged."""

    log_end_offset: int
    latest_epoch: int
    voters: tuple[tuple[int, VoterSet], ...] = ()


class Truncated(msgspec.Struct, frozen=True):
    """A TruncateTo was performed. The log ends here now."""

    log_end_offset: int
    latest_epoch: int


class Flushed(msgspec.Struct, frozen=True):
    """A Flush was performed. Everything below `end_offset` is on the disk of this voter."""

    end_offset: int


class DiskFull(msgspec.Struct, frozen=True):
    """A Flush found no room for a file next to the log. It is requested again."""


class SnapshotTaken(msgspec.Struct, frozen=True):
    """`snapshot` is on the disk. The log begins at the end offset of `oldest`, the oldest snapshot that is kept."""

    snapshot: SnapshotId
    oldest: SnapshotId


class SnapshotLoaded(msgspec.Struct, frozen=True):
    """A LoadSnapshot was performed: the log is empty after `snapshot`, which has these voters (None: they are
    configured)."""

    snapshot: SnapshotId
    voters: VoterSet | None


class SnapshotRefused(msgspec.Struct, frozen=True):
    """A LoadSnapshot failed, because the bytes are no complete snapshot. They are deleted, and the log is unchanged."""


class ConnectionLost(msgspec.Struct, frozen=True):
    """The other node closed the connection, so it may have died."""

    node_id: int


class Resign(msgspec.Struct, frozen=True):
    """This node stops cleanly, or its disk has failed. It no longer participates."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Due at `next_deadline_ms`, harmless at any time."""


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
    """Make `state` durable before later outputs are performed. Otherwise a lost epoch or vote could be used twice."""

    state: QuorumState


class Ask(msgspec.Struct, frozen=True):
    """Send `request` to the node, then step with Answered."""

    node_id: int
    request: Request


class Answer(msgspec.Struct, frozen=True):
    """The response to the Asked with `request_id`."""

    request_id: int
    answer: Standing


class AnswerRecords(msgspec.Struct, frozen=True):
    """Send `answer` with the records from `offset` on, as many as a Fetch returns."""

    request_id: int
    answer: FetchAnswer
    offset: Offset


class AnswerSnapshot(msgspec.Struct, frozen=True):
    """Send `answer` with the size of `snapshot` and its bytes from `position` on, as many as a Fetch returns."""

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
    """Drop the batches that reach to `offset` or beyond, undo their effects, then step with Truncated."""

    offset: Offset


class SaveSnapshotPart(msgspec.Struct, frozen=True):
    """Write `data` at `position` of the file of `snapshot`, under a temporary name."""

    snapshot: SnapshotId
    position: int
    data: Buffer


class LoadSnapshot(msgspec.Struct, frozen=True):
    """All parts are there: make `snapshot` durable and replace the log, which then begins and ends at its end offset.
    Step with SnapshotLoaded, or with SnapshotRefused if it is unreadable."""

    snapshot: SnapshotId


class LeadershipBegan(msgspec.Struct, frozen=True):
    """This voter leads. Its controller decides from now on."""

    leader_epoch: LeaderEpoch


class LeadershipEnded(msgspec.Struct, frozen=True):
    """The controller of `leader_epoch` stops deciding. Undo its effects above the high watermark, because they may
    never be committed."""

    leader_epoch: LeaderEpoch


class Flush(msgspec.Struct, frozen=True):
    """Write everything up to the log end to the disk, then step with Flushed or DiskFull. At most one at a time."""


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
