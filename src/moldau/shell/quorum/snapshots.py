"""Writes snapshots of the committed image, so that a start need not fold the whole log (KIP-630).

One is due once the log has grown by `metadata.log.max.record.bytes.between.snapshots`, or after
`metadata.log.max.snapshot.interval.ms` if it has grown at all. It is encoded in short steps with a pause behind
each, written under a name that no start reads (`.checkpoint.part`), flushed, and renamed. A failure costs the snapshot
and nothing else: the log still has everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.image_records import image_records
from moldau.core.metadata.snapshot import (
    METADATA_DIRECTORY,
    QuorumControl,
    encode_snapshot_steps,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from moldau.errors import StorageFullError
from moldau.ports import Clock, Disk, Workers

RECORDS_PER_STEP = 200
KEPT_SNAPSHOTS = 2
PART_SUFFIX = ".part"


class SnapshotWriter:
    """One per quorum role. `due` is cheap enough for every commit."""

    def __init__(self, disk: Disk, clock: Clock, workers: Workers, *, max_bytes: int, interval_ms: int) -> None:
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._max_bytes = max_bytes
        self._interval_ms = interval_ms
        self._last_size = 0
        self._last_ms = clock.monotonic_ms()

    def started(self, size_at_snapshot: int) -> None:
        """The log had `size_at_snapshot` bytes when the newest snapshot was taken (0: there is none)."""
        self._last_size = size_at_snapshot
        self._last_ms = self._clock.monotonic_ms()

    def log_shrank(self, size_bytes: int) -> None:
        """`size_bytes` of what the newest snapshot stands for are no longer in the log."""
        self._last_size -= size_bytes

    def is_due(self, log_size_bytes: int) -> bool:
        """Whether the log has grown enough, or long enough ago."""
        grown = log_size_bytes - self._last_size
        if grown >= self._max_bytes:
            return True
        return 0 < self._interval_ms <= self._clock.monotonic_ms() - self._last_ms and grown > 0

    async def write(
        self,
        image: MetadataImage,
        unserved: tuple[MetadataRecord, ...],
        control: QuorumControl,
        log_size_bytes: int,
        pause_long: Callable[[], Awaitable[None]],
    ) -> int:
        """Writes `image`, which must not move meanwhile (`MetadataImage.copy`). Raises StorageFailedError, and
        StorageFullError after taking away what it wrote. Gives the end offset of the oldest snapshot that is kept: no
        start needs the log before it."""
        self.started(log_size_bytes)
        now_ms = self._clock.now_ms()
        steps = encode_snapshot_steps(
            image_records(image, unserved),
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
                await pause_long()
            await self._workers.run(file.flush)
        except (StorageFullError, asyncio.CancelledError):
            file.close()
            self._disk.remove(path + PART_SUFFIX)
            raise
        file.close()
        self._disk.rename(path + PART_SUFFIX, path)
        await self._workers.run(self._flush_names)
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


def remove_unfinished(disk: Disk) -> None:
    """Takes away snapshots that a crash left half written."""
    for name in disk.list_directory(METADATA_DIRECTORY):
        if name.endswith(".checkpoint" + PART_SUFFIX):
            disk.remove(f"{METADATA_DIRECTORY}/{name}")
