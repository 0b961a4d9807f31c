"""Writes snapshots of the committed image, so that a start reads only the end of the log (KIP-630).

A snapshot is due once the log has grown by `metadata.log.max.record.bytes.between.snapshots`, or after
`metadata.log.max.snapshot.interval.ms` if it has grown at all. It is encoded in short steps with a pause after each,
written under a name that no start reads (`.checkpoint.part`), flushed, and renamed. A failure only loses the snapshot:
the log still has all records.

Committed records may be only on the other voters' disks, because the leader flushes concurrently with them. So a
snapshot gets its name after this disk has the log up to its end. Otherwise, after a power loss, a start would find a
log that ends before its snapshot and would take it for a log that has lost flushed records.
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
"""The image, the voters and feature level of the quorum at its end, and the log of both."""


class SnapshotReports(msgspec.Struct, frozen=True):
    """Callbacks of snapshots to the quorum role."""

    failed: Callable[[StorageFailedError], None]
    """The device failed."""
    taken: Callable[[], None]
    """A snapshot is on the disk, and the log start has moved as far as it may."""
    damaged: Callable[[str], None]
    """The snapshot at this path is damaged and will be written again."""


class Snapshots:
    """One for each quorum role. `spawn` runs the writes."""

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
        """The last one was too early: the next commit starts one."""
        self._last_size = 0
        self._last_ms = clock.monotonic_ms()

    def started(self, size_at_snapshot: int) -> None:
        """`size_at_snapshot`: bytes of the log when the newest snapshot was taken (0: no snapshot exists, or the log
        begins after one that the leader sent)."""
        self._last_size = size_at_snapshot
        self._last_ms = self._clock.monotonic_ms()

    def take_if_due(self, image: MetadataImage, control: QuorumControl, log: Log) -> None:
        """Starts a snapshot of the committed `image` if `log` has grown enough, or if enough time has passed; cheap
        enough for every commit."""
        if not self._is_writing and (self._is_wanted or self._is_due(log.size_bytes)):
            self._is_writing, self._is_wanted = True, False
            self.started(log.size_bytes)
            self._spawn(self._take(image.copy(), control, log))

    def check_sent(self, sent: SnapshotId, committed: Callable[[], Committed]) -> None:
        """A replica starts to fetch `sent`. If the file is damaged here, a new snapshot of the then `committed` image
        replaces it; otherwise the replica would fetch the damaged one again and again."""
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
        """`damaged`: set aside once the new one is on the disk, unless both have the same name."""
        try:
            oldest_end_offset = await self._write(image, control, log, damaged)
            if oldest_end_offset is None:
                self._is_wanted = True
                return
            if not log.health.is_offline:  # else a snapshot from the leader has replaced it
                await self._delete_old_segments(log, oldest_end_offset)
            self._reports.taken()
        except StorageFullError:
            return  # the log has all records; the next one is due after the same growth
        except StorageFailedError as error:
            self._reports.failed(error)
        finally:
            self._is_writing = False

    async def _delete_old_segments(self, log: Log, end_offset: int) -> None:
        """Deletes segments before the oldest snapshot that exceed metadata.max.retention.* in age or size. Keeps the
        newest segment, from which a start finds the log end."""
        now_ms, before = self._clock.now_ms(), log.size_bytes
        if log.delete_old_segments(now_ms, min(end_offset, log.log_end_offset - 1)):
            self._last_size -= before - log.size_bytes  # bytes covered by the newest snapshot and deleted from the log
            await self._workers.run(partial(remove_files, log.disk, log.take_purgeable(now_ms)))

    async def _write(self, image: MetadataImage, control: QuorumControl, log: Log, damaged: SnapshotId) -> int | None:
        """Writes `image`, which does not change meanwhile. Raises StorageFailedError, and StorageFullError after
        removing its files. Returns the end offset of the oldest kept snapshot: no start needs the log before it. If
        `log` is not flushed far enough, writes nothing and returns None."""
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
            with contextlib.suppress(FileNotFoundError):  # only a snapshot from the leader can remove it meanwhile
                self._disk.rename(path_of(damaged), path_of(damaged) + DAMAGED_SUFFIX)
        return self._remove_old()

    def _flush_names(self) -> None:
        self._disk.flush_directory(METADATA_DIRECTORY)

    def _remove_old(self) -> int:
        """Keeps the newest snapshots and returns the end offset of the first; also keeps the voters of offset 0."""
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
        """Removes snapshots that a crash left unfinished."""
        for name in self._disk.list_directory(METADATA_DIRECTORY):
            if name.endswith(".checkpoint" + PART_SUFFIX):
                self._disk.remove(f"{METADATA_DIRECTORY}/{name}")
