"""A partition as its leader sees it: the log, the leader epoch, the high watermark, and how far a reader may read.

High watermark rules on one node: it is the log end offset after every append, except where `flush.messages=1` asks
that nothing counts before it is on the disk; then it is the offset up to which the log was flushed. It never goes
back. A partition whose log failed is offline until a restart: every call raises KAFKA_STORAGE_ERROR (56).
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.core.log.log import Appended, AppendOrigin, Log
from moldau.core.log.reading import HOLD_ANY, Read
from moldau.core.log.transaction_index import AbortedTransaction
from moldau.core.replication.divergence import check_leader_epoch, diverging_epoch
from moldau.errors import StorageFailedError, StorageFullError, invariant, kafka_error
from moldau.types import BrokerId, Buffer, LeaderEpoch, Offset, TopicPartition, Uuid

CONSUMER_REPLICA_ID = -1


class Partition:
    """Synchronous; used from the node's loop only. `number` is unique within the node: a cheap key for waits."""

    __slots__ = (
        "_looked_for_aborted",
        "appended_bytes",
        "appended_records",
        "fetch_requests",
        "fetched_bytes",
        "first_unstable_offset",
        "flush_messages",
        "high_watermark",
        "is_deleted",
        "is_offline",
        "leader_epoch",
        "leader_id",
        "log",
        "may_have_aborted",
        "number",
        "produce_requests",
        "topic_id",
        "topic_partition",
        "waits_for_flush",
    )

    def __init__(self, log: Log, number: int, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> None:
        self.log = log
        self.number = number
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id: Uuid | None = log.topic_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.is_offline = False
        self.is_deleted = False
        self.appended_bytes = 0
        """Bytes appended since the start: who waits for bytes compares two looks."""
        self.appended_records = self.produce_requests = self.fetched_bytes = self.fetch_requests = 0
        """Since the start, for the metrics."""
        self.may_have_aborted = True
        """False once the log was found without an aborted transaction: while none are served, none is added."""
        self._looked_for_aborted = False
        self.first_unstable_offset = log.producer_state.first_unstable_offset
        """Where the oldest open transaction of another broker begins, -1 for none: while none are served, it stays."""
        self.flush_messages = log.settings.flush_messages
        self.waits_for_flush = self.flush_messages == 1
        # what recovery found in the log is all there is: with one replica it counts as committed, once it is as durable
        # as the topic asks
        end_offset = max(log.recovery_point, log.log_start_offset) if self.waits_for_flush else log.log_end_offset
        self.high_watermark = Offset(end_offset)

    @property
    def last_stable_offset(self) -> Offset:
        """Everything below is decided: the high watermark, or the begin of the oldest open transaction."""
        if self.first_unstable_offset < 0:
            return self.high_watermark
        return Offset(min(self.high_watermark, max(self.first_unstable_offset, self.log.log_start_offset)))

    def aborted_transactions(self, offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """Those with records in [offset, end). The first call reads the log's small files, the others look only at what
        may concern the range. Raises 56."""
        try:
            if not self._looked_for_aborted:
                if not self.log.aborted_transactions(0, self.log.log_end_offset):
                    self.may_have_aborted = False
                    return ()
                self._looked_for_aborted = True
            return self.log.aborted_transactions(offset, end_offset)
        except (ValueError, StorageFailedError):
            # without the index nobody can tell which records count
            raise kafka_error(
                "KAFKA_STORAGE_ERROR", f"{self.topic_partition}: a damaged index of transactions"
            ) from None

    def settings_changed(self) -> None:
        """To be called after `log.update_settings`."""
        self.flush_messages = self.log.settings.flush_messages
        self.waits_for_flush = self.flush_messages == 1
        if not self.waits_for_flush:
            self._advance(Offset(self.log.log_end_offset))

    def append(
        self,
        batches: Buffer,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        are_records_checked: bool = False,
    ) -> Appended:
        """Appends as leader. Raises KafkaError (56 where the disk is full), StorageFailedError: offline from now on."""
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        log = self.log
        try:
            appended = log.append(
                batches,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                are_records_checked=are_records_checked,
            )
        except StorageFullError:
            raise kafka_error("KAFKA_STORAGE_ERROR", "no space left in the log directory") from None
        except StorageFailedError:
            self.is_offline = True
            raise
        self.appended_bytes += len(batches)
        self.appended_records += appended.last_offset - appended.base_offset + 1
        self.produce_requests += 1
        if not self.waits_for_flush:
            self.high_watermark = Offset(log.log_end_offset)
        return appended

    def flushed_to(self, end_offset: Offset) -> bool:
        """The log is on the disk up to `end_offset`: gives whether the high watermark moved."""
        return self.waits_for_flush and self._advance(end_offset)

    def _advance(self, end_offset: Offset) -> bool:
        if end_offset <= self.high_watermark:
            return False
        invariant(end_offset <= self.log.log_end_offset, "a high watermark past the log end")
        self.high_watermark = end_offset
        return True

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """See divergence."""
        check_leader_epoch(current_leader_epoch, self.leader_epoch)

    def diverging_epoch(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[LeaderEpoch, Offset] | None:
        """See divergence."""
        return diverging_epoch(self.log.end_offset_for_epoch(last_fetched_epoch), fetch_offset, last_fetched_epoch)

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: Offset,
        *,
        at_least_one_batch: bool,
        held_bytes: int = HOLD_ANY,
    ) -> Read:
        """Whole batches from the one that holds `offset`, none past `end_offset`; see Log.read. Raises
        OFFSET_OUT_OF_RANGE, 56."""
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        return self.log.read(
            Offset(offset),
            max_bytes=max_bytes,
            end_offset=end_offset,
            at_least_one_batch=at_least_one_batch,
            held_bytes=held_bytes,
        )

    def read_bound(self, replica_id: int, is_read_committed: bool = False) -> Offset:
        """How far `replica_id` may read: consumers (-1) up to the high watermark, or to what is decided; debugging
        readers to the end."""
        if replica_id != CONSUMER_REPLICA_ID:
            return Offset(self.log.log_end_offset)
        return self.last_stable_offset if is_read_committed else self.high_watermark
