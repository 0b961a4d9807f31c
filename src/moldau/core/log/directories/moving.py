"""A partition on its way to another log directory (KIP-113): a copy that catches up, then takes the place of the log.

The copy lies in `topic-0.<32 hex>-future`, as in Apache Kafka. It takes whole batches as they lie in the log, offsets
and holes included, rolls its own segments, and serves nobody. Once it has every batch, in the same turn of the loop,
`take_over` gives it what is not in the batches and its final name. A crash before that leaves a directory that the next
start removes; a crash before the old directory is gone leaves both, see duplicates.
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
    """A log that took what another one holds, batch by batch, and then its place."""

    def adopt(self, source: Log) -> None:
        """What is not in the batches: where the log starts, its producers, its leader epochs, holes at its end."""
        self.log_start_offset = source.log_start_offset
        self.log_end_offset = source.log_end_offset
        self.producer_state = source.producer_state
        self.leader_epochs = source.leader_epochs
        self.leader_epochs.is_dirty = True
        self.may_have_holes = self.may_have_holes or source.may_have_holes
        self.has_copied_holes = self.has_copied_holes or source.has_copied_holes
        self.update_settings(source.settings)
        # what was flushed beyond it lies under a name that a crash may take
        self.recovery_point = source.recovery_point

    def move_to(self, directory: str) -> None:
        """The directory of the log gets its final name. Raises StorageFailedError."""
        self._segments.move_to(directory)


class FutureLog:
    """The copy of `source` in `target`. Used from the loop; `StorageFailedError` of the target ends the move."""

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
        """How many offsets the copy is behind."""
        return self.source.log_end_offset - self.next_offset

    @property
    def next_offset(self) -> int:
        """The offset that is to be copied next."""
        if self._log is None:
            return self.source.log_start_offset
        return max(self._log.log_end_offset, self.source.log_start_offset)

    @property
    def is_as_durable(self) -> bool:
        """Whether the copy has on the disk what the log has there."""
        log = self._log
        return log is None or log.recovery_point >= min(self.source.recovery_point, log.log_end_offset)

    def unflushed(self) -> FlushPlan | None:
        """As `Log.unflushed`, of the copy."""
        return None if self._log is None else self._log.unflushed()

    def mark_flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """As `Log.mark_flushed`, of the copy."""
        if self._log is not None:
            self._log.mark_flushed(plan, now_ms)

    def begin(self) -> None:
        """Makes the directory. Raises StorageFullError, StorageFailedError."""
        with self.target.health.watched():
            self.target.disk.make_directory(self.directory)
            self.target.write_topic_id_into(self.directory, self.source.topic_id)

    def append(self, batches: Buffer, now_ms: int) -> None:
        """Takes in whole batches from `next_offset` on, the first of which may begin before it."""
        _, first = next(iterate_batches(batches), (0, None))
        if first is None:
            raise ProtocolError(f"{self.topic_partition}: no whole record batch at offset {self.next_offset}")
        with self.target.health.watched():
            log = self._log
            if log is None:
                log = self._log = self._open(self._first_offset(first), now_ms)
            log.append_copied(batches, now_ms)

    def _first_offset(self, header: BatchHeader) -> int:
        """What the name of the first segment says: where the log starts, for that is all a start after a crash knows of
        it. Compaction may have taken the batches from there on; one batch may begin before."""
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
        """Renames the copy to the partition's own name and gives the log to use from now on.

        To be called when every batch of the log is in the copy, and what the log has on the disk is there too
        (`is_as_durable`); what is behind the last batch is a hole of compaction.

        The old directory stays as it is: discard it when the new one is durable (`LogDirectory.discard`). Raises
        StorageFailedError, and then the old log is still the one.
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
        """What readers of committed records skip stands beside the batches, in the segment of each marker."""
        for segment in log.segments if aborted else ():
            own = [entry for entry in aborted if segment.base_offset <= entry.last_offset < segment.next_offset]
            save_transactions(segment, own)

    def abandon(self) -> None:
        """Closes the copy; its directory is to be removed in Workers."""
        if self._log is not None:
            self._log.release()
