"""One replica of a partition as a step machine: leader or follower, by the metadata.

    step(event, now_ms) -> outputs     performed by the driver in their order, each before the next event
    next_deadline_ms()                 when a Tick is due; None: nothing waits for time

Deterministic, without callbacks or futures. A remote fault is an event, never an exception. The driver owns the log,
the sockets and the clock. An output asks it to append, truncate, fetch or propose, and the next event reports the
result. The outputs of one step depend on each other: a fetch after an append names the offset after it. Only a leader's
append is a call of its own (`Leader.appended`), without objects, because it is part of every Produce.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.metadata.image import NO_LEADER, PartitionImage
from moldau.core.replication.follower import Follower
from moldau.core.replication.leader import Leader
from moldau.core.replication.steps import (
    Event,
    Flushed,
    LeadershipEnded,
    LogPosition,
    MetadataChanged,
    Output,
    ReplicationSettings,
    SettingsChanged,
)
from moldau.errors import kafka_error
from moldau.types import BrokerId, LeaderEpoch


class Replica:
    """`position` begins with the recovered log and the checkpointed high watermark, at most the log end.

    `end_offset_for_epoch`: of this replica's log, as `Log.end_offset_for_epoch`.
    """

    __slots__ = ("_end_offset_for_epoch", "_partition", "broker_id", "position", "role", "settings")

    def __init__(
        self,
        broker_id: BrokerId,
        position: LogPosition,
        settings: ReplicationSettings,
        end_offset_for_epoch: Callable[[int], tuple[int, int]],
    ) -> None:
        self.broker_id = broker_id
        self.position = position
        self.settings = settings
        self.role: Leader | Follower | None = None
        """None: no leader is known."""
        self._partition: PartitionImage | None = None
        self._end_offset_for_epoch = end_offset_for_epoch

    @property
    def leader(self) -> Leader:
        """The leader part of this replica. Raises NOT_LEADER_OR_FOLLOWER (6)."""
        if not isinstance(self.role, Leader):
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")
        return self.role

    @property
    def high_watermark(self) -> int:
        """The offset below which every in-sync replica is known to have all records."""
        return self.position.high_watermark

    def is_being_added(self, broker_id: int) -> bool:
        """Whether a reassignment adds a replica on that broker."""
        return self._partition is not None and broker_id in self._partition.adding_replicas

    def is_acknowledged(self, end_offset: int, leader_epoch: LeaderEpoch) -> bool:
        """Whether an append of `leader_epoch` up to `end_offset` has acks=all. Produce waits for it: check again after
        each HighWatermarkMoved and LeadershipEnded. Raises 6 and 20."""
        leader = self.leader
        if leader.leader_epoch != leader_epoch:
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")
        return leader.is_acknowledged(end_offset)

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event, and returns the outputs in order. Without a leader only metadata, flushes and settings
        matter."""
        if isinstance(event, MetadataChanged):
            return self._take_metadata(event, now_ms)
        if isinstance(event, Flushed):
            position = self.position
            position.flushed_offset = max(position.flushed_offset, min(event.end_offset, position.log_end_offset))
        elif isinstance(event, SettingsChanged):
            self.settings = event.settings
            if self.role is not None:
                self.role.settings = event.settings
        return () if self.role is None else self.role.step(event, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When a Tick is due; None: no timer."""
        return None if self.role is None else self.role.next_deadline_ms()

    def _take_metadata(self, event: MetadataChanged, now_ms: int) -> tuple[Output, ...]:
        partition, known = event.partition, self._partition
        if known is not None and partition.partition_epoch < known.partition_epoch:
            return ()
        self._partition = partition
        if known is not None and partition.leader_epoch == known.leader_epoch:
            if isinstance(self.role, Leader):
                return self.role.take_metadata(partition, event.broker_epochs, now_ms)
            return ()
        ended: tuple[Output, ...] = ()
        if isinstance(self.role, Leader):
            ended = (LeadershipEnded(self.role.leader_epoch),)
        if partition.leader == self.broker_id:
            self.role = Leader(self.broker_id, self.position, self.settings, partition, event.broker_epochs, now_ms)
        elif partition.leader == NO_LEADER:
            self.role = None
            return ended
        else:
            self.role = Follower(self.position, self.settings, partition, self._end_offset_for_epoch)
        return (*ended, *self.role.begin(now_ms))
