"""Holes of compaction that a follower copies: even those of 2^31 offsets and more, beyond an index's range."""

from __future__ import annotations

import pytest

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import iterate_batches
from tests.support.logs import flush, records_from
from tests.unit.core.log.compacting import batches, keyed, run_round
from tests.unit.core.log.conftest import NOW_MS

PARTITION = TopicPartition("t", 0)
COMPACTED = LogSettings(cleanup_policy=("compact",))
DELETED = LogSettings(cleanup_policy=("delete",))


def batch_at(offset: int) -> bytes:
    batch = keyed((f"key {offset}", "value"), timestamp_ms=NOW_MS)
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def follower_on(disk: MemoryDisk, settings: LogSettings) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(disk)
    return directory, directory.create_log(PARTITION, METADATA_TOPIC_ID, settings, now_ms=NOW_MS)


def write_checkpoints(directory: LogDirectory) -> None:
    plan = directory.checkpoint({})
    plan.run()
    directory.checkpointed(plan)


def end(directory: LogDirectory, log: Log, *, is_clean: bool) -> None:
    """By a clean stop, or by a kill once all is flushed and recorded."""
    if is_clean:
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
    else:
        flush(log, NOW_MS)
        write_checkpoints(directory)
        directory.disk.crash_process()


def reopen(disk: MemoryDisk, settings: LogSettings) -> Log:
    (log,) = LogDirectory.open(disk).open_all(lambda _: settings, NOW_MS)
    return log


def offsets_in(log: Log) -> list[int]:
    return [header.base_offset for batch in batches(log) for _, header in iterate_batches(batch)]


PATTERNS = [
    (second, second + 1, second + 2) if is_first else (0, 1, second, second + 1)
    for second in (3_000_000_000, 5_000_000_000)
    for is_first in (True, False)
]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("offsets", PATTERNS)
def test_a_hole_that_no_index_reaches_over_is_copied_and_the_log_opens_again(
    offsets: tuple[int, ...], is_clean: bool
) -> None:
    disk = MemoryDisk()
    directory, log = follower_on(disk, COMPACTED)
    log.append_copied(b"".join(map(batch_at, offsets)), NOW_MS)
    assert offsets_in(log) == list(offsets)
    end(directory, log, is_clean=is_clean)
    reopened = reopen(disk, COMPACTED)
    assert (offsets_in(reopened), reopened.log_end_offset) == (list(offsets), offsets[-1] + 1)
    assert not reopened.cuts


@pytest.mark.parametrize("offsets", PATTERNS)
def test_unflushed_records_after_a_copied_hole_can_be_copied_again_after_a_crash(
    offsets: tuple[int, ...],
) -> None:
    disk = MemoryDisk()
    _, log = follower_on(disk, COMPACTED)
    log.append_copied(b"".join(map(batch_at, offsets)), NOW_MS)
    disk.crash_process()
    reopened = reopen(disk, COMPACTED)
    missing = [offset for offset in offsets if offset >= reopened.log_end_offset]
    reopened.append_copied(b"".join(map(batch_at, missing)), NOW_MS)
    assert offsets_in(reopened) == list(offsets)


@pytest.mark.parametrize("is_clean", [True, False])
def test_such_a_hole_behind_an_empty_segment_takes_nothing_of_what_is_before_it(is_clean: bool) -> None:
    disk = MemoryDisk()
    directory, log = follower_on(disk, COMPACTED)
    log.append_copied(batch_at(0) + batch_at(1), NOW_MS)
    log.roll(NOW_MS)
    log.append_copied(batch_at(5_000_000_000), NOW_MS)
    end(directory, log, is_clean=is_clean)
    reopened = reopen(disk, COMPACTED)
    assert offsets_in(reopened) == [0, 1, 5_000_000_000]


def test_a_log_that_begins_with_such_a_hole_is_read_from_its_first_segment() -> None:
    _, log = follower_on(MemoryDisk(), COMPACTED)
    log.append_copied(batch_at(5_000_000_000), NOW_MS)
    log.roll(NOW_MS)
    log.append_copied(batch_at(5_000_000_001), NOW_MS)
    assert log.log_start_offset == 0
    assert offsets_in(log) == [5_000_000_000, 5_000_000_001]


def test_what_is_behind_such_a_hole_is_cut_where_another_leader_has_something_else() -> None:
    disk = MemoryDisk()
    _, log = follower_on(disk, COMPACTED)
    log.append_copied(batch_at(0), NOW_MS)
    log.append_copied(batch_at(3_000_000_000), NOW_MS)
    log.truncate_to(1, NOW_MS)
    assert log.log_end_offset == 1
    log.append_copied(batch_at(1) + batch_at(5_000_000_000), NOW_MS)
    assert offsets_in(log) == [0, 1, 5_000_000_000]


def ten_versions_of_a_key(directory: LogDirectory) -> Log:
    """A compacted log that keeps the last of them and one more key; its topic is no longer compacted."""
    leader = directory.create_log(PARTITION, METADATA_TOPIC_ID, COMPACTED, now_ms=NOW_MS)
    for number in range(10):
        batch = keyed(("key", str(number)), timestamp_ms=NOW_MS)
        leader.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    leader.roll(NOW_MS)
    flush(leader, NOW_MS)
    directory.cleaned_offsets[PARTITION] = run_round(leader, NOW_MS).end_offset
    batch = keyed(("other", "1"), timestamp_ms=NOW_MS)
    leader.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    leader.update_settings(DELETED)
    assert offsets_in(leader) == [9, 10]
    return leader


def check_readable(log: Log) -> None:
    for offset, first in ((0, 9), (5, 9), (9, 9), (10, 10)):
        assert next(header.base_offset for _, header in iterate_batches(records_from(log, offset))) == first
    assert not log.health.findings


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("policy_of_copy", ["delete", "compact"])
def test_copied_holes_are_no_damage_when_the_topic_is_no_longer_compacted(policy_of_copy: str, is_clean: bool) -> None:
    leader = ten_versions_of_a_key(LogDirectory.open(MemoryDisk()))
    disk = MemoryDisk()
    directory, log = follower_on(disk, LogSettings(cleanup_policy=(policy_of_copy,)))
    for offset in (0, 10):
        log.append_copied(records_from(leader, offset), NOW_MS)
    log.roll(NOW_MS)
    check_readable(log)
    end(directory, log, is_clean=is_clean)
    check_readable(reopen(disk, DELETED))


def test_a_log_without_holes_is_not_noted_as_one_that_has_some() -> None:
    """Otherwise a lost batch would never count as damage."""
    disk = MemoryDisk()
    directory, log = follower_on(disk, DELETED)
    log.append_copied(batch_at(0) + batch_at(1), NOW_MS)
    flush(log, NOW_MS)
    write_checkpoints(directory)
    assert not log.may_have_holes
    assert not LogDirectory.open(disk).cleaned_offsets


def test_while_the_old_directory_of_a_moved_log_is_there_its_holes_stay_noted() -> None:
    disk = MemoryDisk()
    directory = LogDirectory.open(disk)
    log = ten_versions_of_a_key(directory)
    flush(log, NOW_MS)
    directory.detach(PARTITION)
    write_checkpoints(directory)
    disk.crash_process()
    check_readable(reopen(disk, DELETED))
