"""All log directories of a broker (`log.dirs`): the place of each partition, and of new ones.

The first directory also has the metadata log, so the node cannot continue without it. The failure of another one
affects only its own partitions. A directory that could not be opened at the start is known only by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.directories.duplicates import is_first_kept, is_other_history
from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import StorageFailedError, StorageFullError
from moldau.ports import Random
from moldau.types import ZERO_UUID, TopicPartition, Uuid


class LogDirectories:
    """`directories`: the opened ones, in the order of `log.dirs`. They may fail later (`health`)."""

    def __init__(self, directories: Sequence[LogDirectory], unopened_paths: Sequence[str] = ()) -> None:
        self.directories = tuple(directories)
        self.unopened_paths = tuple(unopened_paths)
        self._cordoned_paths: tuple[str, ...] = ()

    @property
    def first(self) -> LogDirectory:
        """The log directory with the metadata log."""
        return self.directories[0]

    @property
    def fatal_failure(self) -> str | None:
        """Why the node must stop, in Apache Kafka's words. None: enough directories are online."""
        if not self.online_ids:
            return f"Shutdown broker because all log dirs in {', '.join(self.paths)} have failed"
        if self.first.health.is_offline:
            return f"Shutdown broker because the metadata log dir {self.first.path} has failed"
        return None

    @property
    def failures(self) -> tuple[str, ...]:
        """The error of each failed directory, in the order of `log.dirs`."""
        return tuple(each.health.failure for each in self.directories if each.health.failure is not None)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last clean stop (KIP-966). -1 unless all directories have the same one."""
        epochs = dict.fromkeys(directory.previous_broker_epoch for directory in self.directories)
        return self.first.previous_broker_epoch if len(epochs) == 1 else -1

    @property
    def online_ids(self) -> tuple[Uuid, ...]:
        """The ids of the online directories, as the controller knows them (KIP-858)."""
        return tuple(directory.directory_id for directory in self.directories if not directory.health.is_offline)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths as in `log.dirs`, also of directories that failed after the start."""
        return tuple(directory.path for directory in self.directories)

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self.directories)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return any(topic_partition in directory.logs for directory in self.directories)

    def is_out_of_reach(self, directory_id: Uuid) -> bool:
        """Whether the content of that directory is unknown: it failed, or may be the one that could not be opened."""
        for directory in self.directories:
            if directory.directory_id == directory_id:
                return directory.health.is_offline
        return bool(self.unopened_paths)

    @property
    def is_any_out_of_reach(self) -> bool:
        """Whether any directory has failed or could not be opened."""
        return bool(self.unopened_paths) or any(directory.health.is_offline for directory in self.directories)

    def logs(self) -> Iterator[Log]:
        """All logs, without the copies of moving partitions."""
        for directory in self.directories:
            yield from directory.logs.values()

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory of the partition; None if no directory has it."""
        for directory in self.directories:
            if topic_partition in directory.logs:
                return directory
        return None

    def id_of(self, topic_partition: TopicPartition) -> Uuid:
        """The id of the partition's directory; ZERO_UUID if no directory has it."""
        directory = self.directory_of(topic_partition)
        return ZERO_UUID if directory is None else directory.directory_id

    def find(self, topic_partition: TopicPartition) -> Log | None:
        """The log of the partition; None if no directory has it."""
        directory = self.directory_of(topic_partition)
        return None if directory is None else directory.logs[topic_partition]

    def has_stale_offsets(self, topic_partition: TopicPartition) -> bool:
        """Whether any directory has stale offsets of the partition: see LogDirectory."""
        return any(directory.has_stale_offsets(topic_partition) for directory in self.directories)

    def by_id(self, directory_id: Uuid) -> LogDirectory | None:
        """The open directory with this id (KIP-858), or None."""
        for directory in self.directories:
            if directory.directory_id == directory_id:
                return directory
        return None

    def by_path(self, path: str) -> LogDirectory | None:
        """The open directory with this path in `log.dirs`, or None."""
        for directory in self.directories:
            if directory.path == path:
                return directory
        return None

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether the directory gets no new partitions (`cordoned.log.dirs`, KIP-1066)."""
        return directory.path in self._cordoned_paths or "*" in self._cordoned_paths

    @property
    def cordoned_ids(self) -> tuple[Uuid, ...]:
        """The ids of the cordoned directories, for the controller."""
        return tuple(sorted(directory.directory_id for directory in self.directories if self.is_cordoned(directory)))

    def cordon(self, paths: tuple[str, ...]) -> None:
        """`cordoned.log.dirs` (KIP-1066): these get no new partitions."""
        self._cordoned_paths = paths

    def places(self) -> list[LogDirectory]:
        """The directories for a new partition, online and not cordoned: first the one with the fewest partitions, then
        those to try if that one is full.

        If all are cordoned, all of them, because the controller has promised the partition. Raises StorageFailedError
        if none is online.
        """
        serving = [directory for directory in self.directories if not directory.health.is_offline]
        if not serving:
            raise StorageFailedError("every log directory is offline")
        open_ones = [directory for directory in serving if not self.is_cordoned(directory)]
        return sorted(open_ones or serving, key=lambda directory: len(directory.logs))

    def drop_duplicates(
        self,
        assigned: Callable[[TopicPartition], Uuid | None],
        topic_id_of: Callable[[str], Uuid],
        random: Random,
        now_ms: int,
    ) -> list[str]:
        """A crash during a move may leave a partition in two directories. One copy stays, see core/log/duplicates.
        Returns the paths that were set aside. Waits. Another directory that fails or is full goes offline. Raises
        StorageFullError, StorageFailedError."""
        dropped: list[str] = []
        for place, directory in enumerate(self.directories):
            for later in self.directories[place + 1 :]:
                for topic_partition in [key for key in directory.logs if key in later.logs]:
                    if directory.health.is_offline or later.health.is_offline:
                        break
                    first, second = directory.logs[topic_partition], later.logs[topic_partition]
                    is_second = assigned(topic_partition) == later.directory_id
                    is_first = is_first_kept(first, second, topic_id_of(topic_partition.topic), is_second)
                    kept, loser = (directory, later) if is_first else (later, directory)
                    if self._drop_duplicate(kept, loser, topic_partition, random_uuid(random), now_ms):
                        dropped.append(f"{loser.path}/{topic_partition}")
        return dropped

    def _drop_duplicate(
        self, kept: LogDirectory, loser: LogDirectory, topic_partition: TopicPartition, delete_id: Uuid, now_ms: int
    ) -> bool:
        """Removes the copy in `loser`. False if one of the two directories goes offline: both logs stay then. Raises as
        `leave_out`."""
        log, other = kept.logs[topic_partition], loser.logs[topic_partition]
        directory = kept
        try:
            if not is_other_history(log, other):
                kept.keep_start_offset(topic_partition, max(log.log_start_offset, other.log_start_offset))
                if log.topic_id == other.topic_id:
                    kept.keep_leader_epochs(topic_partition, other.leader_epochs)
            directory = loser
            loser.delete_log(topic_partition, delete_id=delete_id, now_ms=now_ms)
        except (StorageFailedError, StorageFullError) as error:
            self.leave_out(directory, error)
            return False
        return True

    def open_all(
        self, settings_for: Callable[[str], LogSettings], now_ms: int
    ) -> Iterator[tuple[LogDirectory, Log | None]]:
        """Opens every log of every directory, see LogDirectory.open_all. None for a directory that failed or has no
        room for recovery. Raises those errors for the first directory."""
        for directory in self.directories:
            try:
                directory.health.check()
                for log in directory.open_all(settings_for, now_ms):
                    yield directory, log
            except (StorageFailedError, StorageFullError) as error:
                self.leave_out(directory, error)
                yield directory, None

    def leave_out(self, directory: LogDirectory, error: StorageFailedError | StorageFullError) -> None:
        """A directory failed or is full at a start: it goes offline. For the first one raises `error`."""
        if directory is self.first:
            raise error
        directory.health.fail(StorageFailedError(str(error)))
