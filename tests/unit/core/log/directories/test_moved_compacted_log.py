"""A compacted log that moves to another log directory: its start survives a crash as well."""

from __future__ import annotations

from moldau.core.log.directories.directories import LogDirectories
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.directories.moving import FutureLog
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import TopicPartition, Uuid
from moldau.wire.records.builder import build_batch

NOW_MS = 1_800_000_000_000
PARTITION = TopicPartition("table", 0)
TOPIC_ID = Uuid(b"0123456789abcdef")
MOVE_ID = Uuid(b"fedcba9876543210")
SETTINGS = LogSettings(cleanup_policy=("compact",))


def _move(first_offset: int) -> tuple[Log, MemoryDisk]:
    """A log that starts at 0 and whose first batch is at `first_offset`, after its move; and its new disk."""
    source = LogDirectory.open(MemoryDisk()).create_log(PARTITION, TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    batch = bytearray(build_batch([(b"key", b"value", NOW_MS, ())]))
    source.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    kept = bytearray(bytes(source.read(0, max_bytes=1 << 20, end_offset=1, may_wait=True).records or b""))
    kept[:8] = first_offset.to_bytes(8, "big")
    source.log_end_offset = first_offset + 1
    disk = MemoryDisk()
    target = LogDirectory.open(disk)
    future = FutureLog(source, TOPIC_ID, target, MOVE_ID)
    future.begin()
    future.append(kept, NOW_MS)
    return future.take_over(NOW_MS), disk


def _start_after_a_crash(disk: MemoryDisk) -> Log:
    directory = LogDirectory.open(disk)
    [log] = directory.open_all(lambda topic: SETTINGS, NOW_MS)
    return log


def test_the_start_does_not_go_to_the_first_batch_that_compaction_left() -> None:
    moved, disk = _move(100)
    assert (moved.log_start_offset, moved.log_end_offset) == (0, 101)
    again = _start_after_a_crash(disk)
    assert (again.log_start_offset, again.log_end_offset) == (0, 101)
    assert again.read(0, max_bytes=1 << 20, end_offset=101, may_wait=True).records


def test_a_first_batch_that_no_index_could_reach_from_the_start_names_the_segment() -> None:
    moved, disk = _move(1 << 32)
    assert moved.log_end_offset == (1 << 32) + 1
    assert _start_after_a_crash(disk).log_end_offset == (1 << 32) + 1


def test_compacted_epochs_keep_their_ends_after_a_crash_during_a_move() -> None:
    disks = (MemoryDisk(), MemoryDisk())
    old, new = (LogDirectory.open(disk) for disk in disks)
    source = old.create_log(PARTITION, TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    for epoch in (1, 3, 3):
        batch = bytearray(build_batch([(b"key", b"value", NOW_MS, ())]))
        source.append(batch, leader_epoch=epoch, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    assert source.leader_epochs.entries == [(1, 0), (3, 1)]
    last = bytes(source.read(2, max_bytes=1 << 20, end_offset=3, may_wait=True).records or b"")
    future = FutureLog(source, TOPIC_ID, new, MOVE_ID)
    future.begin()
    future.append(last, NOW_MS)
    future.take_over(NOW_MS)
    # the cleaner had left only the last batch
    disks[0].replace_file("table-0/00000000000000000000.log", last)
    disks[0].replace_file("table-0/leader-epoch-checkpoint", source.leader_epochs.encode())
    for _ in range(2):  # a crash of the process, and another one right after the start
        logs = LogDirectories([LogDirectory.open(disk) for disk in disks])
        list(logs.open_all(lambda topic: SETTINGS, NOW_MS))
        logs.drop_duplicates(lambda key: new.directory_id, lambda topic: TOPIC_ID, SeededRandom(1), NOW_MS)
        (moved,) = logs.directories[1].logs.values()
        assert moved.leader_epochs.entries == [(1, 0), (3, 1)]
