"""Unflushed files after a crash of the machine never become holes, lost flushed batches, or invalid records.

Found by random appends, flushes and crashes, compared with an independent reading of the disk.
"""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import NO_LIMIT, LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import TopicPartition, Uuid
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NOW_MS = 1_800_000_000_000


def open_log(disk, *, recovery_point=0, cleanup_policy="delete", cleaned_offset=0):
    return Log.open(
        disk,
        "t-0",
        TopicPartition("t", 0),
        Uuid(bytes(16)),
        LogSettings(cleanup_policy=cleanup_policy),
        now_ms=NOW_MS,
        plan=RecoveryPlan(recovery_point=recovery_point, cleaned_offset=cleaned_offset),
    )


def append(log, count=1):
    records = [(None, b"v" * 100, NOW_MS, ())] * count
    return log.append(
        bytearray(build_batch(records)), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT
    ).base_offset


def read_offsets(log):
    offsets = []
    next_offset = log.log_start_offset
    while next_offset < log.log_end_offset:
        read = log.read(next_offset, max_bytes=1 << 20, end_offset=log.log_end_offset)
        for _, header in iterate_batches(read.records):
            offsets.append(header.base_offset)
            next_offset = header.next_offset
    return offsets


@pytest.mark.parametrize("left", [0, 1], ids=["an empty segment", "a segment cut between two batches"])
def test_a_lost_tail_of_an_earlier_segment_ends_the_log_there(left):
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(3):
        append(log)
    log.roll(NOW_MS)
    append(log)
    size = log.size_bytes // 4
    disk.crash_process()
    disk.open("t-0/00000000000000000000.log").truncate(left * size)
    log = open_log(disk)
    assert log.log_end_offset == left
    assert disk.list_directory("t-0").count("00000000000000000003.log") == 0


@pytest.mark.parametrize(
    ("recovery_point", "cleaned_offset", "end_offset"),
    [
        pytest.param(2, 0, 3, id="below the recovery point it is a hole"),
        pytest.param(0, 2, 3, id="below what the cleaner has done it is a hole"),
        pytest.param(0, NO_LIMIT, 3, id="nobody knows what the cleaner has done"),
        pytest.param(1, 1, 1, id="above both it is a lost tail"),
        pytest.param(0, 0, 1, id="nothing was flushed or cleaned"),
    ],
)
def test_what_is_missing_between_two_segments_of_a_compacted_log(recovery_point, cleaned_offset, end_offset):
    disk = MemoryDisk()
    log = open_log(disk, cleanup_policy="compact")
    keyed = [(b"k", b"v", NOW_MS, ())]
    for _ in range(2):
        log.append(bytearray(build_batch(keyed)), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    log.roll(NOW_MS)
    log.append(bytearray(build_batch(keyed)), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    half = disk.open("t-0/00000000000000000000.log").size() // 2
    disk.crash_process()
    disk.open("t-0/00000000000000000000.log").truncate(half)
    log = open_log(disk, cleanup_policy="compact", recovery_point=recovery_point, cleaned_offset=cleaned_offset)
    assert log.log_end_offset == end_offset
    assert ("00000000000000000002.log.cut-1" in disk.list_directory("t-0")) == (end_offset == 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_flush_makes_file_names_of_an_earlier_process_durable(seed):
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    flush(log, NOW_MS)
    log.roll(NOW_MS)
    append(log)
    disk.crash_process()
    log = open_log(disk, recovery_point=1)
    append(log)
    flush(log, NOW_MS)
    disk.crash_machine(SeededRandom(seed))
    assert open_log(disk, recovery_point=1).log_end_offset == 3


@pytest.mark.parametrize("seed", range(10))
def test_torn_bytes_that_recovery_cut_off_do_not_come_back_below_the_recovery_point(seed):
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    flush(log, NOW_MS)
    torn = disk.open("t-0/00000000000000000000.log")
    torn.append(b"torn" * 50)
    torn.flush()
    disk.crash_process()
    log = open_log(disk)
    log.roll(NOW_MS)
    append(log)
    flush(log, NOW_MS)
    disk.crash_machine(SeededRandom(seed))
    assert read_offsets(open_log(disk, recovery_point=log.recovery_point)) == [0, 1]
