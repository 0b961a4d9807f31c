"""A follower's appends and truncations: batches of another replica, epochs without records, checkpoints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.errors import InvariantError, KafkaError, ProtocolError
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from tests.support.logs import flush, records_from
from tests.unit.core.log.compacting import content, keyed, run_round
from tests.unit.core.log.conftest import NOW_MS, Harness

PARTITION = TopicPartition("t", 0)


def test_a_copied_batch_keeps_its_bytes_offsets_and_epoch(make_harness: Callable[..., Harness]) -> None:
    leader, follower = make_harness(), make_harness()
    leader.epoch = 4
    leader.append(3)
    leader.epoch = 7
    leader.append(2)
    follower.log.append_copied(records_from(leader.log, 0), NOW_MS)
    assert records_from(follower.log, 0) == records_from(leader.log, 0)
    assert follower.log.leader_epochs.entries == [(4, 0), (7, 3)]


def test_a_copied_batch_brings_its_producer(make_harness: Callable[..., Harness]) -> None:
    leader, follower = make_harness(), make_harness()
    batch = leader.batch(2, producer_id=9, producer_epoch=0, base_sequence=0)
    leader.append_bytes(bytes(batch))
    follower.log.append_copied(records_from(leader.log, 0), NOW_MS)
    assert follower.append_bytes(batch).is_duplicate
    with pytest.raises(KafkaError, match="sequence"):
        follower.append_bytes(follower.batch(1, producer_id=9, producer_epoch=0, base_sequence=5))


def test_a_copied_batch_that_overlaps_the_log_is_refused(make_harness: Callable[..., Harness]) -> None:
    leader, follower = make_harness(), make_harness()
    leader.append(3)
    follower.append(1)
    with pytest.raises(ProtocolError):
        follower.log.append_copied(records_from(leader.log, 0), NOW_MS)
    assert follower.log.log_end_offset == 1


def test_a_copied_batch_that_is_larger_than_a_segment_by_now_gets_one_of_its_own(
    make_harness: Callable[..., Harness],
) -> None:
    leader, follower = make_harness(), make_harness(segment_bytes=500)
    for count in (1, 40, 1):
        leader.append(count)
    follower.log.append_copied(records_from(leader.log, 0), NOW_MS)
    assert [segment.base_offset for segment in follower.log.segments] == [0, 1, 41]
    assert b"".join(records_from(follower.log, offset) for offset in (0, 1, 41)) == records_from(leader.log, 0)
    assert follower.open().log_end_offset == 42
    with pytest.raises(KafkaError, match="do not fit a segment"):
        follower.append(40)


def test_a_truncation_behind_a_damaged_batch_cuts_there(harness: Harness) -> None:
    """The leader sends the part in between again."""
    for _ in range(10):
        harness.append(1)
    harness.flush()
    (segment,) = harness.log.segments
    position = segment.locate(4, 0, is_cached_only=False)
    harness.disk.open(segment.path(".log")).write_at(position + 16, b"x")  # the magic byte
    harness.log.truncate_to(8, NOW_MS)
    assert harness.log.log_end_offset == 4
    assert harness.offsets() == list(range(4))
    harness.append(1)
    assert harness.open().log_end_offset == 5


def test_a_truncation_at_the_log_end_drops_an_epoch_that_wrote_nothing(harness: Harness) -> None:
    harness.epoch = 4
    harness.append(3)
    harness.log.leader_epochs.begin(5, harness.log.log_end_offset)
    harness.log.truncate_to(3, NOW_MS)
    assert harness.log.leader_epochs.entries == [(4, 0)]
    assert harness.log.log_end_offset == 3


def ten_flushed_records(harness: Harness, disk: MemoryDisk) -> tuple[LogDirectory, Log]:
    """Two in each batch; no checkpoint has them yet."""
    directory = LogDirectory.open(disk)
    log = directory.create_log(PARTITION, METADATA_TOPIC_ID, LogSettings(), now_ms=NOW_MS)
    for _ in range(5):
        log.append(harness.batch(2), leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    flush(log, NOW_MS)
    return directory, log


def test_no_crash_during_a_truncation_leaves_a_log_that_cannot_be_opened(harness: Harness) -> None:
    """The checkpointed recovery point goes back before the files do: a start that finds less than was once on the disk
    fails."""
    disk = MemoryDisk()
    directory, log = ten_flushed_records(harness, disk)
    checkpoints = directory.checkpoint({PARTITION: 10})
    checkpoints.run()
    directory.checkpointed(checkpoints)
    directory.truncate(PARTITION, 5, NOW_MS)
    assert log.log_end_offset == 4
    disk.crash_process()
    after = LogDirectory.open(disk)
    (reopened,) = after.open_all(lambda _: LogSettings(), NOW_MS)
    assert reopened.log_end_offset == 4


@pytest.mark.parametrize(("segment_end", "cleaned_offset", "then"), [(4, 8, 4), (4, 3, 3), (10, 8, 1), (10, 1, 1)])
def test_a_truncation_takes_back_what_the_cleaner_has_done(
    harness: Harness, segment_end: int, cleaned_offset: int, then: int
) -> None:
    """Otherwise the next start would take a lost tail of later writes for a hole of compaction. The batch that contains
    `offset` is removed too, so the log may end anywhere after the start of its segment."""
    disk = MemoryDisk()
    directory, log = ten_flushed_records(harness, disk)
    if segment_end < log.log_end_offset:
        directory.truncate(PARTITION, segment_end, NOW_MS)
        log.roll(NOW_MS)
        for _ in range(3):
            log.append(harness.batch(2), leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        flush(log, NOW_MS)
    directory.cleaned_offsets[PARTITION] = cleaned_offset
    directory.checkpoint_cleaned_offsets().run()
    directory.truncate(PARTITION, 5, NOW_MS)
    disk.crash_process()
    assert LogDirectory.open(disk).cleaned_offsets == {PARTITION: then}


def test_no_log_is_truncated_while_a_flush_of_it_runs(make_harness: Callable[..., Harness]) -> None:
    """The flush would write the indexes of deleted segments, and record truncated data as flushed."""
    harness = make_harness(segment_bytes=300)
    for _ in range(9):
        harness.append(2)
    plan = harness.log.unflushed()
    assert plan is not None
    with pytest.raises(InvariantError, match="while it is flushed"):
        harness.log.truncate_to(5, NOW_MS)
    plan.run()
    harness.log.mark_flushed(plan, NOW_MS)
    harness.log.truncate_to(5, NOW_MS)
    assert harness.log.recovery_point == harness.log.log_end_offset == 4


def test_after_a_flush_that_failed_the_log_may_be_truncated(harness: Harness) -> None:
    harness.append(3)
    assert harness.log.unflushed() is not None
    harness.log.flush_failed()
    harness.log.truncate_to(0, NOW_MS)
    assert (harness.log.log_end_offset, harness.log.recovery_point) == (0, 0)


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_a_log_begins_anew_where_its_leader_begins_and_opens_so_after_every_crash(
    harness: Harness, batches: int
) -> None:
    disk = MemoryDisk()
    directory = LogDirectory.open(disk)
    log = directory.create_log(PARTITION, METADATA_TOPIC_ID, LogSettings(), now_ms=NOW_MS)
    for _ in range(batches):
        log.append(harness.batch(2), leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    if (plan := log.unflushed()) is not None:
        plan.run()
        log.mark_flushed(plan, NOW_MS)
        checkpoints = directory.checkpoint({PARTITION: 2 * batches})
        checkpoints.run()
        directory.checkpointed(checkpoints)
    directory.start_over(PARTITION, 100, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (100, 100, [])
    assert log.append(harness.batch(2), leader_epoch=3, now_ms=NOW_MS, origin=AppendOrigin.CLIENT).base_offset == 100
    disk.crash_process()
    after = LogDirectory.open(disk)
    (reopened,) = after.open_all(lambda _: LogSettings(), NOW_MS)
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.log_end_offset) == (100, 102)


def test_a_key_deleted_after_a_truncation_stays_deleted() -> None:
    """The tombstone is where the cleaned log was cut: it must remove the old value before it is removed itself."""
    settings = LogSettings(cleanup_policy=("compact",), delete_retention_ms=1000)
    directory = LogDirectory.open(MemoryDisk())
    log = directory.create_log(PARTITION, METADATA_TOPIC_ID, settings, now_ms=NOW_MS)

    def write(*pairs: tuple[str, str | None]) -> None:
        batch = keyed(*pairs, timestamp_ms=NOW_MS)
        log.append(batch, leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    def clean(now_ms: int) -> None:
        log.roll(NOW_MS)
        flush(log, NOW_MS)
        cleaned_offset = directory.cleaned_offsets.get(PARTITION, 0)
        directory.cleaned_offsets[PARTITION] = run_round(log, now_ms, cleaned_offset).end_offset

    write(("deleted", "old"))
    write(*((f"key {number}", "1") for number in range(10)))
    clean(NOW_MS)
    directory.truncate(PARTITION, 5, NOW_MS)
    assert log.log_end_offset == 1
    write(("deleted", None))
    for number in range(8):
        write((f"key {number}", "2"))
    for step in range(3):
        clean(NOW_MS + 2000 * step)
        write(("step", str(step)))
    assert "deleted" not in [key for _, key, _ in content(log)]
