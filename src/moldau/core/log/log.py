"""One partition's log: appends batches, reads byte ranges, and flushes them.

Everything here runs on one event loop and never waits for the disk, except `load`, `close`, and the work of a
FlushPlan, ColdRead or TimestampSearch in a worker thread. An *end* offset is exclusive. Order of durability:

    append      page cache only; `log_end_offset` moves after the write succeeded, never before
    FlushPlan   batches, then index files of sealed segments, leader epochs, names; then `recovery_point` may move
    close       all of it, and the producers' snapshot at the log end

`load` repairs the log after a crash (see recovery). The files are those of the segments (see segments).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from moldau.core.log.appending import (
    OF_CLIENTS,
    Appended,
    AppendOrigin,
    check_batch_size,
    check_client_records,
    check_segment_size,
    check_transactional,
    patch_own,
    repeated,
    stamp,
    take_in_own,
    writable,
    write_own,
)
from moldau.core.log.cleaning.retention import DeletedSegment, count_deletable, segment_facts
from moldau.core.log.copying import copied_batches, needs_new_segment, room_for, take_in_copied, write_copied
from moldau.core.log.directories.health import CLOSED, DirectoryHealth
from moldau.core.log.files.flush import FlushPlan
from moldau.core.log.files.segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET, IndexCache, Segment
from moldau.core.log.files.segments import NO_POSITIONS, RECENT_BATCHES, Segments, base_offset_of
from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.producer_state import EXPIRY_SLICE, ProducerState
from moldau.core.log.reading import HOLD_ANY, NOTHING, Read, RepairRead, SegmentReader
from moldau.core.log.recovery.cut import Cut
from moldau.core.log.recovery.damage import DamagedBatchError
from moldau.core.log.recovery.recovery import LoadedLog, RecoveryPlan, load_log, load_truncated, remove_stray_snapshots
from moldau.core.log.settings import NO_LIMIT, LogSettings
from moldau.core.log.timestamp_search import (
    FoundOffset,
    MaxTimestampSearch,
    TimestampSearch,
    plan_max_timestamp_search,
    plan_timestamp_search,
)
from moldau.errors import StorageFailedError, StorageFullError, invariant, kafka_error
from moldau.ports import Disk
from moldau.types import Buffer, TopicPartition, Uuid
from moldau.wire.records.batch import (
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    patch_base_offset,
)
from moldau.wire.records.compression import COMPRESSION_MASK
from moldau.wire.records.validate import check_produced_fields

if TYPE_CHECKING:
    from moldau.core.log.cleaning.compaction import CleanedSegment, CompactionPlan

__all__ = ["Appended", "AppendOrigin", "DeletedSegment", "FoundOffset", "Log", "Read"]


class Log:
    """See the module. Empty in a new directory, or after `open` or `load`. `directory`: its name."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        settings: LogSettings,
        now_ms: int,
        *,
        health: DirectoryHealth | None = None,
        index_cache: IndexCache | None = None,
    ) -> None:
        self.disk = disk
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.health = health or DirectoryHealth()
        self.index_cache = index_cache or IndexCache()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        """Everything below is durable."""
        self.cuts: Sequence[Cut] = ()
        """The parts of the log that recovery removed."""
        self.may_have_holes = False
        """Compaction has run or may run over the log, so offsets may have gaps."""
        self.has_copied_holes = False
        """Another broker compacted copied batches. A start must know that, whatever the topic's policy is then."""
        self.leader_epochs = LeaderEpochs()
        self.producer_state = ProducerState(settings.max_producer_ids)
        self._segments = Segments(disk, directory, self.index_cache)
        self.update_settings(settings)
        self._last_flush_ms = now_ms
        self.is_flushing = False  # a plan of `unflushed` may be running in Workers
        self.truncations = 0  # a compaction that read the log before a truncation is void

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        settings: LogSettings,
        *,
        now_ms: int,
        plan: RecoveryPlan | None = None,
    ) -> Self:
        """A log that is loaded already, see `load`: for tests and for logs without a LogDirectory."""
        log = cls(disk, directory, topic_partition, topic_id, settings, now_ms)
        log.load(now_ms, plan or RecoveryPlan())
        return log

    def load(self, now_ms: int, plan: RecoveryPlan) -> None:
        """Opens the files in `directory`, or makes it; after a crash recovers them.

        Waits for the disk, so only at a start. Raises DamagedLogError, StorageFailedError.
        """
        self.disk.make_directory(self.directory)
        loaded = load_log(self.disk, self.directory, self.settings, now_ms=now_ms, plan=plan, health=self.health)
        first = loaded.segments[0].base_offset if loaded.segments else loaded.next_offset
        self.log_start_offset = max(plan.log_start_offset, first)
        loaded.leader_epochs.truncate_from_start(self.log_start_offset)
        self._adopt(loaded, now_ms)

    def _adopt(self, loaded: LoadedLog, now_ms: int) -> None:
        """Takes over the state that was read from the disk."""
        self._segments.adopt(loaded.segments, is_clean=loaded.is_clean)
        self.leader_epochs = loaded.leader_epochs
        self.producer_state = loaded.producers
        self.log_end_offset = loaded.next_offset
        self.recovery_point = loaded.recovery_point
        self.cuts = loaded.cuts
        self.may_have_holes = loaded.may_have_holes
        if not loaded.segments and loaded.next_offset > 0:
            self._segments.begin(self.log_end_offset, now_ms, self.settings)

    def update_settings(self, settings: LogSettings) -> None:
        """Takes effect with the next append, roll and retention check."""
        self.settings = settings
        self._limits = settings.batch_limits
        self._is_log_append_time = settings.is_log_append_time
        self.may_have_holes = self.may_have_holes or settings.is_compacted
        self._walks_all = settings.is_record_validation_full or "compact" in settings.cleanup_policy
        self._walks_records = self._walks_all or settings.is_compressed_validated
        self.producer_state.max_producer_ids = settings.max_producer_ids
        if self._segments.active is not None:
            self._segments.active.update_settings(settings)

    @property
    def directory(self) -> str:
        return self._segments.directory

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments from the oldest to the active one, read-only."""
        return self._segments.in_order

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches in the log."""
        return self._segments.size_bytes

    # --- append ---

    def append(
        self,
        batches: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        are_records_checked: bool = False,
    ) -> Appended:
        """Appends one batch of a client, or own batches, as one write: all of it, or nothing and an error.

        Base offset and leader epoch are patched in place in a writable buffer; a read-only one is copied. Raises
        KafkaError (2, 10, 18, 32, 45, 47, 48, 53, 76, 87), StorageFullError (the log is unchanged), and
        StorageFailedError (the directory is offline). `are_records_checked`: the caller has run `check_records`.
        """
        if self.health.failure is not None:
            self.health.check()
        if origin not in OF_CLIENTS:
            return self._append_own(batches, leader_epoch, now_ms, origin)
        if len(batches) > self.settings.max_message_bytes:
            check_batch_size(batches, self.settings.max_message_bytes)
        fields = check_produced_fields(batches, now_ms, self._limits)
        _, length, _, _, _, attributes, delta, _, max_timestamp_ms, producer_id, epoch, base_sequence, _ = fields
        if attributes & TRANSACTIONAL_FLAG:
            check_transactional(self.producer_state, fields, origin, self.settings)
        true_max_timestamp_ms = max_timestamp_ms
        if self._walks_records and not are_records_checked and (self._walks_all or attributes & COMPRESSION_MASK):
            limits, name = self._limits, str(self.topic_partition)
            true_max_timestamp_ms = check_client_records(batches, fields, now_ms, limits, self.settings, name)
        if producer_id >= 0:
            last_sequence = (base_sequence + delta) & 0x7FFFFFFF
            duplicate = self.producer_state.check(producer_id, epoch, base_sequence, last_sequence)
            if duplicate is not None:
                return repeated(duplicate, self.log_start_offset)
            if self.producer_state.first_unstable_offset >= 0 and not attributes & TRANSACTIONAL_FLAG:
                self.producer_state.check_not_transactional(producer_id)
        size = length + LENGTH_OVERHEAD
        buffer = writable(batches) if size == len(batches) else writable(batches[:size])
        log_append_time_ms = now_ms if self._is_log_append_time else -1
        if attributes & LOG_APPEND_TIME_FLAG or log_append_time_ms >= 0 or true_max_timestamp_ms != max_timestamp_ms:
            max_timestamp_ms = stamp(buffer, fields, log_append_time_ms, true_max_timestamp_ms)
        last_offset = delta + (base_offset := self.log_end_offset)
        try:
            segment = self._segment_for(size, last_offset, max_timestamp_ms, now_ms)
            patch_base_offset(buffer, 0, base_offset, length, leader_epoch)
            position = segment.file.append(buffer)
        except StorageFullError:
            if base_sequence == 0:
                self.producer_state.expect_first(producer_id, epoch, now_ms)
            raise
        except StorageFailedError as error:
            self.health.fail(error)
            raise
        self._take_in(segment, position, size, base_offset, last_offset, max_timestamp_ms, leader_epoch)
        if producer_id >= 0:
            is_transactional = attributes & TRANSACTIONAL_FLAG != 0
            self.producer_state.update(
                producer_id, epoch, base_sequence, last_offset, delta, max_timestamp_ms, now_ms, is_transactional
            )
        return Appended(base_offset, last_offset, log_append_time_ms, self.log_start_offset)

    def _append_own(self, batches: Buffer, leader_epoch: int, now_ms: int, origin: AppendOrigin) -> Appended:
        """All batches go into one segment with one write, so that a coordinator's decision is stored as a whole."""
        stamp_ms = now_ms if self._is_log_append_time and origin is AppendOrigin.COORDINATOR else -1
        buffer, batches_in_order = patch_own(batches, self.log_end_offset, leader_epoch, stamp_ms)
        base_offset, last_offset = batches_in_order[0].base_offset, batches_in_order[-1].last_offset
        largest_ms = max(batch.max_timestamp_ms for batch in batches_in_order)
        segment = self._segment_for(len(buffer), last_offset, largest_ms, now_ms)
        with self.health.watched():
            start = write_own(self._segments, segment, self.producer_state, buffer, batches_in_order)
        for batch in batches_in_order:
            self._take_in(segment, start + batch.position, batch.size, *batch.place, leader_epoch)
            take_in_own(self.producer_state, buffer, batch, now_ms)
        return Appended(base_offset, last_offset, stamp_ms, self.log_start_offset)

    def append_copied(self, batches: Buffer, now_ms: int) -> None:
        """Appends whole batches of another replica unchanged, at their own offsets, for a follower.

        Raises ProtocolError for a batch that overlaps the log, StorageFullError, StorageFailedError. Earlier batches
        are in the log then. Records of a first batch below the log start offset are not read.
        """
        for header, batch in copied_batches(batches, self.log_start_offset, self.log_end_offset):
            if header.base_offset > self.log_end_offset:
                self.may_have_holes = self.has_copied_holes = True
            if needs_new_segment(self._segments.active, header, self.log_end_offset):
                self._begin_at(header.base_offset, now_ms)
            place = header.base_offset, header.last_offset, header.max_timestamp
            segment = self._segment_for(room_for(header, self.settings), *place[1:], now_ms)
            with self.health.watched():
                position = write_copied(self._segments, segment, self.producer_state, header, batch)
            self._take_in(segment, position, header.size, *place, header.partition_leader_epoch)
            take_in_copied(self.producer_state, self.leader_epochs, header, batch, self.log_start_offset, now_ms)

    def _begin_at(self, base_offset: int, now_ms: int) -> None:
        """Adds an empty segment where a copied batch begins. In an empty log it is the only one. Otherwise the offsets
        from the log end to it are a hole. Raises as `roll`."""
        with self.health.watched():
            if self.log_start_offset == self.log_end_offset:
                self._segments.begin_anew(base_offset, now_ms, self.settings)
            else:
                self._segments.roll(base_offset, self.producer_state, now_ms, self.settings)
        self.recovery_point = min(self.recovery_point, base_offset)
        self.log_end_offset = max(self.log_end_offset, base_offset)

    def _segment_for(self, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> Segment:
        """The segment that takes a batch: the active one, or a new one."""
        settings = self.settings
        segment = self._segments.active
        if segment is None:
            segment = self._segments.begin(self.log_end_offset, now_ms, settings)
        elif self._segments.is_clean:
            self._segments.make_dirty()
        timestamp_ms = max_timestamp_ms if max_timestamp_ms >= 0 else now_ms
        if (
            segment.size + size > settings.segment_bytes
            or timestamp_ms > segment.roll_timestamp_ms
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.is_index_full
        ):
            check_segment_size(size, settings.segment_bytes)
            segment = self.roll(now_ms)
        if segment.size == 0:
            segment.set_roll_time(timestamp_ms, settings)
        return segment

    def _take_in(
        self,
        segment: Segment,
        position: int,
        size: int,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        leader_epoch: int,
    ) -> None:
        """Updates the log after a batch was written."""
        if leader_epoch > self.leader_epochs.written_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        segment.append_entry(position, size, last_offset, max_timestamp_ms, self.settings.index_interval_bytes)
        self.log_end_offset = last_offset + 1
        recent = self._segments.recent
        if len(recent) >= RECENT_BATCHES:
            recent.clear()
        recent[base_offset] = position

    # --- roll, truncate, delete ---

    def roll(self, now_ms: int) -> Segment:
        """Seals the active segment and begins one at the log end offset. An empty active segment stays. Raises
        StorageFullError without a change."""
        active = self._segments.active
        if active is None:
            return self._segments.begin(self.log_end_offset, now_ms, self.settings)
        if active.size == 0:
            return active
        with self.health.watched():
            return self._segments.roll(self.log_end_offset, self.producer_state, now_ms, self.settings)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drops every batch that reaches to `offset` or beyond, and reads the last segment again. Waits for the disk.
        The end may be below `offset` if that is inside a batch, never below the log start offset. Producer state,
        leader epochs and recovery point go back too. Not while a flush runs, because it would write their files."""
        invariant(not self.is_flushing, f"{self.topic_partition} is truncated while it is flushed")
        if offset >= self.log_end_offset:
            # a leader without appends recorded its epoch at the log end, and the next leader does not know that epoch
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        self.health.check()
        self.truncations += 1
        self._segments.drop_cached_indexes()
        with self.health.watched():
            loaded = load_truncated(
                self._segments.in_order,
                max(offset, self.log_start_offset),
                self.settings,
                now_ms=now_ms,
                plan=RecoveryPlan(
                    recovery_point=self.recovery_point,
                    log_start_offset=self.log_start_offset,
                    cleaned_offset=NO_LIMIT if self.may_have_holes else 0,
                ),
                leader_epochs=self.leader_epochs,
                health=self.health,
            )
        self._adopt(loaded, now_ms)

    def start_at(self, offset: int, now_ms: int) -> None:
        """Begins again at `offset`, beyond the end, in a log that `truncate_to` has emptied."""
        with self.health.watched():
            self._segments.begin_anew(offset, now_ms, self.settings)
        self.log_start_offset = self.log_end_offset = offset
        self.leader_epochs.clear()
        self.producer_state.clear(offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Records below `offset` are no longer read. Their segments are deleted at the next retention check. False if
        the start is there already. Raises OFFSET_OUT_OF_RANGE beyond the end."""
        if offset > self.log_end_offset:
            raise kafka_error("OFFSET_OUT_OF_RANGE", f"{offset} is beyond the log end offset {self.log_end_offset}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    def forget_idle_producers(self, now_ms: int) -> bool:
        """Removes a slice of the producer ids that were idle for too long. True: more may be left."""
        return self.producer_state.expire(now_ms, self.settings.producer_id_expiration_ms) == EXPIRY_SLICE

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> list[DeletedSegment]:
        """Applies retention: renames the files of old segments to `*.deleted`, for `take_purgeable`, and moves the log
        start offset."""
        self.health.check()
        count = count_deletable(
            segment_facts(self.segments, self.log_end_offset, self.health),
            self.settings,
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
            total_bytes=self.size_bytes,
        )
        if count == len(self.segments):
            with suppress(StorageFullError):
                self.roll(now_ms)
            # if the snapshot of the roll has no room, the active segment stays, and deleting the others makes room
            count = min(count, len(self.segments) - 1)
        if not count:
            return []
        with self.health.watched():
            deleted = self._segments.delete_oldest(count, now_ms + self.settings.file_delete_delay_ms)
        self.advance_log_start_offset(self.segments[0].base_offset)
        return deleted

    def take_purgeable(self, now_ms: int) -> list[str]:
        """The files that retention deleted `file.delete.delay.ms` ago. The caller removes them in Workers
        (`remove_files`)."""
        return self._segments.take_purgeable(now_ms)

    def replace_segments(self, plan: CompactionPlan, cleaned: CleanedSegment, now_ms: int) -> bool:
        """Replaces segments by a cleaned and flushed one. False without a change if one of them is missing, after
        retention or a truncation. Raises StorageFailedError."""
        if plan.truncations != self.truncations:
            return False
        self.may_have_holes = True
        with self.health.watched():
            return self._segments.replace(plan, cleaned, now_ms + self.settings.file_delete_delay_ms)

    # --- read ---

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        at_least_one_batch: bool = True,
        held_bytes: int = HOLD_ANY,
        is_all_or_none: bool = False,
        may_wait: bool = False,
    ) -> Read:
        """Whole batches from the one with `offset` up to `end_offset`, at most `max_bytes` in all. The first one may be
        larger with `at_least_one_batch`, and is a `Read.later` if it is larger than `held_bytes` too. May return less
        than available. `is_all_or_none`: TOO_LARGE if a segment has more than `max_bytes`. Never waits for the disk
        unless `may_wait`, see Read. Raises OFFSET_OUT_OF_RANGE, StorageFailedError, CORRUPT_MESSAGE for damaged bytes,
        KAFKA_STORAGE_ERROR for a missing file."""
        if self.health.failure is not None:
            self.health.check()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise kafka_error("OFFSET_OUT_OF_RANGE", f"{offset} is not in the log")
        end_offset = min(end_offset, self.log_end_offset)
        if offset >= end_offset:
            return NOTHING
        segments = self._segments.in_order
        index = len(segments) - 1
        if segments[index].base_offset > offset:
            index = max(0, bisect_right(segments, offset, key=base_offset_of) - 1)
        while index < len(segments) and segments[index].base_offset < end_offset:
            segment = segments[index]
            recent = self._segments.recent if segment is self._segments.active else NO_POSITIONS
            try:
                reader = SegmentReader(segment, self.index_cache, self.health, may_wait, self.may_have_holes)
                result: Read | None = reader.read(
                    offset, end_offset, max_bytes, at_least_one_batch, recent, held_bytes, is_all_or_none
                )
            except StorageFailedError as error:
                self.health.fail(error)
                raise
            except FileNotFoundError:
                self.health.found(segment.path(LOG_SUFFIX), "the file is gone: readers get KAFKA_STORAGE_ERROR")
                raise kafka_error("KAFKA_STORAGE_ERROR") from None
            except DamagedBatchError as error:
                if segment.repair is not None:
                    segment.take_repair(segment.repair)
                    continue
                if segment.is_inspected:
                    if not segment.damages:
                        self.health.found(error.path, f"position {error.position}: {error.reason}")
                    raise
                result = self._repair_in_workers(segment, may_wait)
            if result is None:
                continue
            if result is not NOTHING:
                return result
            index += 1  # compaction left no batch at or after the offset in this segment
        return NOTHING

    def _repair_in_workers(self, segment: Segment, may_wait: bool) -> Read | None:
        """The response to the first read that meets damage in a segment: work that finds the readable part. None if
        that is done already."""
        self.index_cache.drop(segment)
        interval_bytes, is_active = self.settings.index_interval_bytes, segment is self._segments.active
        repair = RepairRead(segment, interval_bytes, self.health, self.may_have_holes, is_active=is_active)
        if not may_wait:
            return Read(None, repair)
        repair.run()
        return None

    def plan_timestamp_search(self, timestamp_ms: int) -> TimestampSearch:
        """`run()` in Workers gives the first record with a timestamp of at least `timestamp_ms`, or None."""
        self.health.check()
        return plan_timestamp_search(self.segments, timestamp_ms, self.log_start_offset, self._repair)

    def plan_max_timestamp_search(self) -> MaxTimestampSearch:
        """`run()` in Workers gives the first record with the largest timestamp (KIP-734), or None."""
        self.health.check()
        return plan_max_timestamp_search(self.segments, self.log_start_offset, self._repair)

    def _repair(self, segment: Segment) -> bool:
        """As `_repair_in_workers`, for a search in Workers. Returns whether a second search may find more."""
        if segment.is_inspected or segment is self._segments.active:
            return False
        RepairRead(segment, self.settings.index_interval_bytes, self.health, self.may_have_holes).run()
        return True

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end). Reads small files, each once."""
        return self._segments.aborted_transactions(start_offset, end_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch that is not above this one; (-1, -1) if unknown (KIP-320)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- durability ---

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages`, `flush.ms` or a sealed segment asks for a flush now."""
        unflushed, waited_ms = self.log_end_offset - self.recovery_point, now_ms - self._last_flush_ms
        if unflushed >= self.settings.flush_messages or (unflushed and waited_ms >= self.settings.flush_ms):
            return True
        # as in Apache Kafka, a sealed segment is flushed soon, because that bounds the work of recovery
        return len(self.segments) > 1 and not self.segments[-2].is_index_saved

    def unflushed(self) -> FlushPlan | None:
        """The plan of the next flush, if any is due; see FlushPlan. `mark_flushed` or `flush_failed` ends it."""
        sealed = self._segments.unsaved
        is_dirty = self.recovery_point < self.log_end_offset or self.leader_epochs.is_dirty
        self.is_flushing = is_dirty or bool(sealed)
        return self._plan(sealed) if self.is_flushing else None

    def _plan(self, sealed: list[Segment]) -> FlushPlan:
        return FlushPlan(
            self.disk,
            self._segments,
            self.health,
            lambda: self.health is CLOSED,
            sealed=sealed,
            end_offset=self.log_end_offset,
            leader_epochs=self.leader_epochs.encode() if self.leader_epochs.is_dirty else None,
        )

    def mark_flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """`plan.run()` has returned: its end offset is durable."""
        self.is_flushing = False
        self._last_flush_ms = now_ms
        self.recovery_point = max(self.recovery_point, plan.end_offset)
        self._segments.mark_flushed(plan.sealed, plan.names_version)
        if plan.leader_epochs == self.leader_epochs.encode():
            self.leader_epochs.is_dirty = False

    def flush_failed(self) -> None:
        """`plan.run()` failed or was not called."""
        self.is_flushing = False

    def close(self, now_ms: int) -> None:
        """Makes everything durable, with indexes and producer snapshot as in Apache Kafka. Waits. No appends
        afterwards. On an offline directory it only closes the files."""
        try:
            active = self._segments.active
            is_changed = not self._segments.is_clean or self._segments.unsaved or self.leader_epochs.is_dirty
            if not self.health.is_offline and active is not None and is_changed:
                self._segments.save_snapshot(self.log_end_offset, self.producer_state)
                active.seal()
                remove_stray_snapshots(self._segments.in_order, self.log_end_offset)
                plan = self._plan([segment for segment in self.segments if not segment.is_index_saved])
                plan.snapshot_offset = self.log_end_offset
                plan.run()
                self.mark_flushed(plan, now_ms)
        finally:
            self.release()

    def release(self) -> None:
        """Closes the files without writing: the log will be deleted, or its node crashes."""
        self._segments.close()
        self.health = CLOSED
