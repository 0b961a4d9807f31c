"""The leader's side of a partition: epochs, the high watermark, what a reader may see."""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, StorageFailedError
from moldau.shell.io.twins.memory_disk import Fault, MemoryDisk
from moldau.types import BrokerId, LeaderEpoch, TopicPartition, Uuid
from moldau.wire.records.builder import build_batch

NOW_MS = 1_800_000_000_000


def open_partition(disk: MemoryDisk | None = None, epoch: int = 3, **settings: int) -> Partition:
    log = Log.open(
        disk or MemoryDisk(),
        "t-0",
        TopicPartition("t", 0),
        Uuid(bytes(16)),
        LogSettings(**settings),
        now_ms=NOW_MS,
    )
    return Partition(log, 1, BrokerId(1), LeaderEpoch(epoch))


def batch(count: int = 1) -> bytearray:
    return bytearray(build_batch([(None, b"v", NOW_MS, ()) for _ in range(count)]))


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> int:
    return error.value.code


def test_the_high_watermark_follows_the_log_end() -> None:
    partition = open_partition()
    partition.append(batch(2), NOW_MS)
    partition.append(batch(), NOW_MS, AppendOrigin.COORDINATOR)
    assert partition.high_watermark == partition.last_stable_offset == 3


def test_with_flush_messages_1_it_waits_for_the_flush_and_never_goes_back() -> None:
    partition = open_partition(flush_messages=1)
    partition.append(batch(2), NOW_MS)
    assert partition.high_watermark == 0
    plan = partition.log.unflushed()
    assert plan is not None
    partition.append(batch(), NOW_MS)
    plan.run()
    partition.log.mark_flushed(plan, NOW_MS)
    assert partition.flushed_to(partition.log.recovery_point)
    assert partition.high_watermark == 2
    assert not partition.flushed_to(partition.log.recovery_point)
    assert partition.high_watermark == 2


def test_turning_flush_messages_off_moves_it_to_the_end() -> None:
    partition = open_partition(flush_messages=1)
    partition.append(batch(2), NOW_MS)
    partition.log.update_settings(LogSettings())
    partition.settings_changed()
    assert partition.high_watermark == 2


def test_after_a_restart_only_what_was_flushed_counts_where_flushing_was_promised() -> None:
    disk = MemoryDisk()
    partition = open_partition(disk, flush_messages=1)
    partition.append(batch(2), NOW_MS)
    disk.crash_process()
    again = open_partition(disk, flush_messages=1)
    assert again.log.log_end_offset == 2
    assert again.high_watermark == again.log.recovery_point


@pytest.mark.parametrize(("asked", "code"), [(-1, None), (3, None), (2, 74), (4, 75)])
def test_another_leader_epoch_is_fenced(asked: int, code: int | None) -> None:
    partition = open_partition()
    if code is None:
        partition.check_leader_epoch(asked)
        return
    with pytest.raises(KafkaError) as error:
        partition.check_leader_epoch(asked)
    assert code_of(error) == code


def test_a_reader_of_another_history_is_told_where_it_diverges() -> None:
    partition = open_partition(epoch=3)
    partition.append(batch(5), NOW_MS)
    partition.leader_epoch = LeaderEpoch(7)
    partition.append(batch(5), NOW_MS)
    assert partition.diverging_epoch(5, 3) is None
    assert partition.diverging_epoch(6, 3) == (3, 5)
    assert partition.diverging_epoch(10, 7) is None
    assert partition.diverging_epoch(7, 5) == (3, 5)
    with pytest.raises(KafkaError) as error:
        partition.diverging_epoch(10, 8)
    assert code_of(error) == 1


def test_consumers_see_the_high_watermark_and_debugging_readers_the_end() -> None:
    partition = open_partition(flush_messages=1)
    partition.append(batch(4), NOW_MS)
    assert partition.read_bound(-1) == 0
    assert partition.read_bound(-2) == 4


def test_a_full_disk_is_56_and_a_failed_one_offline() -> None:
    disk = MemoryDisk()
    partition = open_partition(disk)
    disk.fail(Fault("append", "full", times=1))
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW_MS)
    assert code_of(error) == 56
    assert not partition.is_offline
    partition.append(batch(), NOW_MS)
    disk.fail(Fault("append", "io", times=1))
    with pytest.raises(StorageFailedError):
        partition.append(batch(), NOW_MS)
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW_MS)
    assert code_of(error) == 56
    with pytest.raises(KafkaError) as error:
        partition.read(0, 100, partition.high_watermark, at_least_one_batch=True)
    assert code_of(error) == 56
