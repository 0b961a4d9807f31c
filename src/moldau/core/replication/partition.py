"""A partition on this broker: its log, and the step machine of its replica.

This is the driver of the machine for its log and its readers. Outputs that wait for another broker go out through
`perform`. A partition whose log failed is offline until a restart: every call raises KAFKA_STORAGE_ERROR (56).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.log.log import Appended, AppendOrigin, Log
from moldau.core.log.reading import HOLD_ANY, Read
from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.divergence import check_leader_epoch, diverging_epoch
from moldau.core.replication.follower import Follower
from moldau.core.replication.leader import ACKS_ALL, Leader
from moldau.core.replication.replica import Replica
from moldau.core.replication.steps import (
    Asking,
    Event,
    FetchedUpTo,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    LogPosition,
    LowWatermarkMoved,
    MetadataChanged,
    NoRoom,
    Output,
    ReplicationSettings,
    SettingsChanged,
)
from moldau.errors import ProtocolError, StorageFailedError, StorageFullError, kafka_error
from moldau.types import BrokerId, Buffer, LeaderEpoch, Offset, TopicPartition, Uuid
from moldau.wire.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    is_crc_valid,
    iterate_batches,
    read_header,
)
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch, end_of_transaction

CONSUMER_REPLICA_ID = -1
FUTURE_LOCAL_REPLICA_ID = -3
"""The replica id of a move to another log directory. As in Kafka, it reads to the log end."""
NO_EPOCH = LeaderEpoch(-1)


class Partition:
    """Synchronous, for the node's loop only. `number` is unique within the node: a cheap key for waits.

    `high_watermark`: the checkpointed one. `perform` gets the outputs that need another broker or must wait. Before
    `metadata_changed` the partition has no leader. `steady_ms` is steady time.
    """

    __slots__ = (
        "_looked_for_aborted",
        "_perform",
        "appended_bytes",
        "appended_records",
        "fetch_requests",
        "fetched_bytes",
        "flush_messages",
        "is_deleted",
        "is_offline",
        "leader",
        "leader_epoch",
        "log",
        "may_have_aborted",
        "number",
        "position",
        "produce_requests",
        "replica",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        log: Log,
        number: int,
        broker_id: BrokerId,
        settings: ReplicationSettings,
        perform: Callable[[Partition, Output], None],
        high_watermark: int = 0,
    ) -> None:
        self.log = log
        self.number = number
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id: Uuid | None = log.topic_id
        self.position = LogPosition(
            log.log_end_offset,
            log.leader_epochs.latest_epoch,
            log.recovery_point,
            min(max(high_watermark, log.log_start_offset), log.log_end_offset),
        )
        """The offsets of the replica: of the log, on the disk, on all replicas. Not changed here."""
        log.producer_state.forget_ended(self.position.high_watermark)
        self.replica = Replica(broker_id, self.position, settings, self.end_offset_for_epoch)
        self._perform = perform
        self.leader: Leader | None = None
        """The leader part of the replica; None while another broker leads."""
        self.leader_epoch = NO_EPOCH
        self.is_offline = False
        self.is_deleted = False
        self.appended_bytes = 0
        """Bytes appended since the start. A fetch that waits for bytes compares two values."""
        self.appended_records = self.produce_requests = self.fetched_bytes = self.fetch_requests = 0
        """Numbers since the start, for metrics."""
        self.may_have_aborted = True
        """False if the log was found without aborted transactions, until one is aborted."""
        self._looked_for_aborted = False
        self.flush_messages = log.settings.flush_messages

    # --- changes of the replica ---

    def end(self) -> None:
        """This broker no longer has a replica of the partition."""
        self.is_deleted = True

    def take_offline(self) -> None:
        """The log directory has failed."""
        self.is_offline = True

    def move_to(self, log: Log) -> None:
        """Replaces the log by `log`, in another log directory, which has all its records."""
        self.log = log

    def metadata_changed(self, image: PartitionImage, broker_epochs: Mapping[int, int], steady_ms: int) -> bool:
        """Takes new metadata of the partition. True: wake the waits for the partition."""
        is_news = self.step(MetadataChanged(image, broker_epochs), steady_ms)
        role = self.replica.role
        self.leader = role if isinstance(role, Leader) else None
        self.leader_epoch = image.leader_epoch
        return is_news

    def settings_changed(self, settings: ReplicationSettings, steady_ms: int) -> bool:
        """As `metadata_changed`; after `log.update_settings`."""
        self.flush_messages = self.log.settings.flush_messages
        return self.step(SettingsChanged(settings), steady_ms)

    def flushed(self, steady_ms: int) -> bool:
        """The log is on the disk up to its recovery point. Returns whether the high watermark moved."""
        return self.step(Flushed(self.log.recovery_point), steady_ms)

    def step(self, event: Event, steady_ms: int) -> bool:
        """Passes the event to the replica, and performs the outputs. True: wake the waits for the partition."""
        is_news = False
        for output in self.replica.step(event, steady_ms):
            match output:
                case LeadershipBegan():
                    self.log.leader_epochs.begin(output.leader_epoch, self.log.log_end_offset)
                case HighWatermarkMoved() | LeadershipEnded():
                    is_news = True
                    self.log.producer_state.forget_ended(self.position.high_watermark)
                case LowWatermarkMoved():
                    is_news = True
                case _:
                    self._perform(self, output)
        return is_news

    # --- questions ---

    @property
    def waits_for_flush(self) -> bool:
        """`flush.messages=1`: only flushed records count."""
        return self.replica.settings.waits_for_flush

    def is_following(self, leader_epoch: int) -> bool:
        """Whether another broker leads in `leader_epoch`, and this replica fetches from it."""
        role = self.replica.role
        is_here = not self.is_deleted and not self.is_offline
        return is_here and isinstance(role, Follower) and role.leader_epoch == leader_epoch

    def is_led_in(self, leader_epoch: int) -> bool:
        """Whether this broker leads in that epoch."""
        return not self.is_deleted and self.leader is not None and self.leader.leader_epoch == leader_epoch

    @property
    def has_followers(self) -> bool:
        """Whether each append must wake followers, which fetch a record before consumers may."""
        return self.leader is not None and self.leader.has_followers

    @property
    def high_watermark(self) -> Offset:
        return Offset(self.position.high_watermark)

    @property
    def is_high_watermark_behind(self) -> bool:
        """Whether the high watermark may be below that of the last leader (KIP-207)."""
        return self.leader is not None and self.position.high_watermark < self.leader.epoch_start_offset

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, or the beginning of the oldest open transaction."""
        high_watermark = self.position.high_watermark
        log = self.log
        producers = log.producer_state
        first_unstable_offset = producers.first_unstable_offset
        if producers.ended:
            first_unstable_offset = producers.first_undecided_offset(high_watermark)
        if first_unstable_offset < 0:
            return high_watermark
        return min(high_watermark, max(first_unstable_offset, log.log_start_offset))

    @property
    def are_offsets_in_order(self) -> bool:
        """The invariant: last stable offset, high watermark and log end are in this order, and the replica knows the
        log end."""
        position = self.position
        return self.last_stable_offset <= position.high_watermark <= position.log_end_offset == self.log.log_end_offset

    @property
    def low_watermark(self) -> int:
        """The offset below which no live replica has records."""
        log_start_offset = self.log.log_start_offset
        return log_start_offset if self.leader is None else self.leader.low_watermark(log_start_offset)

    def is_acknowledged(self, end_offset: int, leader_epoch: LeaderEpoch) -> bool:
        """As Replica.is_acknowledged. Also raises 3 and 56, if it never will be."""
        self._check_here()
        return self.replica.is_acknowledged(end_offset, leader_epoch)

    def is_deleted_below(self, offset: int, leader_epoch: LeaderEpoch) -> bool:
        """Whether no live replica has records below `offset`, as the leader of `leader_epoch` knows. Raises 3, 6, 56 if
        this broker will not know."""
        self._check_here()
        if not self.is_led_in(leader_epoch):
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")
        return self.low_watermark >= offset

    def _check_here(self) -> None:
        if self.is_deleted:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")

    def aborted_transactions(self, offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions with records in [offset, end). The first call reads the log's small files, later
        ones search the loaded entries. Raises KafkaError 56."""
        try:
            if not self._looked_for_aborted:
                if not self.log.aborted_transactions(0, self.log.log_end_offset):
                    self.may_have_aborted = False
                    return ()
                self._looked_for_aborted = True
            return self.log.aborted_transactions(offset, end_offset)
        except (ValueError, StorageFailedError):
            # without the index, valid records are unknown
            raise kafka_error(
                "KAFKA_STORAGE_ERROR", f"{self.topic_partition}: a damaged index of transactions"
            ) from None

    def append(
        self,
        batches: Buffer,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        acks: int = ACKS_ALL,
        are_records_checked: bool = False,
    ) -> Appended:
        """Appends as the leader. Raises KafkaError (6, 19; 56 for a full disk), StorageFailedError: offline from now
        on. `position.high_watermark` says whether consumers may read it."""
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        leader = self.leader
        if leader is None:
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")
        if leader.is_below_min_isr:
            leader.check_append(acks)
        log = self.log
        try:
            if log.health.is_full:
                raise StorageFullError
            appended = log.append(
                batches,
                leader_epoch=leader.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                are_records_checked=are_records_checked,
            )
        except StorageFullError:
            self._perform(self, NoRoom())
            raise kafka_error("KAFKA_STORAGE_ERROR", "no space left in the log directory") from None
        except StorageFailedError:
            self.is_offline = True
            raise
        self.appended_bytes += len(batches)
        self.appended_records += appended.last_offset - appended.base_offset + 1
        self.produce_requests += 1
        if leader.is_log_end_committed:
            self.position.log_end_offset = self.position.high_watermark = log.log_end_offset
        else:
            leader.appended(log.log_end_offset)
        return appended

    def append_copied(self, batches: Buffer, now_ms: int) -> None:
        """Appends the leader's batches unchanged, up to the first damaged one. Raises ProtocolError for that one,
        StorageFullError, StorageFailedError: offline from now on. Earlier batches are in the log then."""
        end = 0
        for position, header in iterate_batches(batches):
            if not is_crc_valid(batches, position, header.size):
                break
            end = position + header.size
            self.may_have_aborted = self.may_have_aborted or header.is_control
        try:
            if self.log.health.is_full:
                raise StorageFullError("no space left in the log directory")
            self.log.append_copied(memoryview(batches)[:end], now_ms)
        except StorageFullError:
            self._perform(self, NoRoom())
            raise
        except StorageFailedError:
            self.is_offline = True
            raise
        if end < len(batches):
            self._check_cut(memoryview(batches)[end:])

    def _check_cut(self, rest: memoryview) -> None:
        """Raises ProtocolError if the bytes after the last whole batch are damage, not a batch cut by the fetch."""
        for _ in iterate_batches(rest):
            raise ProtocolError(f"{self.topic_partition}: a batch of the leader has a wrong checksum")

    def follow_log_start(self, log_start_offset: int) -> bool:
        """Takes the leader's log start offset, up to the high watermark known here. Returns whether it moved."""
        return log_start_offset <= self.position.high_watermark and self.log.advance_log_start_offset(log_start_offset)

    def append_own(self, batch: Buffer, now_ms: int) -> Appended:
        """As `append`, for a coordinator's batch. Also raises 47 for an old producer epoch in a batch or marker, and 52
        for a marker of an old coordinator."""
        kind = batch[ATTRIBUTES_POSITION + 1] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
        if kind:
            self._check_transactional(batch)
        appended = self.append(batch, now_ms, AppendOrigin.COORDINATOR)
        if kind & CONTROL_FLAG:
            self.log.producer_state.forget_ended(self.position.high_watermark)
        if kind & CONTROL_FLAG and self.log.segments[-1].aborted_transactions != []:
            self.may_have_aborted = True
        return appended

    def _check_transactional(self, batch: Buffer) -> None:
        header = read_header(batch)
        producers = self.log.producer_state
        marker = end_of_transaction(batch) if header.is_control else None
        if marker is None:
            producers.check_epoch(header.producer_id, header.producer_epoch)
        else:
            # the deciding coordinator knows the transaction version, and has checked its conditions
            producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch, 0)

    def append_marker(
        self,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> Appended:
        """Ends the producer's transaction on this partition, as its coordinator has decided, even if none is open.
        Raises as `append`, 47 for a marker of an earlier transaction, 52 for one of an earlier coordinator."""
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        producers = self.log.producer_state
        producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch, transaction_version)
        batch = build_end_transaction_batch(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        appended = self.append_own(bytearray(batch), now_ms)
        if transaction_version < 2:
            producers.forget_joining(producer_id, producer_epoch)
        return appended

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raises 74 and 75 (see divergence), and NOT_LEADER_OR_FOLLOWER if this broker does not lead."""
        check_leader_epoch(current_leader_epoch, self.leader_epoch)
        if self.leader is None:
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")

    def check_reader(self, current_leader_epoch: int, *, is_leader_needed: bool) -> None:
        """As `check_leader`, but any replica serves readers that may read from a follower (KIP-392)."""
        check_leader_epoch(current_leader_epoch, self.leader_epoch)
        if self.leader is None and is_leader_needed:
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")

    def check_follower(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> None:
        """Call before a fetch of `replica_id`. Raises as Leader.check_fetch."""
        self.check_leader(current_leader_epoch)
        self.replica.leader.check_fetch(replica_id, broker_epoch, current_leader_epoch)

    def position_of_follower(
        self,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        asking: Asking | None,
    ) -> FetchedUpTo | None:
        """The event of a fetch that passed `check_follower`: the follower has everything below `offset`. None if its
        log has diverged. `asking`: of its session, if any."""
        if last_fetched_epoch >= 0 and self.diverging_epoch(offset, last_fetched_epoch) is not None:
            return None
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            return None
        return FetchedUpTo(replica_id, broker_epoch, self.leader_epoch, offset, log_start_offset, asking)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The end of an epoch, see divergence."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def diverging_epoch(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[LeaderEpoch, Offset] | None:
        """Where the follower's log diverges from this one, see divergence."""
        return diverging_epoch(self.end_offset_for_epoch(last_fetched_epoch), fetch_offset, last_fetched_epoch)

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        *,
        at_least_one_batch: bool,
        held_bytes: int = HOLD_ANY,
    ) -> Read:
        """Whole batches from the one with `offset` up to `end_offset`; see Log.read. Raises OFFSET_OUT_OF_RANGE, 56."""
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        return self.log.read(
            Offset(offset),
            max_bytes=max_bytes,
            end_offset=end_offset,
            at_least_one_batch=at_least_one_batch,
            held_bytes=held_bytes,
        )

    def read_bound(self, replica_id: int, is_read_committed: bool = False) -> int:
        """The end of reads by `replica_id`: for consumers (-1) the high watermark or the last stable offset, else the
        log end."""
        if replica_id != CONSUMER_REPLICA_ID:
            return self.log.log_end_offset
        return self.last_stable_offset if is_read_committed else self.position.high_watermark
