"""A flush that a deletion overtakes harms neither the flusher nor the next topic of that name."""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import TopicPartition, Uuid
from moldau.wire.records.builder import build_batch

NOW_MS = 1_800_000_000_000


def log_with_two_segments(disk):
    log = Log.open(disk, "t-0", TopicPartition("t", 0), Uuid(bytes(16)), LogSettings(), now_ms=NOW_MS)
    for _ in range(2):
        batch = bytearray(build_batch([(None, b"v", NOW_MS, ())]))
        log.append(batch, leader_epoch=3, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        log.roll(NOW_MS)
    return log


@pytest.mark.parametrize("is_name_taken_again", [False, True])
def test_a_plan_of_a_log_that_was_deleted_meanwhile_writes_nothing(is_name_taken_again):
    disk = MemoryDisk()
    log = log_with_two_segments(disk)
    plan = log.unflushed()
    log.release()
    disk.rename("t-0", "t-0.0123-delete")
    if is_name_taken_again:
        disk.make_directory("t-0")
    plan.run()
    assert disk.list_directory("t-0") == []


def test_a_file_that_is_missing_although_the_log_lives_is_an_error():
    disk = MemoryDisk()
    plan = log_with_two_segments(disk).unflushed()
    disk.rename("t-0", "elsewhere")
    with pytest.raises(FileNotFoundError):
        plan.run()
