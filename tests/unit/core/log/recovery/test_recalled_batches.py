"""After a restart a repeat of any of a producer's last five batches is answered as a duplicate, as before."""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.errors import ERROR_CLASSES
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import TopicPartition, Uuid
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NOW_MS = 1_800_000_000_000


def open_log(disk, *, is_clean=False, recovery_point=0, now_ms=NOW_MS, segment_bytes=1 << 20):
    settings = LogSettings(segment_bytes=segment_bytes, index_interval_bytes=100)
    return Log.open(
        disk,
        "t-0",
        TopicPartition("t", 0),
        Uuid(bytes(16)),
        settings,
        now_ms=now_ms,
        plan=RecoveryPlan(is_clean=is_clean, recovery_point=recovery_point),
    )


def append(log, producer_id, base_sequence, *, epoch=0, count=2):
    records = [(None, b"v" * 50, NOW_MS, ())] * count
    batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence)
    return log.append(bytearray(batch), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400], ids=["one segment", "many segments"])
@pytest.mark.parametrize("ending", ["clean stop", "crash after a roll"])
def test_a_repeat_of_the_last_five_batches_is_known_after_a_restart(segment_bytes, ending):
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=segment_bytes)
    for index in range(8):
        append(log, 7, 2 * index)
        append(log, 8, 2 * index)
    if ending == "clean stop":
        log.close(NOW_MS)
    else:
        log.roll(NOW_MS)
        flush(log, NOW_MS)
        disk.crash_process()
    recovery_point = log.recovery_point
    log = open_log(disk, is_clean=ending == "clean stop", recovery_point=recovery_point, segment_bytes=segment_bytes)
    for index in range(3, 8):
        again = append(log, 7, 2 * index)
        assert again.is_duplicate
        assert again.base_offset == 4 * index
    with pytest.raises(ERROR_CLASSES[45]):
        append(log, 7, 4)
    assert not append(log, 7, 16).is_duplicate


def test_batches_of_an_older_epoch_are_not_recalled():
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, 7, 0)
    append(log, 7, 2)
    append(log, 7, 0, epoch=1)
    append(log, 7, 2, epoch=1)
    log.close(NOW_MS)
    log = open_log(disk, is_clean=True, recovery_point=8)
    assert [batch[2] for batch in log.producer_state.entries[7].batches] == [5, 7]


def test_nothing_is_read_for_producers_that_wrote_long_ago():
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, 7, 0)
    append(log, 7, 2)
    log.close(NOW_MS)
    log = open_log(disk, is_clean=True, recovery_point=4, now_ms=NOW_MS + 3_600_000)
    assert len(log.producer_state.entries[7].batches) == 1
