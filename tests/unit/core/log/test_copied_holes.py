"""Holes of compaction that a follower copies: also those of 2^31 offsets and more, which no index reaches over."""

from __future__ import annotations

import pytest

from moldau.core.log.directory import LogDirectory
from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.twins.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import iterate_batches
from tests.support.logs import flush
from tests.unit.core.log.compacting import batches, keyed
from tests.unit.core.log.conftest import NOW_MS

PARTITION = TopicPartition("t", 0)
COMPACTED = LogSettings(cleanup_policy=("compact",))


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
    if is_clean:
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
    else:
        flush(log, NOW_MS)
        write_checkpoints(directory)
        disk.crash_process()
    reopened = reopen(disk, COMPACTED)
    assert (offsets_in(reopened), reopened.log_end_offset) == (list(offsets), offsets[-1] + 1)
    assert not reopened.cuts


@pytest.mark.parametrize("offsets", PATTERNS)
def test_what_is_behind_such_a_hole_and_was_not_flushed_can_be_copied_again_after_a_crash(
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
    if is_clean:
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={})
    else:
        flush(log, NOW_MS)
        write_checkpoints(directory)
        disk.crash_process()
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
