"""The metadata log of a node on its disk, and its snapshots, in the layout of Kafka (KIP-630)."""

from __future__ import annotations

from moldau.core.log.cleaning.retention import remove_files
from moldau.core.log.files.checkpoint import LEADER_EPOCH_CHECKPOINT
from moldau.core.log.files.flush import FlushPlan
from moldau.core.log.files.flushed_offset import FLUSHED_OFFSET, FlushedOffset
from moldau.core.log.log import Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.snapshot import (
    METADATA_DIRECTORY,
    QuorumControl,
    decode_snapshot,
    encode_snapshot_steps,
)
from moldau.core.raft.messages import NO_SNAPSHOT, SnapshotId
from moldau.core.raft.voters import VoterHistory, VoterSet, voter_sets_in
from moldau.shell.quorum.snapshot_files import PART_SUFFIX, found_snapshots, path_of
from moldau.simulation.ports import ProcessDisk
from moldau.simulation.replication.ledger import batches_of
from moldau.types import METADATA_PARTITION, METADATA_TOPIC_ID

KEPT_SNAPSHOTS = 2


class NodeFiles:
    """`log` is replaced by `load_snapshot`. Every method except the appends of the log waits for the disk."""

    def __init__(self, disk: ProcessDisk, settings: LogSettings, now_ms: int) -> None:
        self._disk = disk
        self._settings = settings
        self._flushed_offset = FlushedOffset(disk, f"{METADATA_DIRECTORY}/{FLUSHED_OFFSET}")
        self.log = self._open(now_ms, self._flushed_offset.read())
        self.snapshots = found_snapshots(self._disk)
        if self.newest != NO_SNAPSHOT and not self._has(self.newest):
            self._replace_log(self.newest, now_ms)  # a crash came between the snapshot and the new log
        self._start_behind_a_snapshot()

    def _open(self, now_ms: int, recovery_point: int, log_start_offset: int = 0) -> Log:
        return Log.open(
            self._disk,
            METADATA_DIRECTORY,
            METADATA_PARTITION,
            METADATA_TOPIC_ID,
            self._settings,
            now_ms=now_ms,
            plan=RecoveryPlan(recovery_point=recovery_point, log_start_offset=log_start_offset, is_read_whole=True),
        )

    @property
    def newest(self) -> SnapshotId:
        return self.snapshots[-1] if self.snapshots else NO_SNAPSHOT

    @property
    def oldest(self) -> SnapshotId:
        """The snapshot at the log start offset."""
        return next((each for each in self.snapshots if each.end_offset == self.log.log_start_offset), NO_SNAPSHOT)

    def _has(self, snapshot: SnapshotId) -> bool:
        """Whether the log begins at the end of `snapshot`, or contains the records that it stands for."""
        log, end_offset = self.log, snapshot.end_offset
        if not log.log_start_offset <= end_offset <= log.log_end_offset:
            return False
        return end_offset == log.log_start_offset or log.leader_epochs.epoch_of_offset(end_offset - 1) == snapshot.epoch

    def _start_behind_a_snapshot(self) -> None:
        """Deletion removes whole segments, so the first one may begin before the snapshot."""
        start_offset = self.log.log_start_offset
        if start_offset > 0:
            oldest = next(each for each in self.snapshots if each.end_offset >= start_offset)
            self.log.advance_log_start_offset(oldest.end_offset)

    def voters(self, first: VoterSet, kraft_version: int) -> VoterHistory:
        """The voter sets in the oldest snapshot and in the log. `first`: those of a new cluster."""
        history = VoterHistory(self.voters_of(self.oldest) or first, kraft_version, self.oldest.end_offset - 1)
        for batch in batches_of(self.log, self.log.log_start_offset, self.log.log_end_offset).values():
            history.append(voter_sets_in(batch))
        return history

    def voters_of(self, snapshot: SnapshotId) -> VoterSet | None:
        """None if the voters are static settings."""
        if snapshot == NO_SNAPSHOT:
            return None
        voters = decode_snapshot(self._disk.read_file(path_of(snapshot))).control.voters
        return None if voters is None else VoterSet(voters.voters)

    def truncate(self, offset: int, now_ms: int) -> None:
        if offset < self.log.recovery_point:
            self._flushed_offset.save(offset)
        self.log.truncate_to(offset, now_ms)

    def flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """`plan` was executed."""
        self._flushed_offset.write(plan.end_offset)
        self.log.mark_flushed(plan, now_ms)

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)
        self._flushed_offset.write(self.log.log_end_offset)
        self._flushed_offset.close()

    # --- snapshots ---

    def take_snapshot(self, end_offset: int, control: QuorumControl, now_ms: int) -> None:
        """Takes a snapshot of the committed state below `end_offset`. Removes older snapshots, and the log before the
        oldest remaining one."""
        log = self.log
        snapshot = SnapshotId(end_offset, log.leader_epochs.epoch_of_offset(end_offset - 1))
        steps = encode_snapshot_steps(
            (), control, {}, last_contained_log_timestamp_ms=now_ms, now_ms=now_ms, leader_epoch=snapshot.epoch
        )
        self.write_part(snapshot, 0, b"".join(steps))
        self._finish(snapshot)
        for old in self.snapshots[:-KEPT_SNAPSHOTS]:
            self._disk.remove(path_of(old))
        self.snapshots = self.snapshots[-KEPT_SNAPSHOTS:]
        if log.advance_log_start_offset(self.snapshots[0].end_offset):
            log.delete_old_segments(now_ms, log.log_start_offset)
            remove_files(self._disk, log.take_purgeable(now_ms))

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        path = path_of(snapshot) + PART_SUFFIX
        if position == 0:
            self._disk.remove(path)
        file = self._disk.open(path)
        file.write_at(position, data)
        file.flush()
        file.close()

    def read_part(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of `snapshot`, and its bytes from `position` on; None if it no longer exists."""
        if snapshot not in self.snapshots:
            return None
        data = self._disk.read_file(path_of(snapshot))
        return len(data), data[position : position + max_bytes]

    def load_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        """All parts have arrived: `snapshot` replaces the log. The snapshot is durable first, so after a crash on the
        way the next start replaces the log."""
        self._finish(snapshot)
        self._replace_log(snapshot, now_ms)

    def _finish(self, snapshot: SnapshotId) -> None:
        self._disk.rename(path_of(snapshot) + PART_SUFFIX, path_of(snapshot))
        self._disk.flush_directory(METADATA_DIRECTORY)
        self.snapshots = found_snapshots(self._disk)

    def _replace_log(self, snapshot: SnapshotId, now_ms: int) -> None:
        self._flushed_offset.save(0)
        self.log.release()
        for name in self._disk.list_directory(METADATA_DIRECTORY):
            if name.partition(".")[0].isdigit():  # of a segment: the names of snapshots contain a dash
                self._disk.remove(f"{METADATA_DIRECTORY}/{name}")
        self._disk.remove(f"{METADATA_DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}")
        for old in self.snapshots:
            if old != snapshot:
                self._disk.remove(path_of(old))
        self.snapshots = [snapshot]
        self.log = self._open(now_ms, 0, snapshot.end_offset)
        self._disk.flush_directory(METADATA_DIRECTORY)
        self._flushed_offset.save(snapshot.end_offset)
