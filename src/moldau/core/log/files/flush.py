"""Makes a log durable: the loop plans the fsyncs, a worker thread performs them."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import LEADER_EPOCH_CHECKPOINT
from moldau.core.log.files.segment import (
    INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    flush_file,
    segment_file_name,
    write_whole_file,
)
from moldau.core.log.files.segments import Segments
from moldau.errors import StorageFailedError
from moldau.ports import Disk


class FlushPlan:
    """One flush of one log: `run()` in Workers, then `Log.mark_flushed(plan)` on the loop.

    `end_offset`: everything below is durable after `run`. Deleted segments are skipped. Data is flushed first, names
    last, so that a name that survives a crash has its bytes.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_health",
        "_is_log_released",
        "_unsealed",
        "end_offset",
        "leader_epochs",
        "names_version",
        "sealed",
        "snapshot_offset",
    )

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        health: DirectoryHealth,
        is_log_released: Callable[[], bool],
        *,
        sealed: list[Segment],
        end_offset: int,
        leader_epochs: bytes | None,
    ) -> None:
        self._disk = disk
        self._directory = segments.directory
        self._health = health
        self._is_log_released = is_log_released
        self.sealed = sealed
        """The segments whose index files are on the disk after the run."""
        active = segments.active
        self._unsealed = [active] if active is not None and active not in sealed else []
        self.leader_epochs = leader_epochs
        self.end_offset = end_offset
        self.names_version = segments.unflushed_names_version
        """If not None, files were created or renamed since the last flush, so the directory is flushed too."""
        self.snapshot_offset = -1
        """At a clean stop: the offset of the snapshot at the log end, which belongs to no segment."""

    def run(self) -> None:
        """Waits for the disk. Raises StorageFailedError: the whole directory is offline then; never retry.

        StorageFullError (no room for an index file) leaves the log unchanged, and the next flush retries. A log that
        was deleted needs no flush: its directory has a new name, and another log may have its old one.
        """
        try:
            self._run()
        except FileNotFoundError:
            if not self._is_log_released():
                raise
        except StorageFailedError as error:
            self._health.fail(error)
            raise

    def _run(self) -> None:
        for segment in (*self.sealed, *self._unsealed):
            self._flush_log(segment)
        for segment in self.sealed:
            if self._is_log_released():
                return
            segment.save_indexes()
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                flush_file(self._disk, segment.path(suffix))
        for segment in (*self.sealed, *self._unsealed):
            flush_file(self._disk, segment.path(SNAPSHOT_SUFFIX))
            if segment.aborted_transactions:
                flush_file(self._disk, segment.path(TRANSACTION_INDEX_SUFFIX))
        if self.snapshot_offset >= 0:
            flush_file(self._disk, f"{self._directory}/{segment_file_name(self.snapshot_offset, SNAPSHOT_SUFFIX)}")
        if self._is_log_released():
            return
        if self.leader_epochs is not None:
            path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
            write_whole_file(self._disk, path + ".tmp", self.leader_epochs)
            flush_file(self._disk, path + ".tmp")
            self._disk.rename(path + ".tmp", path)
        if self.names_version is not None or self.leader_epochs is not None:
            self._disk.flush_directory(self._directory)
            if self.snapshot_offset < 0:
                # at a clean stop the mark, which is written last, does it once for all logs
                self._disk.flush_directory(self._directory.rpartition("/")[0])

    @staticmethod
    def _flush_log(segment: Segment) -> None:
        if not segment.has_file:
            return
        try:
            segment.file.flush()
        except ValueError:  # closed: deleted since the plan was created
            return
