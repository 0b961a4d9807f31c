"""One log directory of a broker: its partitions, its checkpoints, and how it was left.

Layout and formats are Kafka's. `topic-0` is a partition, `topic-0.<32 hex>-delete` a deleted one, `topic-0.<32
hex>-stray` one that the metadata does not name (see strays). `__cluster_metadata-0` belongs to the quorum and is not
touched here. `.kafka_cleanshutdown` is written at the end of a clean stop and removed by the next start that opens
every log. Its absence means a crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import (
    CLEAN_SHUTDOWN_MARK,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    decode_clean_shutdown,
    decode_offsets,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_offsets,
    encode_partition_metadata,
)
from moldau.core.log.files.segment import LOG_SUFFIX, IndexCache, base_offsets, write_whole_file
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.log import Log
from moldau.core.log.recovery.cut import is_cut_name
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import NO_LIMIT, LogSettings
from moldau.errors import StorageFailedError, invariant
from moldau.ports import FLUSH_FAILED_MARK, Disk
from moldau.types import METADATA_PARTITION, ZERO_UUID, TopicPartition, Uuid

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
_SET_ASIDE = re.compile(r"-\d+\.[0-9a-f]{32}(-delete|-future)$", re.ASCII)
"""The names that `deleted_directory_name` and Apache Kafka use. Other directories are never removed."""
_STRAY = re.compile(r"(\S+)-(\d+)\.(\S+)-stray", re.ASCII)
"""The names of strays, including Apache Kafka's."""
_MAX_NAME_LENGTH = 255
_CHECKPOINTS = {
    RECOVERY_POINT_CHECKPOINT: "the start after a crash reads every log from its beginning",
    HIGH_WATERMARK_CHECKPOINT: "with one replica nothing depends on this file",
    LOG_START_OFFSET_CHECKPOINT: "records that DeleteRecords deleted may be readable again",
    CLEANER_OFFSET_CHECKPOINT: "the cleaner reads compacted logs from their start",
}
"""The consequence if this checkpoint is unreadable."""


class LogDirectory:
    """Created by `open`. Then `open_all` or `open_log` open existing logs, and `create_log` a new one."""

    def __init__(
        self,
        disk: Disk,
        *,
        health: DirectoryHealth | None = None,
        index_cache: IndexCache | None = None,
        directory_id: Uuid = ZERO_UUID,
        path: str = "",
    ) -> None:
        self.disk = disk
        self.directory_id = directory_id
        """`directory.id` of its meta.properties, by which the metadata log names it (KIP-858)."""
        self.path = path
        """The path that clients see."""
        self.health = health or DirectoryHealth()
        self.index_cache = index_cache or IndexCache()
        self.logs: dict[TopicPartition, Log] = {}
        self.is_clean = False
        """Whether the last stop was a clean one."""
        self.failed_flush: str | None = None
        """The file whose flush failed before this start. Unflushed data is written again, see rewriting."""
        self.is_new = False
        """Whether the directory was never used."""
        self.previous_broker_epoch = -1
        """The broker epoch of the last clean stop (KIP-966), -1 if unknown."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """From the checkpoint at the start."""
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """The offset below which each log is compacted. Moves with the log."""
        self._is_cleaning_unknown = False
        """Whether it is unknown which logs were ever compacted."""
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_start_offsets: dict[TopicPartition, int] = {}
        self._written: dict[str, bytes] = {}
        self._checkpointed: dict[TopicPartition, None] = {}
        """The partitions in the checkpoint files."""
        self._leaving: dict[TopicPartition, Log] = {}
        """Detached and not discarded yet: a start after a crash may need them."""
        self._deleted: list[tuple[int, str]] = []
        self._found_ids: dict[TopicPartition, Uuid] = {}
        """The ids that `find_topic_id` read for logs that are not open yet."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        health: DirectoryHealth | None = None,
        index_cache: IndexCache | None = None,
        directory_id: Uuid = ZERO_UUID,
        path: str = "",
    ) -> LogDirectory:
        """Reads checkpoints and the mark of a clean stop. Damaged checkpoints count as absent, and the logs are read
        whole then. Removes deleted partitions."""
        directory = cls(disk, health=health, index_cache=index_cache, directory_id=directory_id, path=path)
        names = disk.list_directory("")
        present = {found: None for name in names if (found := parse_directory_name(name)) is not None}
        directory.is_new = not present and not any(name in names for name in _CHECKPOINTS)
        if CLEAN_SHUTDOWN_MARK in names:
            try:
                directory.previous_broker_epoch = decode_clean_shutdown(
                    disk.read_file(CLEAN_SHUTDOWN_MARK)
                ).broker_epoch
                directory.is_clean = True
            except ValueError as error:
                directory.health.found(CLEAN_SHUTDOWN_MARK, f"{error}: the logs are recovered as after a crash")
        if FLUSH_FAILED_MARK in names:
            directory.failed_flush = disk.read_file(FLUSH_FAILED_MARK).decode("utf-8", "replace")
        directory._recovery_points = directory._load_checkpoint(RECOVERY_POINT_CHECKPOINT, present)
        directory._log_start_offsets = directory._load_checkpoint(LOG_START_OFFSET_CHECKPOINT, present)
        directory.high_watermarks = directory._load_checkpoint(HIGH_WATERMARK_CHECKPOINT, present)
        directory.cleaned_offsets = directory._load_checkpoint(CLEANER_OFFSET_CHECKPOINT, present)
        for name in _CHECKPOINTS:
            if name not in names:
                disk.open(name).close()
        for name in names:
            if _SET_ASIDE.search(name) and disk.is_directory(name):
                # an unfinished copy, whose original still exists
                disk.remove_tree(name)
        return directory

    def partitions(self) -> list[TopicPartition]:
        """The partitions in the directory, by name. Files are ignored, whatever their names."""
        found = ((name, parse_directory_name(name)) for name in self.disk.list_directory(""))
        return [partition for name, partition in found if partition is not None and self.disk.is_directory(name)]

    def open_all(self, settings_for: Callable[[str], LogSettings], now_ms: int) -> Iterator[Log]:
        """Opens the logs one by one, with recovery after a crash. That takes long, so it yields each log.

        `settings_for(topic)`. Raises StorageFailedError, DamagedLogError.
        """
        for topic_partition in self.partitions():
            yield self.open_log(topic_partition, settings_for(topic_partition.topic), now_ms=now_ms)
        if self.disk.exists(CLEAN_SHUTDOWN_MARK):
            # only now, and before the first append: a start that fails finds the same state again
            self.disk.remove(CLEAN_SHUTDOWN_MARK)
            self.disk.flush_directory("")
        if self.failed_flush is not None:
            # the metadata log was opened before
            self.disk.remove(FLUSH_FAILED_MARK)

    def open_log(self, topic_partition: TopicPartition, settings: LogSettings, *, now_ms: int) -> Log:
        """Opens an existing partition. Its topic id is ZERO_UUID if the file with the id is missing."""
        invariant(topic_partition not in self.logs, f"{topic_partition} is open already")
        topic_id = self.find_topic_id(topic_partition)
        del self._found_ids[topic_partition]
        name, health, cache = str(topic_partition), self.health, self.index_cache
        log = Log(self.disk, name, topic_partition, topic_id, settings, now_ms, health=health, index_cache=cache)
        plan = RecoveryPlan(
            is_clean=self.is_clean,
            recovery_point=self._recovery_points.get(topic_partition, 0),
            log_start_offset=self._believed_start_offset(topic_partition),
            cleaned_offset=self._cleaned_below(topic_partition),
            is_rewritten=self.failed_flush is not None,
        )
        log.load(now_ms, plan)
        self.logs[topic_partition] = log
        return log

    def _cleaned_below(self, topic_partition: TopicPartition) -> int:
        return NO_LIMIT if self._is_cleaning_unknown else self.cleaned_offsets.get(topic_partition, 0)

    def _believed_start_offset(self, topic_partition: TopicPartition) -> int:
        """The log start offset of the checkpoint, unless a flipped bit may have raised it. Otherwise all records before
        it would be hidden, and deleted at the next retention check. The leader epochs are in another file and confirm
        the offset: the first epoch begins where the log does (docs/decisions/0026)."""
        offset = self._log_start_offsets.get(topic_partition, 0)
        if offset <= 0:
            return 0
        path = f"{topic_partition}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            entries = LeaderEpochs.decode(self.disk.read_file(path)).entries
            said = f"says {entries[0][1] if entries else offset}"
        except (FileNotFoundError, ValueError):
            entries, said = [(0, 0)], "cannot be read"
        if not entries or entries[0][1] >= offset:
            return offset
        bases = base_offsets(self.disk.list_directory(str(topic_partition)), LOG_SUFFIX)
        if not bases or offset <= bases[0] or offset in bases:
            # a power failure restored segments that retention had deleted, before a flush wrote the epochs
            return offset
        start_offset = max(entries[0][1], bases[0])
        self.health.found(
            LOG_START_OFFSET_CHECKPOINT,
            f"the file says that {topic_partition} starts at offset {offset}, {path} {said}: one of them is damaged, "
            f"and the log starts at {start_offset}; records that DeleteRecords deleted may be readable again",
        )
        return start_offset

    def create_log(self, topic_partition: TopicPartition, topic_id: Uuid, settings: LogSettings, *, now_ms: int) -> Log:
        """The log of a partition in the metadata: the existing one, or a new one.

        An existing log with another topic id is set aside, as a stray if it has records. Nothing is flushed: the
        metadata log has the partition, and it is created again after a crash of the machine. Raises StorageFullError,
        StorageFailedError.
        """
        self.health.check()
        name = str(topic_partition)
        with self.health.watched():
            if self.disk.is_directory(name):
                found_id = self._load_topic_id(name)
                if found_id == ZERO_UUID:
                    self.write_topic_id(topic_partition, topic_id)
                if found_id in (topic_id, ZERO_UUID):
                    return self.open_log(topic_partition, settings, now_ms=now_ms)
                self._set_other_aside(topic_partition, found_id, now_ms)
            self.disk.make_directory(name)
            self.write_topic_id(topic_partition, topic_id)
            health, cache = self.health, self.index_cache
            log = Log(self.disk, name, topic_partition, topic_id, settings, now_ms, health=health, index_cache=cache)
            self.logs[topic_partition] = log
            return log

    def write_topic_id(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Writes `partition.metadata`, for a new partition or one that lost it in a crash."""
        self.write_topic_id_into(str(topic_partition), topic_id)

    def write_topic_id_into(self, directory: str, topic_id: Uuid) -> None:
        """As `write_topic_id`, into the directory of a copy with another name."""
        write_whole_file(self.disk, f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))

    def delete_log(self, topic_partition: TopicPartition, *, delete_id: Uuid, now_ms: int) -> None:
        """Renames the partition's directory; `purge_deleted` removes it after `file.delete.delay.ms`. `delete_id`:
        random, so that a topic of the same name can be created again."""
        self.health.check()
        log = self.logs.pop(topic_partition)
        log.release()
        with self.health.watched():
            self._set_aside(topic_partition, delete_id, now_ms + log.settings.file_delete_delay_ms)

    def find_topic_id(self, topic_partition: TopicPartition) -> Uuid:
        """The topic id in `partition.metadata` of a partition that is not open yet; ZERO_UUID if unknown."""
        found = self._found_ids.get(topic_partition)
        if found is None:
            found = self._found_ids[topic_partition] = self._load_topic_id(str(topic_partition))
        return found

    def mend_topic_id(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """As `write_topic_id`, before the log is opened."""
        self.write_topic_id(topic_partition, topic_id)
        self._found_ids[topic_partition] = topic_id

    def set_stray_aside(self, topic_partition: TopicPartition, *, stray_id: Uuid) -> str:
        """Renames the directory of a partition that is not open, and keeps its files. Returns the new name. Raises
        StorageFailedError."""
        name = stray_directory_name(topic_partition, stray_id)
        self._rename(topic_partition, name)
        return name

    def set_deleted_aside(self, topic_partition: TopicPartition, *, delete_id: Uuid, now_ms: int) -> None:
        """As `delete_log`, for a partition that is not open. It may be removed at once."""
        self._set_aside(topic_partition, delete_id, now_ms)

    def repair_log(
        self, topic_partition: TopicPartition, settings: LogSettings, *, now_ms: int, is_cleaning_unknown: bool
    ) -> list[str]:
        """Cuts a damaged log at its first damage, see recovery; then call `write_recovery_points`. Returns a sentence
        without its subject for each change. Waits. Raises StorageFullError, StorageFailedError."""
        name, noted = str(topic_partition), self._recovery_points.get(topic_partition, 0)
        plan = RecoveryPlan(
            recovery_point=noted,
            log_start_offset=self._believed_start_offset(topic_partition),
            cleaned_offset=NO_LIMIT if is_cleaning_unknown else self._cleaned_below(topic_partition),
            refuses_damage=False,
        )
        log = Log.open(self.disk, name, topic_partition, ZERO_UUID, settings, now_ms=now_ms, plan=plan)
        log.release()
        done = [cut.describe() for cut in log.cuts]
        if log.log_end_offset < noted:
            self._recovery_points[topic_partition] = log.log_end_offset
            done.append(f"set the recovery point of {name} to {log.log_end_offset}, where the log ends (was {noted})")
        return done

    def write_recovery_points(self) -> None:
        """Writes the recovery points, after `repair_log`. Waits."""
        self.disk.replace_file(RECOVERY_POINT_CHECKPOINT, encode_offsets(self._recovery_points))

    def adopt(self, topic_partition: TopicPartition, stray: str, topic_id: Uuid) -> None:
        """The stray of that name becomes the partition. An existing empty one is removed. It is in no checkpoint, so
        the start reads it whole. Waits."""
        name = str(topic_partition)
        for checkpoint in _CHECKPOINTS:
            with suppress(FileNotFoundError, ValueError):
                offsets = decode_offsets(self.disk.read_file(checkpoint))
                if offsets.pop(topic_partition, None) is not None:
                    self.disk.replace_file(checkpoint, encode_offsets(offsets))
        self.write_topic_id_into(stray, topic_id)
        if self.disk.is_directory(name):
            # the next start removes the renamed directory
            self.disk.rename(name, deleted_directory_name(topic_partition, topic_id))
        self.disk.rename(stray, name)
        self.disk.remove(CLEAN_SHUTDOWN_MARK)
        self.disk.flush_directory("")

    def has_records(self, name: str) -> bool:
        """Whether the directory `name` of a partition has any records, in the log or cut from it."""
        for file_name in self.disk.list_directory(name):
            if file_name.endswith(LOG_SUFFIX) or is_cut_name(file_name):
                file = self.disk.open(f"{name}/{file_name}")
                try:
                    if file.size():
                        return True
                finally:
                    file.close()
        return False

    def keep_start_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Keeps the log start at `offset` or above, also after the next crash. Waits. Raises as a CheckpointPlan."""
        log = self.logs[topic_partition]
        if log.advance_log_start_offset(min(offset, log.log_end_offset)):
            self._save_leader_epochs(log, log.leader_epochs)
            plan = self.checkpoint_log_start_offsets()
            plan.run()
            self.checkpointed(plan)

    def truncate(self, topic_partition: TopicPartition, offset: int, now_ms: int) -> None:
        """`Log.truncate_to` that a crash may interrupt anywhere: no checkpoint ever says that the removed records are
        durable, otherwise a start would report them as lost. Waits. Not during a flush of the log or a CheckpointPlan.
        Raises as a CheckpointPlan."""
        log = self.logs[topic_partition]
        # a batch that reaches beyond the offset is removed too, but no batch of an older segment
        floor = max((segment.base_offset for segment in log.segments if segment.base_offset <= offset), default=0)
        flushed_offset = log.recovery_point
        if floor < flushed_offset and offset < log.log_end_offset:
            if self.cleaned_offsets.get(topic_partition, 0) > floor:
                # not 0, which means that the log was never cleaned: it keeps its holes
                self.cleaned_offsets[topic_partition] = max(1, floor)
            log.recovery_point = floor
            offsets = {RECOVERY_POINT_CHECKPOINT: self._recovery_point_of_each()}
            plan = self._plan(offsets | {CLEANER_OFFSET_CHECKPOINT: self._cleaned_offsets()})
            plan.run()
            self.checkpointed(plan)
        log.truncate_to(offset, now_ms)
        log.recovery_point = min(flushed_offset, log.log_end_offset)

    def start_over(self, topic_partition: TopicPartition, offset: int, now_ms: int) -> None:
        """The log is empty and begins at `offset`, beyond its old end. As with `truncate`, a crash may interrupt it,
        and nothing is reported as lost."""
        log = self.logs[topic_partition]
        self.truncate(topic_partition, log.log_start_offset, now_ms)
        # the first batch may begin below `offset`, so only this file and the checkpoint have the log start
        self._save_leader_epochs(log, LeaderEpochs())
        log.start_at(offset, now_ms)

    def keep_leader_epochs(self, topic_partition: TopicPartition, known: LeaderEpochs) -> None:
        """Takes the leader epochs of another replica, durably. Waits. Raises as a disk."""
        log = self.logs[topic_partition]
        if log.leader_epochs.learn(known):
            log.leader_epochs.truncate_from_start(log.log_start_offset)
            self._save_leader_epochs(log, log.leader_epochs)

    def _save_leader_epochs(self, log: Log, epochs: LeaderEpochs) -> None:
        with self.health.watched():
            self.disk.replace_file(f"{log.topic_partition}/{LEADER_EPOCH_CHECKPOINT}", epochs.encode())

    def detach(self, topic_partition: TopicPartition) -> None:
        """The partition has moved elsewhere: closes its log. Files and checkpoints stay until `discard`."""
        log = self._leaving[topic_partition] = self.logs.pop(topic_partition)
        log.release()

    def discard(self, topic_partition: TopicPartition, *, delete_id: Uuid, now_ms: int) -> None:
        """Sets the files of a detached partition aside, for `take_purgeable`. Raises StorageFailedError."""
        if topic_partition not in self._leaving or topic_partition in self.logs:
            return  # a new topic of that name has done it, or the partition has returned
        self.health.check()
        with self.health.watched():
            self._set_aside(topic_partition, delete_id, now_ms)

    def discard_other(self, topic_partition: TopicPartition, topic_id: Uuid, *, delete_id: Uuid, now_ms: int) -> None:
        """As `discard`, if the detached log is of another topic of that name."""
        leaving = self._leaving.get(topic_partition)
        if leaving is not None and leaving.topic_id != topic_id and not self.health.is_offline:
            self.discard(topic_partition, delete_id=delete_id, now_ms=now_ms)

    def _set_other_aside(self, topic_partition: TopicPartition, found_id: Uuid, now_ms: int) -> None:
        if self.has_records(str(topic_partition)):
            self._rename(topic_partition, stray_directory_name(topic_partition, found_id))
        else:
            self._set_aside(topic_partition, found_id, now_ms)

    def _set_aside(self, topic_partition: TopicPartition, delete_id: Uuid, purge_at_ms: int) -> None:
        name = deleted_directory_name(topic_partition, delete_id)
        self._rename(topic_partition, name)
        self._deleted.append((purge_at_ms, name))

    def _rename(self, topic_partition: TopicPartition, name: str) -> None:
        self.disk.rename(str(topic_partition), name)
        self._found_ids.pop(topic_partition, None)
        self._leaving.pop(topic_partition, None)
        for offsets in (self._recovery_points, self._log_start_offsets, self.high_watermarks, self.cleaned_offsets):
            offsets.pop(topic_partition, None)

    def take_purgeable(self, now_ms: int) -> list[str]:
        """The names of deleted partitions whose delay is over. The caller removes them (`disk.remove_tree`), in
        Workers."""
        due = [name for purge_at_ms, name in self._deleted if purge_at_ms <= now_ms]
        self._deleted = [entry for entry in self._deleted if entry[0] > now_ms]
        return due

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> CheckpointPlan:
        """A plan that writes the present offset checkpoints by `run()`, in Workers."""
        plan = self._plan(
            {
                RECOVERY_POINT_CHECKPOINT: self._recovery_point_of_each(),
                LOG_START_OFFSET_CHECKPOINT: self._start_offsets(),
                HIGH_WATERMARK_CHECKPOINT: {key: high_watermarks[key] for key in self.logs if key in high_watermarks},
                CLEANER_OFFSET_CHECKPOINT: self._cleaned_offsets(),
            }
        )
        plan.is_whole = True
        return plan

    def checkpoint_log_start_offsets(self) -> CheckpointPlan:
        """As `checkpoint`, for log start offsets only, after a client moved one."""
        return self._plan({LOG_START_OFFSET_CHECKPOINT: self._start_offsets()})

    def checkpoint_cleaned_offsets(self) -> CheckpointPlan:
        """As `checkpoint`, for the offsets of the cleaner only."""
        return self._plan({CLEANER_OFFSET_CHECKPOINT: self._cleaned_offsets()})

    def checkpointed(self, plan: CheckpointPlan) -> None:
        """`plan.run()` has returned: the files have its content."""
        if plan.is_whole:
            self._checkpointed.clear()
        for offsets in plan.offsets.values():
            self._checkpointed.update(dict.fromkeys(offsets))

    def has_stale_offsets(self, topic_partition: TopicPartition) -> bool:
        """Whether the checkpoint files still have a removed partition. After a crash its offsets would be used for a
        new one of that name. `checkpoint` removes them."""
        is_here = topic_partition in self.logs or topic_partition in self._leaving
        return topic_partition in self._checkpointed and not is_here and not self.health.is_offline

    def forget_stale_offsets(self) -> None:
        """The files cannot be written now: keeps the stale offsets."""
        self._checkpointed.clear()

    def _plan(self, offsets: dict[str, dict[TopicPartition, int]]) -> CheckpointPlan:
        return CheckpointPlan(self.disk, self.health, self._written, offsets)

    def _recovery_point_of_each(self) -> dict[TopicPartition, int]:
        return {key: log.recovery_point for key, log in (*self._leaving.items(), *self.logs.items())}

    def _start_offsets(self) -> dict[TopicPartition, int]:
        """Also offsets in file names, because a crash of the machine may restore files that retention deleted."""
        return {
            key: log.log_start_offset
            for key, log in (*self._leaving.items(), *self.logs.items())
            if log.log_start_offset > 0
        }

    def _cleaned_offsets(self) -> dict[TopicPartition, int]:
        """Never cleaned here, but with copied holes: 1, because with 0 or no entry the holes would count as damage."""
        logs = {**self._leaving, **self.logs}
        found = {key: offset for key, offset in self.cleaned_offsets.items() if key in logs}
        return {key: 1 for key, log in logs.items() if log.has_copied_holes} | found

    def close(self, *, broker_epoch: int, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """A clean stop: closes every log durably, then writes the checkpoints, then the mark. Waits.

        Logs may have been closed before, in parallel. Raises StorageFailedError without writing the mark.
        """
        for log in self.logs.values():
            log.close(now_ms)
        self.health.check()
        self.checkpoint(high_watermarks).run()
        self.disk.replace_file(CLEAN_SHUTDOWN_MARK, encode_clean_shutdown(broker_epoch))

    def release(self) -> None:
        """Closes all files and writes nothing, as a crash of the process would."""
        for log in self.logs.values():
            log.release()

    def _load_checkpoint(self, name: str, present: Mapping[TopicPartition, None]) -> dict[TopicPartition, int]:
        """The offsets of existing partitions in the checkpoint. A partition that is created later has none."""
        try:
            data = self.disk.read_file(name)
            offsets = decode_offsets(data)
        except (FileNotFoundError, ValueError) as error:
            if not self.is_new:
                state = "the file is missing" if isinstance(error, FileNotFoundError) else f"damaged: {error}"
                self.health.found(name, f"{state}; {_CHECKPOINTS[name]}")
                self._is_cleaning_unknown = self._is_cleaning_unknown or name == CLEANER_OFFSET_CHECKPOINT
            return {}
        if not data and present and self.is_clean and name != CLEANER_OFFSET_CHECKPOINT:
            # a first start creates empty files, a clean stop leaves none
            self.health.found(name, f"the file is empty; {_CHECKPOINTS[name]}")
        self._checkpointed.update(dict.fromkeys(offsets))
        found = {key: offset for key, offset in offsets.items() if key in present}
        if name == CLEANER_OFFSET_CHECKPOINT and len(found) == len(offsets):
            # most nodes never write this file
            self._written[name] = encode_offsets(found)
        return found

    def _load_topic_id(self, directory: str) -> Uuid:
        try:
            return decode_partition_metadata(self.disk.read_file(f"{directory}/{PARTITION_METADATA}"))
        except (FileNotFoundError, ValueError):
            return ZERO_UUID


class CheckpointPlan:
    """Writes the changed checkpoints. Then call `LogDirectory.checkpointed` on the loop."""

    __slots__ = ("_disk", "_health", "_written", "is_whole", "offsets")

    def __init__(
        self,
        disk: Disk,
        health: DirectoryHealth,
        written: dict[str, bytes],
        offsets: dict[str, dict[TopicPartition, int]],
    ) -> None:
        self._disk = disk
        self._health = health
        self._written = written
        self.offsets = offsets
        self.is_whole = False
        """Whether the plan has all checkpoints of all logs."""

    def run(self) -> None:
        """Waits for the disk; one plan of a directory at a time. Raises StorageFullError (the old files stay),
        StorageFailedError (the directory is offline)."""
        self._health.check()
        try:
            for name, offsets in self.offsets.items():
                data = encode_offsets(offsets)
                if self._written.get(name) != data:
                    self._disk.replace_file(name, data)
                    self._written[name] = data
        except StorageFailedError as error:
            self._health.fail(error)
            raise


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition of a directory with this name; None for other names."""
    topic, _, partition = name.rpartition("-")
    if not topic or name == str(METADATA_PARTITION) or not (partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))


def deleted_directory_name(topic_partition: TopicPartition, delete_id: Uuid) -> str:
    """`topic-0.<32 hex>-delete`; a long topic name is cut so that the whole stays within 255 characters."""
    return _marked_name(topic_partition, delete_id, DELETE_SUFFIX)


def future_directory_name(topic_partition: TopicPartition, move_id: Uuid) -> str:
    """`topic-0.<32 hex>-future`, cut as `deleted_directory_name`."""
    return _marked_name(topic_partition, move_id, FUTURE_SUFFIX)


def stray_directory_name(topic_partition: TopicPartition, stray_id: Uuid) -> str:
    """`topic-0.<32 hex>-stray`, cut as `deleted_directory_name`."""
    return _marked_name(topic_partition, stray_id, STRAY_SUFFIX)


def is_stray_name(name: str) -> bool:
    """Whether the directory was set aside as a stray."""
    return _STRAY.fullmatch(name) is not None


def parse_stray_name(name: str) -> TopicPartition | None:
    """The partition of a stray, unless the name of its topic was cut; None for other names."""
    match = _STRAY.fullmatch(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def _marked_name(topic_partition: TopicPartition, mark_id: Uuid, mark: str) -> str:
    suffix = f"-{topic_partition.partition}.{mark_id.hex()}{mark}"
    return topic_partition.topic[: _MAX_NAME_LENGTH - len(suffix)] + suffix
