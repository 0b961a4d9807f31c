"""Snapshots as files that are sent from node to node (KIP-630): lists them, reads and writes parts of them, and
replaces the log by a fetched one.

    <name>.checkpoint.part        partly fetched or written: no start reads it
    <name>.checkpoint.replacing   complete on the disk, and replaces the log: a start continues the replacement
    <name>.checkpoint.damaged     a start could not read it: no start reads it again
    <name>.checkpoint             the log continues after it, or still has the records that it covers

All functions wait for the disk.
"""

from __future__ import annotations

from moldau.core.log.files.checkpoint import LEADER_EPOCH_CHECKPOINT
from moldau.core.log.files.flushed_offset import FlushedOffset
from moldau.core.metadata.snapshot import (
    METADATA_DIRECTORY,
    Snapshot,
    decode_snapshot,
    parse_snapshot_file_name,
    snapshot_file_name,
)
from moldau.core.raft.messages import NO_SNAPSHOT, SnapshotId
from moldau.errors import ProtocolError
from moldau.ports import Disk
from moldau.types import Buffer, Offset
from moldau.wire.records.batch import is_crc_valid, iterate_batches

PART_SUFFIX = ".part"
REPLACING_SUFFIX = ".replacing"
DAMAGED_SUFFIX = ".damaged"
"""Suffix of a snapshot that could not be read: neither Moldau nor Apache Kafka reads the file again."""


def path_of(snapshot: SnapshotId) -> str:
    """The path of the snapshot in the metadata log's directory, with Kafka's name ("<end
    offset>-<epoch>.checkpoint")."""
    return f"{METADATA_DIRECTORY}/{snapshot_file_name(Offset(snapshot.end_offset), snapshot.epoch)}"


def found_snapshots(disk: Disk) -> list[SnapshotId]:
    """The finished snapshots, oldest first, without the file of offset 0, which only names the first voters."""
    parsed = (parse_snapshot_file_name(name) for name in disk.list_directory(METADATA_DIRECTORY))
    return sorted(SnapshotId(*found) for found in parsed if found is not None and found[0] > 0)


def oldest_needed(snapshots: list[SnapshotId], log_start_offset: int) -> SnapshotId:
    """The snapshot for the records that the log no longer holds; NO_SNAPSHOT: the log holds all of them."""
    if log_start_offset == 0:
        return NO_SNAPSHOT
    return next((each for each in snapshots if each.end_offset >= log_start_offset), NO_SNAPSHOT)


def write_part(disk: Disk, snapshot: SnapshotId, position: int, data: Buffer) -> None:
    """Writes a fetched part; the first part starts the file again. Raises StorageFullError, StorageFailedError."""
    path = path_of(snapshot) + PART_SUFFIX
    if position == 0:
        disk.remove(path)
    file = disk.open(path)
    try:
        file.write_at(position, data)
    finally:
        file.close()


def read_part(disk: Disk, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
    """The size of `snapshot` and its bytes from `position` on; None: the file no longer exists."""
    try:
        file = disk.open(path_of(snapshot), create=False)
    except FileNotFoundError:
        return None
    try:
        return file.size(), file.read(position, max_bytes)
    finally:
        file.close()


def is_damaged(disk: Disk, snapshot: SnapshotId) -> bool:
    """Whether a batch of the file is truncated or has a wrong checksum; False if the file no longer exists. The records
    are not decoded: from any thread, that would delay the loop."""
    try:
        data = disk.read_file(path_of(snapshot))
        end = 0
        for position, header in iterate_batches(data):
            end = position + header.size
            if not is_crc_valid(data, position, header.size):
                return True
    except FileNotFoundError:
        return False
    except ProtocolError:
        return True
    return end < len(data) or end == 0


def decode_parts(disk: Disk, snapshot: SnapshotId) -> Snapshot:
    """Decodes the complete parts. Raises ProtocolError and removes them if they are no whole snapshot."""
    path = path_of(snapshot) + PART_SUFFIX
    try:
        return decode_snapshot(disk.read_file(path))
    except ProtocolError:
        disk.remove(path)
        raise


def keep_for_replacing(disk: Disk, snapshot: SnapshotId) -> None:
    """The parts are complete: from here on, a crash leaves a snapshot that replaces the log."""
    path = path_of(snapshot)
    file = disk.open(path + PART_SUFFIX)
    try:
        file.flush()
    finally:
        file.close()
    disk.rename(path + PART_SUFFIX, path + REPLACING_SUFFIX)
    disk.flush_directory(METADATA_DIRECTORY)


def set_damaged_aside(disk: Disk) -> str | None:
    """At a start: renames an unreadable snapshot that was to replace the log, so the log stays. Returns its path."""
    for name in disk.list_directory(METADATA_DIRECTORY):
        path = f"{METADATA_DIRECTORY}/{name}"
        if name.endswith(REPLACING_SUFFIX):
            try:
                decode_snapshot(disk.read_file(path))
            except ProtocolError:
                disk.rename(path, path.removesuffix(REPLACING_SUFFIX) + DAMAGED_SUFFIX)
                return path
    return None


def finish_replacing(disk: Disk, flushed_offset: FlushedOffset) -> bool:
    """If a snapshot is to replace the log, removes the log, which nobody may have open, and activates the snapshot.
    Returns False if no snapshot is waiting."""
    names = disk.list_directory(METADATA_DIRECTORY)
    name = next((each for each in names if each.endswith(REPLACING_SUFFIX)), None)
    if name is None:
        return False
    snapshot_name = name.removesuffix(REPLACING_SUFFIX)
    found = parse_snapshot_file_name(snapshot_name)
    for other in names:
        old = parse_snapshot_file_name(other)
        is_segment = other.partition(".")[0].isdigit()  # the names of snapshots contain a dash
        if is_segment or other == LEADER_EPOCH_CHECKPOINT or (old is not None and old[0] > 0):
            disk.remove(f"{METADATA_DIRECTORY}/{other}")
    flushed_offset.save(0 if found is None else found[0])
    disk.rename(f"{METADATA_DIRECTORY}/{name}", f"{METADATA_DIRECTORY}/{snapshot_name}")
    disk.flush_directory(METADATA_DIRECTORY)
    return True
