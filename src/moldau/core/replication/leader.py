"""The leader of a partition: the progress of each replica, the in-sync replicas, the high watermark.

**High watermark.** The smallest log end of the in-sync replicas; it never goes back. A replica that joins the ISR
counts already, and one that leaves still counts, until the controller has answered (*maximal* in-sync replicas,
KIP-497). A follower that was at the log end a moment ago and may join counts too, because with many appends it would
never reach the high watermark. Below `min.insync.replicas` the high watermark does not move (KIP-966), so a replica
that leaves the ISR has everything that was acknowledged. A new leader does not know the progress of followers: its high
watermark moves when each in-sync replica has fetched.

**In-sync replicas.** The leader proposes, the controller decides, one proposal at a time. A follower joins when it has
reached the high watermark and the offset where this leader's epoch began, because records below may be acknowledged
without this leader's knowledge. It leaves when it has lagged for `replica.lag.time.max.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.divergence import check_leader_epoch
from moldau.core.replication.steps import (
    Asking,
    Event,
    FetchedUpTo,
    Flushed,
    IsrAnswered,
    LeadershipBegan,
    LogPosition,
    LowWatermarkMoved,
    Output,
    ProposeIsr,
    ReplicationSettings,
    SettingsChanged,
    Tick,
)
from moldau.errors import kafka_error
from moldau.types import BrokerId, LeaderEpoch

ACKS_ALL = -1
UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1
_PROPOSAL_TIMEOUT_MS = 1_000
_NOT_PERFORMED = ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED", "INVALID_REQUEST")
_METADATA_WILL_TELL = ("INVALID_UPDATE_VERSION", "FENCED_LEADER_EPOCH", "NEW_LEADER_ELECTED", "NOT_LEADER_OR_FOLLOWER")


class _Follower(msgspec.Struct):
    """The progress of another replica, as the leader knows it. `caught_up_ms`: when it last had the whole log, as far
    as reported. `asking`: see FetchedUpTo."""

    caught_up_ms: int
    end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    fetched_ms: int = 0
    log_end_offset_when_fetched: int = 0
    asking: Asking | None = None

    def last_caught_up_ms(self, log_end_offset: int) -> int:
        """When the follower was last caught up. At the log end, each of its requests counts."""
        if self.asking is None or self.end_offset < log_end_offset:
            return self.caught_up_ms
        return max(self.caught_up_ms, self.asking.asked_ms)

    @property
    def has_fetched(self) -> bool:
        return self.end_offset != UNKNOWN_OFFSET


class _Proposal(msgspec.Struct):
    """In-sync replicas that were proposed to the controller. `resend_ms` None: newer metadata has the result."""

    isr: tuple[int, ...]
    output: ProposeIsr
    resend_ms: int | None
    times_sent: int = 1


class Leader:
    """One leader epoch of one broker; replica creates it."""

    __slots__ = (
        "_broker_epochs",
        "_followers",
        "_next_check_ms",
        "_now_ms",
        "_proposal",
        "broker_id",
        "epoch_start_offset",
        "is_below_min_isr",
        "is_log_end_committed",
        "leader_epoch",
        "partition",
        "position",
        "settings",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        position: LogPosition,
        settings: ReplicationSettings,
        partition: PartitionImage,
        broker_epochs: Mapping[int, int],
        now_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.position = position
        self.settings = settings
        self.partition = partition
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.epoch_start_offset = position.log_end_offset
        self._broker_epochs = broker_epochs
        self._proposal: _Proposal | None = None
        self._followers: dict[int, _Follower] = {}
        self._next_check_ms = now_ms + settings.replica_lag_time_max_ms // 2
        self._now_ms = now_ms
        """The time of the last event."""
        self.is_below_min_isr = False
        """Whether the ISR is smaller than `min.insync.replicas`, so acks=all is rejected."""
        self.is_log_end_committed = False
        """Whether the high watermark equals the log end after each append, because this replica is the only one and
        does not wait for flushes. A driver may then move both instead of calling `appended`."""
        self._follow_replicas(now_ms)

    def begin(self, now_ms: int) -> tuple[Output, ...]:
        """The first outputs of the leadership."""
        self.position.latest_epoch = self.leader_epoch
        return (LeadershipBegan(self.leader_epoch), *self._advance(now_ms))

    def appended(self, log_end_offset: int) -> tuple[Output, ...]:
        """The log ends here now. A call and no event, because it is part of every Produce. The time is that of the last
        event."""
        for follower in self._followers.values():
            follower.caught_up_ms = follower.last_caught_up_ms(self.position.log_end_offset)
        self.position.log_end_offset = log_end_offset
        return self._advance(self._now_ms)

    def step(self, event: Event, now_ms: int) -> tuple[Output, ...]:
        """Takes one event, and returns the outputs in order."""
        self._now_ms = now_ms
        match event:
            case Flushed():
                return self._advance(now_ms)
            case SettingsChanged():
                self._follow_replicas(now_ms)
                return self._advance(now_ms)
            case FetchedUpTo():
                return self._fetched(event, now_ms)
            case IsrAnswered():
                return self._answered(event, now_ms)
            case Tick():
                return self._tick(now_ms)
        return ()

    def next_deadline_ms(self) -> int | None:
        """When to check the followers or to repeat the proposal. None: no followers."""
        if not self._followers:
            return None
        return self._next_check_ms if self._proposal is None else self._proposal.resend_ms

    def take_metadata(
        self, partition: PartitionImage, broker_epochs: Mapping[int, int], now_ms: int
    ) -> tuple[Output, ...]:
        """Newer metadata of the same leader epoch. A proposal for an older partition epoch is rejected from now on, so
        it no longer counts."""
        self._broker_epochs, self._now_ms = broker_epochs, now_ms
        if partition.partition_epoch <= self.partition.partition_epoch:
            return ()
        self.partition = partition
        self._proposal = None
        self._follow_replicas(now_ms)
        return self._advance(now_ms)

    # --- questions ---

    @property
    def has_followers(self) -> bool:
        """Whether other brokers have replicas."""
        return bool(self._followers)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """All replicas that are in sync or may be by now. The high watermark waits for each of them."""
        proposed = () if self._proposal is None else self._proposal.isr
        return (*self.partition.isr, *(replica for replica in proposed if replica not in self.partition.isr))

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        return min(self.settings.min_insync_replicas, len(self.partition.replicas))

    def check_append(self, acks: int) -> None:
        """Call before an append with `acks`. Raises NOT_ENOUGH_REPLICAS (19)."""
        if acks == ACKS_ALL and self.is_below_min_isr:
            raise kafka_error("NOT_ENOUGH_REPLICAS")

    def is_acknowledged(self, end_offset: int) -> bool:
        """Whether the records up to `end_offset` have acks=all. Raises NOT_ENOUGH_REPLICAS_AFTER_APPEND (20)."""
        if self.position.high_watermark < end_offset:
            return False
        if len(self.maximal_isr) < self.min_isr:
            raise kafka_error("NOT_ENOUGH_REPLICAS_AFTER_APPEND")
        return True

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start offset of the replicas on active brokers (KIP-107). `log_start_offset`: of this
        one."""
        of_followers = (
            follower.log_start_offset for replica, follower in self._followers.items() if replica in self._broker_epochs
        )
        return min((log_start_offset, *of_followers))

    def is_held_back(self, replica_id: int, index: int) -> bool:
        """Whether a replication throttle delays this replica of the partition with this index."""
        return index in self.settings.throttled_at_leader and replica_id not in self.partition.isr

    def in_sync_holders(self, offset: int) -> list[tuple[int, int, int]]:
        """The other in-sync replicas with the record at `offset`: each with its log end and the time when it was last
        caught up."""
        return [
            (replica, follower.end_offset, follower.last_caught_up_ms(self.position.log_end_offset))
            for replica, follower in self._followers.items()
            if replica in self.partition.isr and follower.log_start_offset <= offset <= follower.end_offset
        ]

    def check_fetch(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> None:
        """Call before a follower's fetch. Raises 74, 75, and 6 for an old life of a broker (KIP-903). Without a broker
        epoch (Fetch before version 15) the fetch is accepted.

        As in Kafka, a broker without a replica that names this leader's epoch may know a later assignment: 75 lets it
        try again.
        """
        check_leader_epoch(current_leader_epoch, self.leader_epoch)
        follower = self._followers.get(replica_id)
        if follower is None:
            raise kafka_error("NOT_LEADER_OR_FOLLOWER" if current_leader_epoch < 0 else "UNKNOWN_LEADER_EPOCH")
        if _is_of_an_earlier_life(broker_epoch, follower):
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")

    # --- steps ---

    def _follow_replicas(self, now_ms: int) -> None:
        """Tracks the other replicas. The time for a first fetch of an unknown in-sync replica begins now."""
        known = self._followers
        self._followers = {
            replica: known.get(replica) or _Follower(now_ms if replica in self.partition.isr else 0)
            for replica in self.partition.replicas
            if replica != self.broker_id
        }
        self.is_below_min_isr = len(self.partition.isr) < self.min_isr
        self.is_log_end_committed = not (self._followers or self.is_below_min_isr or self.settings.waits_for_flush)

    def _advance(self, now_ms: int) -> tuple[Output, ...]:
        if self.is_below_min_isr:
            return ()
        position = self.position
        lowest = position.flushed_offset if self.settings.waits_for_flush else position.log_end_offset
        maximal_isr = self.maximal_isr
        for replica, follower in self._followers.items():
            if replica in maximal_isr or (self._is_awaited(replica, follower) and self._is_caught_up(replica, now_ms)):
                lowest = min(lowest, follower.end_offset)
        return position.advance(lowest)

    def _fetched(self, event: FetchedUpTo, now_ms: int) -> tuple[Output, ...]:
        follower = self._followers.get(event.replica_id)
        if follower is None or event.leader_epoch != self.leader_epoch:
            return ()
        if _is_of_an_earlier_life(event.broker_epoch, follower):
            return ()
        if event.offset >= self.position.log_end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        elif event.offset >= follower.log_end_offset_when_fetched:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.end_offset, follower.broker_epoch = event.offset, event.broker_epoch
        follower.fetched_ms, follower.log_end_offset_when_fetched = now_ms, self.position.log_end_offset
        follower.asking = event.asking
        news: tuple[Output, ...] = ()
        if event.log_start_offset > follower.log_start_offset:
            follower.log_start_offset = event.log_start_offset
            news = (LowWatermarkMoved(),)
        return (*self._maybe_expand(event.replica_id, follower, now_ms), *self._advance(now_ms), *news)

    def _maybe_expand(self, replica: int, follower: _Follower, now_ms: int) -> tuple[Output, ...]:
        has_caught_up = follower.end_offset >= max(self.position.high_watermark, self.epoch_start_offset)
        if self._proposal is not None or not has_caught_up or not self._may_join(replica, follower):
            return ()
        return self._propose((*self.partition.isr, replica), now_ms)

    def _may_join(self, replica: int, follower: _Follower) -> bool:
        """Whether the controller would accept the replica: the fetching broker must be the running one (KIP-903), if it
        sent its epoch."""
        if replica in self.partition.isr or replica not in self._broker_epochs:
            return False
        is_named = follower.broker_epoch != UNKNOWN_BROKER_EPOCH
        return self._broker_epochs[replica] == follower.broker_epoch if is_named else follower.has_fetched

    def _is_awaited(self, replica: int, follower: _Follower) -> bool:
        """Whether the replica may join soon. One with a full disk has just left, and appends nothing."""
        return self._may_join(replica, follower) and not self.partition.is_directory_lost(replica)

    def _propose(self, isr: tuple[int, ...], now_ms: int) -> tuple[Output, ...]:
        epochs = tuple((replica, self._broker_epoch_of(replica)) for replica in isr)
        output = ProposeIsr(self.leader_epoch, self.partition.partition_epoch, epochs)
        self._proposal = _Proposal(isr, output, now_ms + _PROPOSAL_TIMEOUT_MS)
        return (output,)

    def _broker_epoch_of(self, replica: int) -> int:
        follower = self._followers.get(replica)
        if follower is not None and follower.broker_epoch != UNKNOWN_BROKER_EPOCH:
            return follower.broker_epoch
        return self._broker_epochs.get(replica, UNKNOWN_BROKER_EPOCH)

    def _answered(self, event: IsrAnswered, now_ms: int) -> tuple[Output, ...]:
        proposal = self._proposal
        accepted = event.accepted
        if accepted is not None:
            if accepted.leader_epoch != self.leader_epoch:
                return ()
            return self.take_metadata(accepted, self._broker_epochs, now_ms)
        if proposal is None or event.partition_epoch != proposal.output.partition_epoch:
            return ()
        if event.error in _NOT_PERFORMED and not self._may_be_performed(proposal):
            self._proposal = None
            return self._advance(now_ms)
        is_settled = event.error in _METADATA_WILL_TELL
        proposal.resend_ms = None if is_settled else now_ms + _PROPOSAL_TIMEOUT_MS
        return ()

    def _may_be_performed(self, proposal: _Proposal) -> bool:
        """Whether another copy of a rejected proposal may still reach the controller and be accepted: it was sent
        again, and has the current broker epochs."""
        return proposal.times_sent > 1 and all(
            self._broker_epochs.get(replica) == epoch
            for replica, epoch in proposal.output.isr
            if replica not in self.partition.isr
        )

    def _tick(self, now_ms: int) -> tuple[Output, ...]:
        proposal = self._proposal
        if proposal is not None:
            if proposal.resend_ms is None or now_ms < proposal.resend_ms:
                return ()
            proposal.resend_ms = now_ms + _PROPOSAL_TIMEOUT_MS
            proposal.times_sent += 1
            return (proposal.output,)
        if now_ms < self._next_check_ms:
            return ()
        self._next_check_ms = self._check_after(now_ms)
        in_sync = tuple(replica for replica in self.partition.isr if self._is_caught_up(replica, now_ms))
        # a replica that had caught up, but stopped fetching, no longer delays the high watermark
        return self._advance(now_ms) if in_sync == self.partition.isr else self._propose(in_sync, now_ms)

    def _check_after(self, now_ms: int) -> int:
        """The time of the next check: as in Kafka, after half of the lag. Later if no follower can be out of sync
        before, because the checks of thousands of quiet partitions are much of an idle broker's work."""
        lag_ms, end_offset = self.settings.replica_lag_time_max_ms, self.position.log_end_offset
        caught_up_ms = min((each.last_caught_up_ms(end_offset) for each in self._followers.values()), default=now_ms)
        return max(now_ms + lag_ms // 2, caught_up_ms + lag_ms + 1)

    def _is_caught_up(self, replica: int, now_ms: int) -> bool:
        if replica == self.broker_id:
            return True
        follower = self._followers[replica]
        is_at_end = follower.end_offset == self.position.log_end_offset
        return is_at_end or now_ms - follower.caught_up_ms <= self.settings.replica_lag_time_max_ms


def _is_of_an_earlier_life(broker_epoch: int, follower: _Follower) -> bool:
    return broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < follower.broker_epoch
