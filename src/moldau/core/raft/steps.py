"""The events that a voter of the quorum takes, and the outputs that its driver performs for it, in order.

See quorum for the machine. An event reports what happened; an output is a request to the world or news of the voter.
"""

from __future__ import annotations

import msgspec

from moldau.types import ZERO_UUID, LeaderEpoch, Offset, uuid_to_text
from moldau.wire.records.control import ControlType

NOBODY = -1


class QuorumState(msgspec.Struct, frozen=True):
    """What a voter must not forget: the epoch it has reached, whom it voted for, who leads (KIP-595, 853).

    `voter_ids`: only data version 0 of the file keeps them here; None where they are records of the log.
    """

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: str = uuid_to_text(ZERO_UUID)
    voter_ids: tuple[int, ...] | None = None


# --- events ---


class Appended(msgspec.Struct, frozen=True):
    """The metadata log ends here now, and what was appended is applied: it may be committed."""

    log_end_offset: int


class Flushed(msgspec.Struct, frozen=True):
    """A Flush was performed: everything below `end_offset` is on the disk of this voter."""

    end_offset: int


class DiskFull(msgspec.Struct, frozen=True):
    """A Flush found no room for a file beside the log: it is asked for again."""


class Resign(msgspec.Struct, frozen=True):
    """This node stops cleanly, or its disk has failed: it leads no more."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed: due at `next_deadline_ms`, harmless at any time."""


Event = Appended | Flushed | DiskFull | Resign | Tick

# --- outputs ---


class Save(msgspec.Struct, frozen=True):
    """Make `state` durable before anything behind it is performed: an epoch or a vote that was forgotten could be given
    twice."""

    state: QuorumState


class AppendControl(msgspec.Struct, frozen=True):
    """Append these control records as one batch of `leader_epoch`, then step with Appended."""

    leader_epoch: LeaderEpoch
    records: tuple[tuple[ControlType, bytes], ...]


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


Output = Save | AppendControl | LeadershipBegan | LeadershipEnded | Flush | HighWatermarkMoved
