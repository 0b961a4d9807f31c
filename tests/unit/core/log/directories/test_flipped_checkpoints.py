"""Offset checkpoints have no checksum: no flipped bit in one hides a record, or lets retention delete one."""

from __future__ import annotations

import pytest

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.errors import DamagedLogError
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.flipped_bits import disk_of, tree_of
from moldau.types import TopicPartition, Uuid
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NOW_MS = 1_800_000_000_000
SETTINGS = LogSettings(segment_bytes=1_100, file_delete_delay_ms=0)
TOPIC_ID = Uuid(b"0123456789abcdef")
RECORDS = 30
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
START_OFFSETS = "log-start-offset-checkpoint"
EPOCHS = "t-1/leader-epoch-checkpoint"


def _open(disk: MemoryDisk) -> LogDirectory:
    directory = LogDirectory.open(disk)
    for _ in directory.open_all(lambda topic: SETTINGS, NOW_MS):
        pass
    return directory


def _delete_records(directory: LogDirectory, key: TopicPartition, offset: int) -> None:
    """Like a broker: the epochs first, then the checkpoint."""
    log = directory.logs[key]
    log.advance_log_start_offset(offset)
    flush(log, NOW_MS)
    directory.checkpoint_log_start_offsets().run()


def _filled(*, is_clean: bool) -> MemoryDisk:
    """Two partitions of 30 records in segments; the second one starts at offset 13, inside a segment."""
    disk = MemoryDisk()
    directory = LogDirectory.open(disk)
    for key in (FIRST, SECOND):
        log = directory.create_log(key, TOPIC_ID, SETTINGS, now_ms=NOW_MS)
        for number in range(RECORDS):
            batch = build_batch([(None, b"%05d" % number, NOW_MS, ())])
            log.append(batch, leader_epoch=number // 8, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    _delete_records(directory, SECOND, 13)
    bases = [segment.base_offset for segment in directory.logs[SECOND].segments]
    assert len(bases) > 1
    assert 13 not in bases
    if is_clean:
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
    else:
        disk.crash_process()
    return disk


def _flips(disk: MemoryDisk, path: str) -> list[MemoryDisk]:
    found = []
    tree = tree_of(disk)
    data = tree[path]
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            found.append(disk_of({**tree, path: bytes(changed)}))
    return found


def _readable(log: Log) -> list[int]:
    log.delete_old_segments(NOW_MS, log.log_end_offset)
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        assert log.read(offset, max_bytes=1, end_offset=log.log_end_offset, may_wait=True).records
        found.append(offset)
    return found


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("path", [START_OFFSETS, EPOCHS])
def test_no_flipped_bit_raises_a_log_start_offset(is_clean: bool, path: str) -> None:
    original = _filled(is_clean=is_clean)
    for disk in _flips(original, path):
        directory = _open(disk)
        assert _readable(directory.logs[FIRST]) == list(range(RECORDS))
        assert set(range(13, RECORDS)) <= set(_readable(directory.logs[SECOND]))
        assert not any(log.cuts for log in directory.logs.values())


def test_a_raised_offset_is_told_and_the_epochs_name_the_start() -> None:
    disk = _filled(is_clean=True)
    disk.replace_file(START_OFFSETS, disk.read_file(START_OFFSETS).replace(b" 13\n", b" 17\n"))
    directory = _open(disk)
    assert directory.logs[SECOND].log_start_offset == 13
    [finding] = [finding for finding in directory.health.findings if finding.startswith(START_OFFSETS)]
    assert f"says that t-1 starts at offset 17, {EPOCHS} says 13: one of them is damaged" in finding


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(("epochs", "start"), [(None, 0), (b"damaged", 0), (b"0\n0\n", 13), (b"", 13)])
def test_where_the_epochs_cannot_be_read_too_much_is_shown(is_clean: bool, epochs: bytes | None, start: int) -> None:
    """An empty checkpoint is readable: the deletion of all records leaves one."""
    disk = _filled(is_clean=is_clean)
    disk.remove(EPOCHS)
    if epochs is not None:
        disk.replace_file(EPOCHS, epochs)
    directory = _open(disk)
    assert _readable(directory.logs[SECOND]) == list(range(start, RECORDS))
    findings = [finding for finding in directory.health.findings if f"{EPOCHS} cannot be read" in finding]
    assert len(findings) == (start == 0)


def test_a_raised_recovery_point_refuses_the_start_and_its_file_is_named() -> None:
    disk = _filled(is_clean=True)
    name = "recovery-point-offset-checkpoint"
    disk.replace_file(name, disk.read_file(name).replace(b"t 0 30\n", b"t 0 70\n"))
    with pytest.raises(DamagedLogError, match=f"t-0 ends at offset 30, .* than they were, or {name} is damaged"):
        _open(disk)


@pytest.mark.parametrize("offset", [13, RECORDS])
def test_what_delete_records_deleted_stays_deleted_through_many_starts(offset: int) -> None:
    disk = _filled(is_clean=True)
    directory = _open(disk)
    if offset > 13:
        _delete_records(directory, SECOND, offset)
    for number in range(4):
        assert _readable(directory.logs[SECOND]) == list(range(offset, RECORDS))
        if number % 2:
            directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
        else:
            disk.crash_process()
        directory = _open(disk)


def test_segments_that_a_power_loss_brings_back_stay_below_the_log_start() -> None:
    disk = _filled(is_clean=True)
    directory = _open(disk)
    log = directory.logs[FIRST]
    base_offset = log.segments[1].base_offset
    epochs = disk.read_file("t-0/leader-epoch-checkpoint")
    first = {name: disk.read_file(f"t-0/{name}") for name in disk.list_directory("t-0") if name.startswith("0" * 20)}
    log.advance_log_start_offset(base_offset)
    log.delete_old_segments(NOW_MS, log.log_end_offset)
    directory.checkpoint_log_start_offsets().run()
    disk.crash_process()
    disk.replace_file("t-0/leader-epoch-checkpoint", epochs)
    for name, data in first.items():
        disk.replace_file(f"t-0/{name}", data)
    assert _readable(_open(disk).logs[FIRST]) == list(range(base_offset, RECORDS))
