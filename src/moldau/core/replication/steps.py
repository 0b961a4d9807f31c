"""The events of a replica of a partition, and the outputs that its driver performs in order.

See replica for the machine. An event reports a fact. An output is a request to the driver, or news about the replica.
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
    """New metadata of the partition. `broker_epochs`: of the brokers that may be in sync, neither fenced nor shutting
    down (KIP-903). The owner may update this mapping."""

    partition: PartitionImage
    broker_epochs: Mapping[int, int]


class SettingsChanged(msgspec.Struct, frozen=True):
    """New settings of the topic."""

    settings: ReplicationSettings


class Copied(msgspec.Struct, frozen=True):
    """To a follower: an Append was performed. The log end, and the leader epoch of its last batch. (A leader's append
    is a call, see Leader.appended.)"""

    log_end_offset: int
    latest_epoch: int


class Flushed(msgspec.Struct, frozen=True):
    """Everything below `end_offset` is on the disk of this replica."""

    end_offset: int


class Asking(msgspec.Struct):
    """When a follower last asked for all its partitions. The owner, which knows the fetch session, updates it."""

    asked_ms: int

    def again(self, now_ms: int) -> None:
        """The follower asks now for all its partitions."""
        self.asked_ms = now_ms


class FetchedUpTo(msgspec.Struct, frozen=True):
    """To a leader: `replica_id` asks for records from `offset` on, and has everything from `log_start_offset` (-1:
    unknown) to there. `asking`: while this is the last event of that follower, it repeats the request, last at that
    time.

    Only for a request that passed `check_fetch` and has no diverging epoch.
    """

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    log_start_offset: int = -1
    asking: Asking | None = None


class IsrAnswered(msgspec.Struct, frozen=True):
    """To a leader: the controller's response to the ProposeIsr of `partition_epoch`. `accepted`: the new partition.
    Else `error` is Kafka's name of the error, REQUEST_TIMED_OUT without a response."""

    partition_epoch: int
    accepted: PartitionImage | None = None
    error: str = ""


class FetchAnswered(msgspec.Struct, frozen=True):
    """To a follower: the response of the leader of `leader_epoch` to the FetchFrom of `fetch_offset`. `diverging`: the
    leader's (epoch, end offset) where the logs diverge (KIP-595), without records."""

    leader_epoch: int
    fetch_offset: int
    high_watermark: int
    records: Buffer = b""
    diverging: tuple[int, int] | None = None


class FetchOutOfRange(msgspec.Struct, frozen=True):
    """To a follower: the FetchFrom of `fetch_offset` is outside of the log of the leader of `leader_epoch`, which goes
    from `log_start_offset` to `log_end_offset`."""

    leader_epoch: int
    fetch_offset: int
    log_start_offset: int
    log_end_offset: int


class FetchFailed(msgspec.Struct, frozen=True):
    """To a follower: the leader of `leader_epoch` rejected the fetch or did not answer, or the disk was full."""

    leader_epoch: int
    is_disk_full: bool = False


class Truncated(msgspec.Struct, frozen=True):
    """To a follower: a TruncateTo or a StartAt was performed. The log ends here now, after a TruncateTo perhaps before
    the requested offset, if that is inside a batch."""

    log_end_offset: int
    latest_epoch: int


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Due at `next_deadline_ms`, harmless at any time."""


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
    """Record in the log that `leader_epoch` begins at the log end, before anything else of this epoch (KIP-101)."""

    leader_epoch: LeaderEpoch


class LeadershipEnded(msgspec.Struct, frozen=True):
    """Reject the waits for acknowledgements of `leader_epoch`."""

    leader_epoch: LeaderEpoch


class HighWatermarkMoved(msgspec.Struct, frozen=True):
    """Consumers may read up to the new high watermark. It goes back only with a truncation below it, after an unclean
    election."""


class LowWatermarkMoved(msgspec.Struct, frozen=True):
    """The log of a follower begins later now, so all replicas may have dropped deleted records (KIP-107)."""


class NoRoom(msgspec.Struct, frozen=True):
    """An append found the disk full. It is about the log, not the replica; the partition creates it."""


class ProposeIsr(msgspec.Struct, frozen=True):
    """AlterPartition (KIP-497): propose these in-sync replicas, each with its broker epoch (KIP-903). Step with
    IsrAnswered."""

    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class TruncateTo(msgspec.Struct, frozen=True):
    """Drop the batches that reach to `offset` or beyond, also from the checkpoints, then step with Truncated."""

    offset: Offset


class StartAt(msgspec.Struct, frozen=True):
    """Drop the whole log, which ends before the leader's begins, and begin again at `offset`. Then step with
    Truncated."""

    offset: Offset


class Append(msgspec.Struct, frozen=True):
    """Append the leader's batches unchanged, then step with Copied, or with FetchFailed if that is impossible."""

    records: Buffer


class FetchFrom(msgspec.Struct, frozen=True):
    """Fetch from the leader, then step with FetchAnswered or FetchFailed. `last_fetched_epoch` -1: the log is empty."""

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
"""The result of nearly every append, created once."""


# --- shared by both roles ---


class LogPosition(msgspec.Struct):
    """The offsets of this replica. The high watermark is neither the log end nor the flushed offset."""

    log_end_offset: int
    latest_epoch: int
    flushed_offset: int
    high_watermark: int

    def advance(self, high_watermark: int) -> tuple[Output, ...]:
        """Moves the high watermark forward, never back."""
        if high_watermark <= self.high_watermark:
            return ()
        self.high_watermark = high_watermark
        return MOVED


class ReplicationSettings(msgspec.Struct, frozen=True):
    """Kafka's settings of the topic and the broker. `waits_for_flush`: `flush.messages=1`, this replica acknowledges
    only flushed records."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_backoff_ms: int = 1_000
    waits_for_flush: bool = False
    throttled_at_leader: ThrottledReplicas = NO_REPLICAS
    throttled_at_follower: ThrottledReplicas = NO_REPLICAS
