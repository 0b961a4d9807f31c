"""Moves a partition to another log directory (KIP-113): a copy that catches up and replaces the log.

The copy is in `topic-0.<32 hex>-future`, as in Apache Kafka. It takes whole batches as they are in the log, with
offsets and holes, rolls its own segments, and has no readers. When it has every batch, `take_over` adds the rest
(epochs, producers) and gives it its final name, in the same turn of the loop. A crash before that leaves a directory
that the next start removes. A crash before the old directory is removed leaves both, see duplicates.
"""

from __future__ import annotations

from moldau.core.log.directories.directory import LogDirectory, future_directory_name
from moldau.core.log.files.flush import FlushPlan
from moldau.core.log.files.segment import MAX_RELATIVE_OFFSET, save_transactions
from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.log.log import Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.errors import ProtocolError, invariant
from moldau.types import Buffer, TopicPartition, Uuid
from moldau.wire.records.batch import BatchHeader, iterate_batches

NO_TRANSACTIONS = 0x7FFFFFFFFFFFFFFF


class MovedLog(Log):
    """A log that copies another one and then replaces it."""

    def adopt(self, source: Log) -> None:
        """Takes the rest of the other log: its start, producers, leader epochs, and the hole at its end."""
        self.log_start_offset = source.log_start_offset
        self.log_end_offset = source.log_end_offset
        self.producer_state = source.producer_state
        self.leader_epochs = source.leader_epochs
        self.leader_epochs.is_dirty = True
        self.may_have_holes = self.may_have_holes or source.may_have_holes
        self.has_copied_holes = self.has_copied_holes or source.has_copied_holes
        self.update_settings(source.settings)
        # flushed data above it has a name that a crash may undo
        self.recovery_point = source.recovery_point

    def move_to(self, directory: str) -> None:
        """The directory of the log gets its final name. Raises StorageFailedError."""
        self._segments.move_to(directory)


class FutureLog:
    """The copy of `source` in `target`. For the loop. A `StorageFailedError` of the target ends the move."""

    def __init__(self, source: Log, source_directory_id: Uuid, target: LogDirectory, move_id: Uuid) -> None:
        self.topic_partition: TopicPartition = source.topic_partition
        self.source = source
        self.source_directory_id = source_directory_id
        self.target = target
        self.directory = future_directory_name(source.topic_partition, move_id)
        self._log: MovedLog | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes that the copy has so far; 0 before its directory is made."""
        return 0 if self._log is None else self._log.size_bytes

    @property
    def offset_lag(self) -> int:
        """The offsets that the copy lacks."""
        return self.source.log_end_offset - self.next_offset

    @property
    def next_offset(self) -> int:
        """The next offset to copy."""
        if self._log is None:
            return self.source.log_start_offset
        return max(self._log.log_end_offset, self.source.log_start_offset)

    @property
    def is_as_durable(self) -> bool:
        """Whether the copy has everything on disk that the log has on disk."""
        log = self._log
        return log is None or log.recovery_point >= min(self.source.recovery_point, log.log_end_offset)

    def unflushed(self) -> FlushPlan | None:
        """As `Log.unflushed`, for the copy."""
        return None if self._log is None else self._log.unflushed()

    def mark_flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """As `Log.mark_flushed`, for the copy."""
        if self._log is not None:
            self._log.mark_flushed(plan, now_ms)

    def begin(self) -> None:
        """Makes the directory. Raises StorageFullError, StorageFailedError."""
        with self.target.health.watched():
            self.target.disk.make_directory(self.directory)
            self.target.write_topic_id_into(self.directory, self.source.topic_id)

    def append(self, batches: Buffer, now_ms: int) -> None:
        """Appends whole batches from `next_offset` on. The first may begin before it."""
        _, first = next(iterate_batches(batches), (0, None))
        if first is None:
            raise ProtocolError(f"{self.topic_partition}: no whole record batch at offset {self.next_offset}")
        with self.target.health.watched():
            log = self._log
            if log is None:
                log = self._log = self._open(self._first_offset(first), now_ms)
            log.append_copied(batches, now_ms)

    def _first_offset(self, header: BatchHeader) -> int:
        """The log start of the source, which names the first segment: a start after a crash knows the log start only
        from this name. Compaction may have removed the batches from there on, and one batch may begin before it."""
        start_offset = min(self.source.log_start_offset, header.base_offset)
        return start_offset if header.last_offset - start_offset <= MAX_RELATIVE_OFFSET else header.base_offset

    def _open(self, base_offset: int, now_ms: int) -> MovedLog:
        log = MovedLog(
            self.target.disk,
            self.directory,
            self.topic_partition,
            self.source.topic_id,
            self.source.settings,
            now_ms,
            health=self.target.health,
            index_cache=self.target.index_cache,
        )
        log.load(now_ms, RecoveryPlan(log_start_offset=base_offset))
        return log

    def take_over(self, now_ms: int) -> Log:
        """Renames the copy to the partition's name and returns it.

        Call it when the copy has every batch of the log, on disk where the log does (`is_as_durable`). Offsets after
        the last batch are a hole of compaction.

        The old directory stays: discard it when the new one is durable (`LogDirectory.discard`). Raises
        StorageFailedError, and then the old log stays in use.
        """
        log, source = self._log, self.source
        invariant(self.is_as_durable, f"{self.topic_partition}: the copy lacks on its disk what the log has there")
        if log is None:
            with self.target.health.watched():
                log = self._log = self._open(source.log_end_offset, now_ms)
        log.adopt(source)
        with source.health.watched():
            aborted = source.aborted_transactions(0, NO_TRANSACTIONS)
        with self.target.health.watched():
            self._copy_transactions(log, aborted)
            log.move_to(str(self.topic_partition))
        self.target.logs[self.topic_partition] = log
        return log

    def _copy_transactions(self, log: Log, aborted: list[AbortedTransaction]) -> None:
        """Copies the transaction indexes, which readers of committed records need, into the segment of each marker."""
        for segment in log.segments if aborted else ():
            own = [entry for entry in aborted if segment.base_offset <= entry.last_offset < segment.next_offset]
            save_transactions(segment, own)

    def abandon(self) -> None:
        """Closes the copy. Remove its directory in Workers."""
        if self._log is not None:
            self._log.release()
