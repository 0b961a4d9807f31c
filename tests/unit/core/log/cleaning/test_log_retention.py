"""Retention deletes old segments by time, by bytes, or not at all; never above the high watermark."""

from __future__ import annotations

import pytest

from moldau.core.log.cleaning.retention import SegmentFacts, count_deletable, remove_files
from moldau.core.log.settings import LogSettings


def _count(rows, *, high_watermark=1000, now_ms=100_000, log_start_offset=0, **settings) -> int:
    """`rows`: (end offset, size, largest timestamp) from the oldest on."""
    facts = [
        SegmentFacts(end_offset, size, timestamp_ms, last_modified_ms=50_000, is_last=index == len(rows) - 1)
        for index, (end_offset, size, timestamp_ms) in enumerate(rows)
    ]
    return count_deletable(
        facts,
        LogSettings(**{"retention_ms": -1, **settings}),
        now_ms=now_ms,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        total_bytes=sum(size for _, size, _ in rows),
    )


ROWS = [(10, 100, 10_000), (20, 100, 20_000), (30, 100, 90_000)]


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 0),
        ({"retention_ms": 90_000}, 0),
        ({"retention_ms": 89_999}, 1),
        ({"retention_ms": 79_999}, 2),
        ({"retention_ms": 0}, 3),
        ({"retention_ms": 79_999, "high_watermark": 19}, 1),
        ({"retention_bytes": 300}, 0),
        ({"retention_bytes": 201}, 0),
        ({"retention_bytes": 200}, 1),
        ({"retention_bytes": 0}, 3),
        ({"retention_bytes": 0, "cleanup_policy": ("compact",)}, 0),
        ({"retention_bytes": 0, "cleanup_policy": ()}, 0),
        ({"retention_bytes": 0, "cleanup_policy": ("compact", "delete")}, 3),
        ({"log_start_offset": 20}, 2),
        ({"log_start_offset": 20, "cleanup_policy": ("compact",)}, 2),
        ({"log_start_offset": 19}, 1),
        ({"log_start_offset": 30}, 2),
    ],
)
def test_how_many_segments_go(settings, count) -> None:
    assert _count(ROWS, **settings) == count


def test_an_empty_last_segment_stays() -> None:
    assert _count([(10, 100, 0), (10, 0, -1)], retention_ms=0) == 1
    assert _count([(0, 0, -1)], retention_ms=0) == 0


def test_without_timestamps_the_time_of_writing_counts() -> None:
    assert _count([(10, 100, -1)], retention_ms=50_000) == 0
    assert _count([(10, 100, -1)], retention_ms=49_999) == 1


def test_a_record_from_the_future_keeps_its_segment() -> None:
    assert _count([(10, 100, 200_000), (20, 100, 10_000)], retention_ms=1) == 0


def test_files_are_renamed_first_and_removed_later(make_harness) -> None:
    harness = make_harness(segment_bytes=300, retention_bytes=300, file_delete_delay_ms=1000)
    for _ in range(9):
        harness.append(1)
    harness.flush()
    deleted = harness.log.delete_old_segments(harness.now_ms, 9)
    assert [(segment.base_offset, segment.end_offset) for segment in deleted] == [(0, 3)]
    assert harness.log.log_start_offset == 3
    names = harness.disk.list_directory("t-0")
    assert [name for name in names if name.endswith(".deleted")] == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    remove_files(harness.disk, harness.log.take_purgeable(harness.now_ms + 999))
    assert harness.disk.list_directory("t-0") == names
    remove_files(harness.disk, harness.log.take_purgeable(harness.now_ms + 1000))
    assert not [name for name in harness.disk.list_directory("t-0") if name.endswith(".deleted")]
    assert harness.offsets() == list(range(3, 9))


def test_the_active_segment_is_rolled_and_goes_too(make_harness) -> None:
    harness = make_harness(retention_ms=1000)
    harness.append(3)
    harness.now_ms += 5000
    harness.log.delete_old_segments(harness.now_ms, 3)
    assert (harness.log.log_start_offset, harness.log.log_end_offset, harness.log.size_bytes) == (3, 3, 0)
    assert harness.append(1).base_offset == 3
    harness.flush()
    harness.disk.crash_process()
    assert harness.open(recovery_point=4, log_start_offset=3).log_start_offset == 3


def test_on_a_full_disk_the_active_segment_is_deleted_last_and_once_there_is_room(make_harness) -> None:
    harness = make_harness(segment_bytes=300, retention_ms=1000)
    for sequence in range(9):
        harness.append(1, producer_id=1, producer_epoch=0, base_sequence=sequence)
    harness.flush()
    harness.now_ms += 5000
    harness.disk.capacity_bytes = 0
    first = harness.segments()
    deleted = harness.log.delete_old_segments(harness.now_ms, 9)
    assert [segment.base_offset for segment in deleted] == first[:-1] != []
    assert harness.log.log_start_offset == first[-1]
    assert harness.offsets() == list(range(first[-1], 9))
    assert harness.log.delete_old_segments(harness.now_ms, 9) == []
    harness.disk.capacity_bytes = None
    assert [segment.base_offset for segment in harness.log.delete_old_segments(harness.now_ms, 9)] == first[-1:]
    assert (harness.log.log_start_offset, harness.log.log_end_offset, harness.log.size_bytes) == (9, 9, 0)


def test_an_empty_log_remembers_where_it_begins(make_harness) -> None:
    harness = make_harness(retention_ms=1000)
    harness.append(3)
    harness.now_ms += 5000
    harness.log.delete_old_segments(harness.now_ms, 3)
    harness.log.close(harness.now_ms)
    log = harness.open(is_clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_retention_reads_the_age_of_a_sealed_segment_from_its_time_index(make_harness) -> None:
    harness = make_harness(segment_bytes=300, retention_ms=-1)
    for age_ms in (9000, 8000, 7000, 100, 50, 10):
        harness.append(1, timestamp_ms=harness.now_ms - age_ms)
    harness.log.close(harness.now_ms)
    harness.open(is_clean=True)
    harness.change(retention_ms=5000)
    assert len(harness.log.delete_old_segments(harness.now_ms, 6)) == 1
    assert harness.log.log_start_offset == 3


def test_idle_producers_are_forgotten(make_harness) -> None:
    harness = make_harness(producer_id_expiration_ms=1000)
    harness.append(1, producer_id=1, producer_epoch=0, base_sequence=0)
    assert not harness.log.forget_idle_producers(harness.now_ms + 999)
    assert harness.append(1, producer_id=1, producer_epoch=0, base_sequence=0).is_duplicate
    assert not harness.log.forget_idle_producers(harness.now_ms + 1000)
    assert not harness.append(1, producer_id=1, producer_epoch=0, base_sequence=7).is_duplicate
