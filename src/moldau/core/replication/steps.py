"""The events that a replica of a partition takes, and the outputs that its driver performs for it, in order.

See replica for the machine. An event reports what happened; an output is a request to the world or news of the replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.throttles import NO_REPLICAS, ThrottledReplicas
from moldau.types import BrokerId, Buffer, LeaderEpoch, Offset

# --- events ---


class MetadataChanged(msgspec.Struct, frozen=True):
    """The metadata log says this of the partition now. `broker_epochs`: of the brokers that may be in sync, which are
    neither fenced nor shutting down (KIP-903); may be a mapping that its owner keeps as of now."""

    partition: PartitionImage
    broker_epochs: Mapping[int, int]


class SettingsChanged(msgspec.Struct, frozen=True):
    """The settings of the topic are these now."""

    settings: ReplicationSettings


class Copied(msgspec.Struct, frozen=True):
    """To a follower: an Append was performed. Where the log ends now, and the leader epoch of its last batch. (That a
    leader appended is no event, but a call: see Leader.appended.)"""

    log_end_offset: int
    latest_epoch: int


class Flushed(msgspec.Struct, frozen=True):
    """Everything below `end_offset` is on the disk of this replica."""

    end_offset: int


class Asking(msgspec.Struct):
    """When a follower asked last for all that it follows; its owner, who knows the session of its fetches, keeps it as
    of now."""

    asked_ms: int

    def again(self, now_ms: int) -> None:
        """The follower asks now for all that it follows."""
        self.asked_ms = now_ms


class FetchedUpTo(msgspec.Struct, frozen=True):
    """To a leader: `replica_id` asks for what begins at `offset`, and has everything below, from `log_start_offset` on
    (-1: not told). `asking`: as long as this is the last event of that follower, it asks for the same again and again,
    the last time then.

    Only for a request that `check_fetch` let pass and that found no diverging epoch.
    """

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    log_start_offset: int = -1
    asking: Asking | None = None


class IsrAnswered(msgspec.Struct, frozen=True):
    """To a leader: the controller's answer to the ProposeIsr of `partition_epoch`. `accepted`: the partition from now
    on; else `error` is Kafka's name of the refusal, or REQUEST_TIMED_OUT where no answer came."""

    partition_epoch: int
    accepted: PartitionImage | None = None
    error: str = ""


class FetchAnswered(msgspec.Struct, frozen=True):
    """To a follower: the leader of `leader_epoch` answered the FetchFrom of `fetch_offset`. `diverging` is the leader's
    (epoch, end offset) where the logs part (KIP-595); there are no records then."""

    leader_epoch: int
    fetch_offset: int
    high_watermark: int
    records: Buffer = b""
    diverging: tuple[int, int] | None = None


class FetchOutOfRange(msgspec.Struct, frozen=True):
    """To a follower: the FetchFrom of `fetch_offset` names an offset outside of the log of the leader of
    `leader_epoch`, which reaches from `log_start_offset` to `log_end_offset`."""

    leader_epoch: int
    fetch_offset: int
    log_start_offset: int
    log_end_offset: int


class FetchFailed(msgspec.Struct, frozen=True):
    """To a follower: the leader of `leader_epoch` refused the fetch or did not answer, or the disk had no room."""

    leader_epoch: int
    is_disk_full: bool = False


class Truncated(msgspec.Struct, frozen=True):
    """To a follower: a TruncateTo or a StartAt was performed, and the log ends here now: after a TruncateTo perhaps
    before the offset asked for, where that lies inside a batch."""

    log_end_offset: int
    latest_epoch: int


class Tick(msgspec.Struct, frozen=True):
    """Time has passed: due at `next_deadline_ms`, harmless at any time."""


Event = (
    MetadataChanged
    | SettingsChanged
    | Copied
    | Flushed
    | FetchedUpTo
    | IsrAnswered
    | FetchAnswered
    | FetchOutOfRange
    | FetchFailed
    | Truncated
    | Tick
)

# --- outputs ---


class LeadershipBegan(msgspec.Struct, frozen=True):
    """Note in the log that `leader_epoch` begins at the log end, before anything else of this epoch (KIP-101)."""

    leader_epoch: LeaderEpoch


class LeadershipEnded(msgspec.Struct, frozen=True):
    """Nobody waits for acknowledgements of `leader_epoch` here any more: refuse what waits."""

    leader_epoch: LeaderEpoch


class HighWatermarkMoved(msgspec.Struct, frozen=True):
    """Consumers may read up to the high watermark of the position now. It goes back only with a truncation below it,
    which only an unclean election can cause."""


class LowWatermarkMoved(msgspec.Struct, frozen=True):
    """The log of a follower begins later now: perhaps all replicas have dropped what was deleted (KIP-107)."""


class NoRoom(msgspec.Struct, frozen=True):
    """An append found no room on the disk. Of the log, not of the replica: the partition says it by itself."""


class ProposeIsr(msgspec.Struct, frozen=True):
    """AlterPartition (KIP-497): ask the controller for these in-sync replicas, each with its broker epoch (KIP-903);
    answered with IsrAnswered."""

    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class TruncateTo(msgspec.Struct, frozen=True):
    """Drop what reaches to `offset` or beyond, with what the checkpoints say of it, then step with Truncated."""

    offset: Offset


class StartAt(msgspec.Struct, frozen=True):
    """Drop the whole log, which ends before the leader's begins, and begin it anew at `offset`; then step with
    Truncated."""

    offset: Offset


class Append(msgspec.Struct, frozen=True):
    """Append the leader's batches as they are, then step with Copied, or FetchFailed where that was impossible."""

    records: Buffer


class FetchFrom(msgspec.Struct, frozen=True):
    """Fetch from the leader; answered with FetchAnswered or FetchFailed. `last_fetched_epoch` -1: the log is empty."""

    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    offset: Offset
    last_fetched_epoch: int


Output = (
    LeadershipBegan
    | LeadershipEnded
    | HighWatermarkMoved
    | LowWatermarkMoved
    | NoRoom
    | ProposeIsr
    | TruncateTo
    | StartAt
    | Append
    | FetchFrom
)

MOVED: Final = (HighWatermarkMoved(),)
"""What nearly every append gives: made once."""


# --- what both roles know ---


class LogPosition(msgspec.Struct):
    """Where this replica stands. The high watermark is neither the log end nor the flushed offset."""

    log_end_offset: int
    latest_epoch: int
    flushed_offset: int
    high_watermark: int

    def advance(self, high_watermark: int) -> tuple[Output, ...]:
        """The high watermark goes forward, or stays."""
        if high_watermark <= self.high_watermark:
            return ()
        self.high_watermark = high_watermark
        return MOVED


class ReplicationSettings(msgspec.Struct, frozen=True):
    """Kafka's settings of the topic and the broker. `waits_for_flush`: `flush.messages=1`, what is not on the disk is
    not acknowledged by this replica."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_backoff_ms: int = 1_000
    waits_for_flush: bool = False
    throttled_at_leader: ThrottledReplicas = NO_REPLICAS
    throttled_at_follower: ThrottledReplicas = NO_REPLICAS
