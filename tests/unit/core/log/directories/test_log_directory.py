"""A directory of logs: checkpoints, the mark of a clean stop, partitions that come and go."""

from __future__ import annotations

import pytest

from moldau.core.log.directories.directory import LogDirectory, deleted_directory_name, parse_directory_name
from moldau.core.log.log import AppendOrigin
from moldau.core.log.settings import LogSettings
from moldau.errors import StorageFailedError
from moldau.ports import FLUSH_FAILED_MARK
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NOW_MS = 1_800_000_000_000
SETTINGS = LogSettings(segment_bytes=300)
TOPIC_ID = Uuid(b"0123456789abcdef")
DELETE_ID = Uuid(b"fedcba9876543210")


def _append(log, count=1):
    for _ in range(count):
        batch = build_batch([(None, b"v" * 20, NOW_MS, ())])
        log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)


def _open(disk):
    directory = LogDirectory.open(disk)
    for _ in directory.open_all(lambda topic: SETTINGS, NOW_MS):
        pass
    return directory


def _filled(disk):
    directory = LogDirectory.open(disk)
    for partition in range(3):
        key = TopicPartition("dashed-topic", partition)
        _append(directory.create_log(key, TOPIC_ID, SETTINGS, now_ms=NOW_MS), partition * 5)
    return directory


def _ends(directory):
    return {str(key): log.log_end_offset for key, log in directory.logs.items()}


ENDS = {"dashed-topic-0": 0, "dashed-topic-1": 5, "dashed-topic-2": 10}


def test_a_first_start_leaves_empty_checkpoints_as_kafka_does() -> None:
    disk = MemoryDisk()
    directory = LogDirectory.open(disk)
    assert not directory.is_clean
    assert disk.list_directory("") == [
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert disk.read_file("cleaner-offset-checkpoint") == b""


@pytest.mark.parametrize("crash", [False, True])
def test_a_clean_stop_and_a_crash_are_told_apart(crash) -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    watermarks = {key: log.log_end_offset for key, log in directory.logs.items()}
    if crash:
        disk.crash_process()
    else:
        directory.close(broker_epoch=42, now_ms=NOW_MS, high_watermarks=watermarks)
        assert disk.read_file(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    again = _open(disk)
    assert again.is_clean is not crash
    assert again.previous_broker_epoch == (-1 if crash else 42)
    assert again.high_watermarks == ({} if crash else watermarks)
    assert not disk.exists(".kafka_cleanshutdown")
    assert _ends(again) == ENDS
    assert all(log.topic_id == TOPIC_ID for log in again.logs.values())


def test_a_clean_stop_survives_a_crash_of_the_machine() -> None:
    for seed in range(10):
        disk = MemoryDisk()
        directory = _filled(disk)
        watermarks = {key: log.log_end_offset for key, log in directory.logs.items()}
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks=watermarks)
        disk.crash_machine(SeededRandom(seed))
        again = _open(disk)
        assert again.is_clean
        assert {name: end for name, end in _ends(again).items() if end} == {n: e for n, e in ENDS.items() if e}


def test_checkpoints_say_what_is_flushed_and_where_logs_begin() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    key = TopicPartition("dashed-topic", 2)
    log = directory.logs[key]
    log.advance_log_start_offset(4)
    flush(log, NOW_MS)
    directory.checkpoint({key: 7}).run()
    assert disk.read_file("recovery-point-offset-checkpoint") == (
        b"0\n3\ndashed-topic 0 0\ndashed-topic 1 0\ndashed-topic 2 10\n"
    )
    assert disk.read_file("log-start-offset-checkpoint") == b"0\n1\ndashed-topic 2 4\n"
    assert disk.read_file("replication-offset-checkpoint") == b"0\n1\ndashed-topic 2 7\n"
    disk.crash_process()
    again = _open(disk)
    assert again.logs[key].log_start_offset == 4
    assert again.logs[key].recovery_point == 10
    assert again.high_watermarks == {key: 7}


def test_an_unchanged_checkpoint_is_not_written_again() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    directory.checkpoint({}).run()
    disk.fail(Fault("write"))
    directory.checkpoint({}).run()
    with pytest.raises(StorageFailedError):
        directory.checkpoint({TopicPartition("dashed-topic", 1): 3}).run()
    assert directory.health.is_offline


def test_a_damaged_checkpoint_only_costs_time() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown", "log-start-offset-checkpoint"):
        disk.replace_file(name, b"damaged")
    again = _open(disk)
    assert not again.is_clean
    assert _ends(again) == ENDS


def test_a_deleted_partition_is_renamed_and_removed_later_and_may_come_again() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    key = TopicPartition("dashed-topic", 2)
    directory.delete_log(key, delete_id=DELETE_ID, now_ms=NOW_MS)
    renamed = f"dashed-topic-2.{DELETE_ID.hex()}-delete"
    assert disk.exists(renamed)
    assert not disk.exists("dashed-topic-2")
    new = directory.create_log(key, DELETE_ID, SETTINGS, now_ms=NOW_MS)
    assert (new.log_end_offset, new.topic_id) == (0, DELETE_ID)
    assert directory.take_purgeable(NOW_MS + 59_999) == []
    assert disk.exists(renamed)
    assert directory.take_purgeable(NOW_MS + 60_000) == [renamed]
    assert directory.take_purgeable(NOW_MS + 60_000) == []
    disk.remove_tree(renamed)
    assert directory.logs[key] is new


def test_a_deletion_that_was_under_way_is_finished_by_the_next_start() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    directory.delete_log(TopicPartition("dashed-topic", 2), delete_id=DELETE_ID, now_ms=NOW_MS)
    disk.crash_process()
    assert len(_open(disk).logs) == 2
    assert not [name for name in disk.list_directory("") if name.endswith("-delete")]


def test_what_lies_there_under_another_topic_id_is_set_aside() -> None:
    disk = MemoryDisk()
    _filled(disk)
    disk.crash_process()
    directory = LogDirectory.open(disk)
    key = TopicPartition("dashed-topic", 2)
    assert directory.create_log(key, TOPIC_ID, SETTINGS, now_ms=NOW_MS).log_end_offset == 10
    other = TopicPartition("dashed-topic", 1)
    assert directory.create_log(other, DELETE_ID, SETTINGS, now_ms=NOW_MS).log_end_offset == 0
    for name in directory.take_purgeable(NOW_MS):
        disk.remove_tree(name)
    assert sorted(str(found) for found in directory.partitions()) == sorted(ENDS)


def test_a_partition_that_lost_the_name_of_its_topic_keeps_its_records() -> None:
    disk = MemoryDisk()
    _filled(disk)
    disk.replace_file("dashed-topic-2/partition.metadata", b"")
    disk.crash_process()
    directory = LogDirectory.open(disk)
    key = TopicPartition("dashed-topic", 2)
    log = directory.create_log(key, TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    assert (log.log_end_offset, log.topic_id) == (10, TOPIC_ID)
    log.release()
    del directory.logs[key]
    disk.remove("dashed-topic-2/partition.metadata")
    assert directory.open_log(key, SETTINGS, now_ms=NOW_MS).topic_id == ZERO_UUID


def test_one_failed_log_takes_the_whole_directory_offline_and_a_stop_is_not_clean() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    disk.fail(Fault("append", path_contains="dashed-topic-1", times=1))
    with pytest.raises(StorageFailedError):
        _append(directory.logs[TopicPartition("dashed-topic", 1)])
    with pytest.raises(StorageFailedError, match="offline"):
        _append(directory.logs[TopicPartition("dashed-topic", 2)])
    with pytest.raises(StorageFailedError):
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
    assert not disk.exists(".kafka_cleanshutdown")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("topic-0", TopicPartition("topic", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("__cluster_metadata-0", None),
        ("topic", None),
        ("-1", None),
        ("topic-", None),
        ("topic-x", None),
        ("topic-0.0123456789abcdef0123456789abcdef-delete", None),
        ("meta.properties", None),
    ],
)
def test_which_directories_are_partitions(name, found) -> None:
    assert parse_directory_name(name) == found


def test_the_name_of_a_deleted_directory_stays_within_what_file_systems_take() -> None:
    assert deleted_directory_name(TopicPartition("t", 7), TOPIC_ID) == f"t-7.{TOPIC_ID.hex()}-delete"
    longest = deleted_directory_name(TopicPartition("t" * 249, 12), TOPIC_ID)
    assert len(longest) == 255
    assert longest.endswith(f"-12.{TOPIC_ID.hex()}-delete")


@pytest.mark.parametrize("failing", ["00.log", "06.log", ".snapshot"])
def test_a_start_after_a_failed_flush_writes_what_was_not_flushed_anew(failing) -> None:
    for seed in range(10):
        disk = MemoryDisk()
        key = TopicPartition("topic", 0)
        directory = _open(disk)
        log = directory.create_log(key, TOPIC_ID, SETTINGS, now_ms=NOW_MS)
        _append(log, 2)
        _flush(directory, log)
        _append(log, 8)
        disk.fail(Fault("flush", path_contains=failing, times=1))
        with pytest.raises(StorageFailedError):
            _flush(directory, log)
        content = [disk.read_file(segment.path(".log")) for segment in log.segments]
        disk.crash_process()
        directory = _open(disk)
        assert directory.failed_flush is not None
        assert not disk.exists(FLUSH_FAILED_MARK)
        log = directory.logs[key]
        assert log.log_end_offset == 10
        _append(log)
        _flush(directory, log)
        disk.crash_machine(SeededRandom(seed))
        directory = _open(disk)
        log = directory.logs[key]
        assert log.log_end_offset == 11
        for segment, data in zip(log.segments, content, strict=False):
            assert disk.read_file(segment.path(".log")).startswith(data)


def test_the_mark_of_a_failed_flush_stays_until_every_log_was_written_anew() -> None:
    disk = MemoryDisk()
    directory = _filled(disk)
    log = directory.logs[TopicPartition("dashed-topic", 2)]
    disk.fail(Fault("flush", times=2))
    with pytest.raises(StorageFailedError):
        _flush(directory, log)
    disk.crash_process()
    with pytest.raises(StorageFailedError):
        _open(disk)
    assert disk.exists(FLUSH_FAILED_MARK)
    disk.crash_process()
    assert _ends(_open(disk)) == ENDS
    assert not disk.exists(FLUSH_FAILED_MARK)


def _flush(directory, log):
    flush(log, NOW_MS)
    directory.checkpoint({}).run()


def test_a_new_partition_is_begun_without_reading_its_directory() -> None:
    disk = MemoryDisk()
    directory = LogDirectory.open(disk)
    for operation in ("read", "read_cached"):
        disk.fail(Fault(operation, path_contains="new-0"))
    log = directory.create_log(TopicPartition("new", 0), TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    _append(log, 3)
    flush(log, NOW_MS)
    disk.heal()
    assert _ends(_open(disk)) == {"new-0": 3}
    assert log.topic_id == TOPIC_ID


def test_what_a_move_left_is_not_discarded_once_the_partition_is_back() -> None:
    """A replica that was removed from the broker, and returned before the move had deleted the old directory."""
    disk, key = MemoryDisk(), TopicPartition("dashed-topic", 1)
    directory = _filled(disk)
    directory.detach(key)
    log = directory.create_log(key, TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    directory.discard(key, delete_id=DELETE_ID, now_ms=NOW_MS)
    assert disk.is_directory("dashed-topic-1")
    assert directory.logs[key] is log
    assert log.log_end_offset == 5
