"""The log cleaner: chooses a compacted log, runs one round of cleaning, and swaps in the result.

It cleans one log at a time, as with `log.cleaner.threads=1`. The round runs elsewhere (see cleaner_process), and the
renames between two turns of the loop. The choice is Kafka's (core/log/cleaning/cleanable): the log with the highest
share of dirty bytes, among those above `min.cleanable.dirty.ratio` or whose oldest record waits for longer than
`max.compaction.lag.ms`. If no log qualifies, housekeeping looks again after `log.cleaner.backoff.ms`.

Order of durability: new files, recovery point (recovery must never take a cleaned segment for a torn log), renames,
`cleaner-offset-checkpoint`. A partition that moves to another log directory meanwhile is not cleaned until its old log
is removed: a start after a crash compares the two logs. A log with a damaged batch still serves, but is not cleaned
again until a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from moldau.core.log.cleaning.cleanable import Cleanable, find_cleanable, is_roll_due, plan_round
from moldau.core.log.cleaning.compaction import MIN_KEYS, CompactionPlan, CompactionResult, remove_cleaned
from moldau.core.log.cleaning.key_offsets import keys_within
from moldau.core.replication.partition import Partition
from moldau.errors import StorageFailedError, StorageFullError

if TYPE_CHECKING:
    from moldau.core.log.log import Log
    from moldau.shell.broker.logs.cleaner_process import CleanerProcess
    from moldau.shell.broker.logs.moves import ReplicaMoves
    from moldau.shell.broker.own_node import OwnNode
    from moldau.shell.broker.partitions import Partitions

MAX_FAILURES = 3
UNCLEANABLE_COUNT = "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count"
MAX_DIRTY_PERCENT = "kafka.log:type=LogCleanerManager,name=max-dirty-percent"
RECOPY_PERCENT = "kafka.log:type=LogCleaner,name=cleaner-recopy-percent"
BUFFER_PERCENT = "kafka.log:type=LogCleaner,name=max-buffer-utilization-percent"
CLEAN_TIME = "kafka.log:type=LogCleaner,name=max-clean-time-secs"
COMPACTION_DELAY = "kafka.log:type=LogCleaner,name=max-compaction-delay-secs"


class Refused(msgspec.Struct):
    """A log whose last round failed: the number of that round, and consecutive failures of the child process."""

    last_round: int = 0
    failures: int = 0


class Cleaner:
    """Used from the broker's loop. Housekeeping calls `clean_one` repeatedly."""

    def __init__(self, node: OwnNode, partitions: Partitions, moves: ReplicaMoves) -> None:
        self._node = node
        self._partitions = partitions
        self._moves = moves
        self._process: CleanerProcess | None = None
        self._is_stopped = False
        self._refused: dict[int, Refused] = {}
        """By partition number. These logs come after all others, in the order of their last round: otherwise a log
        without room would keep the others from their round."""
        self._rounds = 0

    def stop(self) -> None:
        """Stops the cleaner. A child process has ended when this returns."""
        self._is_stopped = True
        if self._process is not None:
            self._process.close()

    # -- one log

    async def clean_one(self) -> bool:
        """Cleans the log that needs it most. False: no log needs it, or the round failed. Raises StorageFailedError."""
        chosen = await self._choose()
        if chosen is None or self._is_stopped:
            return False
        partition, log, cleanable = chosen
        node = self._node
        settings = node.settings.view
        begin_ms = node.clock.monotonic_ms()
        plan = plan_round(
            log,
            cleanable,
            now_ms=node.clock.now_ms(),
            nonce=node.random.random_bytes(8).hex(),
            dedupe_buffer_bytes=settings.log_cleaner_dedupe_buffer_size,
            io_buffer_bytes=max(4096, settings.log_cleaner_io_buffer_size),
        )
        disk = log.disk
        outcome = await self._runner().run(disk, plan, settings.log_cleaner_io_max_bytes_per_second)
        problem, message = outcome.problem, outcome.message
        is_in_place = False
        try:
            if outcome.result is not None:
                is_in_place = await self._put_in_place(partition, log, plan, outcome.result)
        except StorageFullError as error:
            problem, message = "full", str(error)
        finally:
            if not is_in_place and not self._is_stopped:
                await node.workers.run(lambda: remove_cleaned(disk, plan))
        if outcome.result is not None and is_in_place:
            self._tell(partition, outcome.result, node.clock.monotonic_ms() - begin_ms)
            return True
        self._failed(partition, problem, message)
        return False

    def _runner(self) -> CleanerProcess:
        """Created at first use: a node without compacted topics does not need it."""
        if self._process is None:
            from moldau.shell.broker.logs.cleaner_process import CleanerProcess

            self._process = CleanerProcess(self._node.clock, self._node.workers, self._node.pauses.pause_long)
        return self._process

    def _is_gone(self, partition: Partition, log: Log) -> bool:
        """Whether `log` no longer serves `partition`: it was deleted, has failed, or moved to another directory."""
        is_moved = partition.log is not log or self._moves.is_settling(partition)
        return partition.is_deleted or partition.is_offline or is_moved

    async def _choose(self) -> tuple[Partition, Log, Cleanable] | None:
        """The dirtiest log that is due. Also seals active segments with records that are too old."""
        node = self._node
        now_ms = node.clock.now_ms()
        best: tuple[Partition, Log, Cleanable] | None = None
        best_rank = 0, 0.0
        dirtiest, longest_ms = 0.0, 0
        self._forget_gone()
        for partition in list(self._compacted()):
            await node.pauses.pause()
            log = partition.log
            if self._is_gone(partition, log):
                continue
            try:
                part = self._look_at(partition, log, now_ms)
            except StorageFailedError:
                node.directory_failed()  # logs in the other directories are still cleaned
                continue
            dirtiest, longest_ms = max(dirtiest, part.ratio), max(longest_ms, part.overdue_ms)
            refused = self._refused.get(partition.number)
            rank = 0 if refused is None else -refused.last_round, part.ratio
            if part.is_due(log.settings.min_cleanable_dirty_ratio) and (best is None or rank > best_rank):
                best, best_rank = (partition, log, part), rank
        node.telemetry.set(MAX_DIRTY_PERCENT, int(100 * dirtiest))
        node.telemetry.set(COMPACTION_DELAY, longest_ms // 1000)
        uncleanable = sum(1 for refused in self._refused.values() if refused.failures >= MAX_FAILURES)
        node.telemetry.set(UNCLEANABLE_COUNT, uncleanable)
        # other work has run since the look
        return None if best is None or self._is_gone(best[0], best[1]) else best

    def _look_at(self, partition: Partition, log: Log, now_ms: int) -> Cleanable:
        """Finds the cleanable part of `log`. Raises StorageFailedError (the directory is offline then)."""
        if is_roll_due(log, now_ms):
            with suppress(StorageFullError):  # cleaning makes room
                log.roll(now_ms)
        if log.is_flush_due(now_ms):
            # sealed just now, or recovered after a crash: cleaning covers flushed segments only
            self._partitions.touched[partition.number] = partition
        with log.health.watched():
            return find_cleanable(log, self._cleaned_offset(partition), partition.last_stable_offset, now_ms)

    def _compacted(self) -> Iterator[Partition]:
        for partition in self._partitions:
            if partition.log.settings.is_compacted:
                refused = self._refused.get(partition.number)
                if refused is None or refused.failures < MAX_FAILURES:
                    yield partition

    def _forget_gone(self) -> None:
        if self._refused:
            here = {partition.number for partition in self._partitions}
            self._refused = {number: refused for number, refused in self._refused.items() if number in here}

    # -- how far each log is clean

    def _cleaned_offset(self, partition: Partition) -> int:
        """The end of the cleaned part. 0 if the log was never cleaned: then the whole log is dirty."""
        directory = self._partitions.logs.directory_of(partition.topic_partition)
        return 0 if directory is None else directory.cleaned_offsets.get(partition.topic_partition, 0)

    # -- the end of a round

    async def _put_in_place(
        self, partition: Partition, log: Log, plan: CompactionPlan, result: CompactionResult
    ) -> bool:
        """Swaps in the cleaned segments. False if the log changed meanwhile: segments swapped until then stay, which
        loses nothing."""
        node, disk = self._node, log.disk
        directory = self._partitions.logs.directory_of(partition.topic_partition)
        if directory is not None:
            # without this entry, the holes of an unfinished round count as damage once the topic is no longer compacted
            directory.cleaned_offsets.setdefault(partition.topic_partition, 1)
        await self._partitions.checkpoints.write(self._partitions.high_watermarks(), directory)
        for segment in result.segments:
            if self._is_gone(partition, log) or not log.replace_segments(plan, segment, node.clock.now_ms()):
                return False
            await node.pauses.pause_long()
        try:
            await node.workers.run(lambda: disk.flush_directory(plan.directory))
        except FileNotFoundError:  # the log was deleted meanwhile
            return False
        except StorageFailedError as error:
            log.health.fail(error)
            raise
        if self._is_gone(partition, log) or directory is None or log.truncations != plan.truncations:
            return False  # a log truncated meanwhile is clean up to the cut only, which the truncation has noted
        directory.cleaned_offsets[partition.topic_partition] = result.end_offset
        self._refused.pop(partition.number, None)
        await self._partitions.checkpoints.save_cleaned_offsets(directory)
        return True

    def _tell(self, partition: Partition, result: CompactionResult, duration_ms: int) -> None:
        node = self._node
        capacity = max(MIN_KEYS, keys_within(node.settings.view.log_cleaner_dedupe_buffer_size))
        node.telemetry.set(RECOPY_PERCENT, 100 * result.bytes_written // max(1, result.bytes_read))
        node.telemetry.set(BUFFER_PERCENT, 100 * result.keys // capacity)
        node.telemetry.set(CLEAN_TIME, duration_ms // 1000)
        node.log.info(
            "log cleaned",
            f"node {node.node_id}: {partition.topic_partition}: cleaned up to offset {result.end_offset}: "
            f"{result.records_kept} of {result.records_read} records, {result.bytes_written} of {result.bytes_read} "
            f"bytes stay, {duration_ms} ms",
            about=str(partition.topic_partition),
        )

    def _failed(self, partition: Partition, problem: str, message: str) -> None:
        """Logs the failure. A damaged log is not tried again. A log whose child process failed is tried two more
        times."""
        node = self._node
        self._rounds += 1
        refused = self._refused.setdefault(partition.number, Refused())
        refused.last_round = self._rounds
        if self._is_stopped or problem not in ("damaged", "full", "failed", "child"):
            return
        node.log.error(
            "cleaning failed",
            f"node {node.node_id}: {partition.topic_partition} was not cleaned: {message}",
            about=str(partition.topic_partition),
        )
        if problem in ("damaged", "child"):
            refused.failures = MAX_FAILURES if problem == "damaged" else refused.failures + 1
