"""Writes snapshots of the committed image: a start then reads only the end of the log (KIP-630).

One is due once the log has grown by `metadata.log.max.record.bytes.between.snapshots`, or after
`metadata.log.max.snapshot.interval.ms` if it has grown at all. It is encoded in short steps with a pause behind
each, written under a name that no start reads (`.checkpoint.part`), flushed, and renamed. A failure costs the snapshot
and nothing else: the log still has everything.

What is committed may be on the disks of the other voters only: the leader flushes beside them. A snapshot gets its name
once the log below its end is on this disk, too: a start after a loss of power takes a log that ends before its snapshot
for one that lost what was flushed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.log.cleaning.retention import remove_files
from moldau.core.log.log import Log
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.image_records import image_records
from moldau.core.metadata.snapshot import (
    METADATA_DIRECTORY,
    QuorumControl,
    encode_snapshot_steps,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from moldau.core.raft.messages import NO_SNAPSHOT, SnapshotId
from moldau.errors import StorageFailedError, StorageFullError
from moldau.ports import Clock, Disk, Workers
from moldau.shell.quorum.snapshot_files import DAMAGED_SUFFIX, PART_SUFFIX, is_damaged, path_of

RECORDS_PER_STEP = 200
KEPT_SNAPSHOTS = 2

Committed = tuple[MetadataImage, QuorumControl, Log]
"""The image, the voters and the level of the quorum at its end, and the log behind both."""


class SnapshotReports(msgspec.Struct, frozen=True):
    """What the quorum role hears of its snapshots."""

    failed: Callable[[StorageFailedError], None]
    """The device failed."""
    taken: Callable[[], None]
    """A snapshot is on the disk, and the log begins where it may begin then."""
    damaged: Callable[[str], None]
    """The snapshot at this path is damaged, and is written again."""


class Snapshots:
    """One for each quorum role. `spawn` runs the writing."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        workers: Workers,
        settings: BrokerSettings,
        *,
        pause_long: Callable[[], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        reports: SnapshotReports,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._pause_long = pause_long
        self._max_bytes = settings.metadata_log_max_record_bytes_between_snapshots
        self._interval_ms = settings.metadata_log_max_snapshot_interval_ms
        self._spawn = spawn
        self._reports = reports
        self._is_writing = False
        self._is_wanted = False
        """The last one came too early: the next commit takes one."""
        self._last_size = 0
        self._last_ms = clock.monotonic_ms()

    def started(self, size_at_snapshot: int) -> None:
        """The log had `size_at_snapshot` bytes when the newest snapshot was taken (0: there is none, or the log begins
        behind one that the leader sent)."""
        self._last_size = size_at_snapshot
        self._last_ms = self._clock.monotonic_ms()

    def take_if_due(self, image: MetadataImage, control: QuorumControl, log: Log) -> None:
        """Begins one of the committed `image` if `log` has grown enough, or long enough ago; cheap enough for every
        commit."""
        if not self._is_writing and (self._is_wanted or self._is_due(log.size_bytes)):
            self._is_writing, self._is_wanted = True, False
            self.started(log.size_bytes)
            self._spawn(self._take(image.copy(), control, log))

    def check_sent(self, sent: SnapshotId, committed: Callable[[], Committed]) -> None:
        """A replica begins to fetch `sent`. If the file is damaged here, a new snapshot of what is `committed` by then
        takes its place: the replica would fetch the damaged one again and again."""
        if not self._is_writing:
            self._is_writing = True
            self._spawn(self._replace_damaged(sent, committed))

    async def _replace_damaged(self, sent: SnapshotId, committed: Callable[[], Committed]) -> None:
        try:
            found = await self._workers.run(partial(is_damaged, self._disk, sent))
        except StorageFailedError as error:
            self._reports.failed(error)
            found = False
        if not found:
            self._is_writing = False
            return
        self._reports.damaged(path_of(sent))
        image, control, log = committed()
        await self._take(image.copy(), control, log, damaged=sent)

    def _is_due(self, log_size_bytes: int) -> bool:
        grown = log_size_bytes - self._last_size
        if grown >= self._max_bytes:
            return True
        return 0 < self._interval_ms <= self._clock.monotonic_ms() - self._last_ms and grown > 0

    async def _take(
        self, image: MetadataImage, control: QuorumControl, log: Log, damaged: SnapshotId = NO_SNAPSHOT
    ) -> None:
        """`damaged`: set aside once the new one is on the disk, unless the new one has its name."""
        try:
            oldest_end_offset = await self._write(image, control, log, damaged)
            if oldest_end_offset is None:
                self._is_wanted = True
                return
            if not log.health.is_offline:  # else a snapshot of the leader's took its place
                await self._delete_old_segments(log, oldest_end_offset)
            self._reports.taken()
        except StorageFullError:
            return  # the log has everything; the next one is due when it has grown as much again
        except StorageFailedError as error:
            self._reports.failed(error)
        finally:
            self._is_writing = False

    async def _delete_old_segments(self, log: Log, end_offset: int) -> None:
        """What lies before the oldest snapshot, and is too old or too much (metadata.max.retention.*), goes. The newest
        segment stays, so that a start finds where the log ends."""
        now_ms, before = self._clock.now_ms(), log.size_bytes
        if log.delete_old_segments(now_ms, min(end_offset, log.log_end_offset - 1)):
            self._last_size -= before - log.size_bytes  # what the newest snapshot stands for and the log has no longer
            await self._workers.run(partial(remove_files, log.disk, log.take_purgeable(now_ms)))

    async def _write(self, image: MetadataImage, control: QuorumControl, log: Log, damaged: SnapshotId) -> int | None:
        """Writes `image`, which does not move meanwhile. Raises StorageFailedError, and StorageFullError after taking
        away what it wrote. Gives the end offset of the oldest snapshot that is kept: no start needs the log before
        it; None, and nothing is written, where `log` is not flushed so far yet."""
        now_ms = self._clock.now_ms()
        steps = encode_snapshot_steps(
            image_records(image),
            control,
            image.features,
            last_contained_log_timestamp_ms=now_ms,
            now_ms=now_ms,
            leader_epoch=image.leader_epoch,
            records_per_batch=RECORDS_PER_STEP,
        )
        name = snapshot_file_name(image.end_offset, image.leader_epoch)
        path = f"{METADATA_DIRECTORY}/{name}"
        self._disk.remove(path + PART_SUFFIX)
        file = self._disk.open(path + PART_SUFFIX)
        try:
            for step in steps:
                file.append(step)
                await self._pause_long()
            await self._workers.run(file.flush)
        except (StorageFullError, asyncio.CancelledError):
            file.close()
            self._disk.remove(path + PART_SUFFIX)
            raise
        file.close()
        if not log.health.is_offline and log.recovery_point < image.end_offset:
            self._disk.remove(path + PART_SUFFIX)
            return None
        self._disk.rename(path + PART_SUFFIX, path)
        await self._workers.run(self._flush_names)
        if damaged not in (NO_SNAPSHOT, SnapshotId(image.end_offset, image.leader_epoch)):
            with contextlib.suppress(FileNotFoundError):  # nobody removes it meanwhile but a snapshot of the leader's
                self._disk.rename(path_of(damaged), path_of(damaged) + DAMAGED_SUFFIX)
        return self._remove_old()

    def _flush_names(self) -> None:
        self._disk.flush_directory(METADATA_DIRECTORY)

    def _remove_old(self) -> int:
        """Keeps the newest ones, and gives the end offset of the first; the voters of offset 0 stay as well."""
        found = [
            (parsed, name)
            for name in self._disk.list_directory(METADATA_DIRECTORY)
            if (parsed := parse_snapshot_file_name(name)) is not None and parsed[0] > 0
        ]
        found.sort()
        for _, name in found[:-KEPT_SNAPSHOTS]:
            self._disk.remove(f"{METADATA_DIRECTORY}/{name}")
        kept = found[-KEPT_SNAPSHOTS:]
        return kept[0][0][0] if kept else 0

    def remove_unfinished(self) -> None:
        """Takes away snapshots that a crash left half written."""
        for name in self._disk.list_directory(METADATA_DIRECTORY):
            if name.endswith(".checkpoint" + PART_SUFFIX):
                self._disk.remove(f"{METADATA_DIRECTORY}/{name}")
