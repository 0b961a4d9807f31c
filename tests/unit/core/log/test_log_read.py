"""Reads give whole batches, no more than requested, and never wait."""

from __future__ import annotations

import pytest

from moldau.core.log.cleaning.retention import remove_files
from moldau.core.log.reading import TOO_LARGE
from moldau.errors import KafkaError
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch


def _read(harness, offset, *, max_bytes=1 << 20, end_offset=None, **options):
    end_offset = harness.log.log_end_offset if end_offset is None else end_offset
    result = harness.log.read(offset, max_bytes=max_bytes, end_offset=end_offset, **options)
    assert not result.is_cold
    headers = list(iterate_batches(bytes(result.records)))
    assert sum(header.size for _, header in headers) == len(result.records)
    return [header.base_offset for _, header in headers]


def test_a_read_begins_with_the_batch_that_holds_the_offset(harness) -> None:
    for _ in range(5):
        harness.append(10)
    assert _read(harness, 0) == [0, 10, 20, 30, 40]
    assert _read(harness, 19) == [10, 20, 30, 40]
    assert _read(harness, 40) == [40]
    assert _read(harness, 50) == []


@pytest.mark.parametrize("offset", [-1, 51])
def test_an_offset_outside_the_log_is_out_of_range(harness, offset) -> None:
    harness.append(50)
    with pytest.raises(KafkaError) as refused:
        _read(harness, offset)
    assert refused.value.code == 1


def test_nothing_reaches_beyond_the_bound(harness) -> None:
    for _ in range(5):
        harness.append(10)
    for bound in range(51):
        assert _read(harness, 0, end_offset=bound) == list(range(0, bound // 10 * 10, 10))
    assert _read(harness, 30, end_offset=20) == []


@pytest.mark.parametrize("interval", [0, 200, 1 << 20])
def test_at_most_max_bytes_but_at_least_one_batch(make_harness, interval) -> None:
    harness = make_harness(index_interval_bytes=interval)
    sizes = []
    for number in range(30):
        batch = harness.batch(1, size=10 + number)
        sizes.append(len(batch))
        harness.append_bytes(batch)
    for offset in range(30):
        for max_bytes in (0, 1, 60, sizes[offset], 200, 1000):
            found = _read(harness, offset, max_bytes=max_bytes)
            assert found == list(range(offset, offset + len(found)))
            assert len(found) >= 1
            assert sum(sizes[number] for number in found) <= max_bytes or len(found) == 1
    assert _read(harness, 3, max_bytes=sizes[3] - 1, at_least_one_batch=False) == []


def test_all_or_none_reads_nothing_where_there_is_more_than_max_bytes(harness) -> None:
    sizes = []
    for _ in range(3):
        batch = harness.batch(1)
        sizes.append(len(batch))
        harness.append_bytes(batch)
    end_offset = harness.log.log_end_offset
    assert _read(harness, 0, max_bytes=sum(sizes), is_all_or_none=True) == [0, 1, 2]
    assert _read(harness, 1, max_bytes=sizes[1], end_offset=2, is_all_or_none=True) == [1]
    for max_bytes in (1, sum(sizes) - 1):
        harness.disk.fail(Fault("read_cached", error="cold", times=1))
        assert harness.log.read(0, max_bytes, end_offset, is_all_or_none=True) is TOO_LARGE
        assert harness.log.read(0, max_bytes, end_offset).is_cold


def test_a_read_stays_within_its_segment(make_harness) -> None:
    harness = make_harness(segment_bytes=300)
    for _ in range(6):
        harness.append(1)
    assert _read(harness, 1) == [1, 2]
    assert _read(harness, 3) == [3, 4, 5]


def test_a_sealed_segment_is_read_by_its_index_file(make_harness) -> None:
    harness = make_harness(segment_bytes=3000, index_interval_bytes=200)
    for _ in range(80):
        harness.append(1)
    harness.flush()
    assert harness.log.index_cache.size_bytes == 0
    assert harness.offsets() == list(range(80))
    assert harness.log.index_cache.size_bytes > 0
    harness.log.index_cache.max_bytes = 1
    assert harness.offsets() == list(range(80))
    assert len(harness.disk.list_directory("t-0")) > 6


def test_a_missing_index_file_only_makes_it_slower(make_harness) -> None:
    harness = make_harness(segment_bytes=3000, index_interval_bytes=200)
    for _ in range(80):
        harness.append(1)
    harness.flush()
    for name in harness.disk.list_directory("t-0"):
        if name.endswith("index"):
            harness.disk.remove(f"t-0/{name}")
    offset, offsets = 0, []
    while offset < 80:
        read = harness.log.read(offset, max_bytes=1 << 20, end_offset=80)
        if read.cold is not None:
            read.cold.run()
            continue
        offsets += [header.base_offset for _, header in iterate_batches(bytes(read.records))]
        offset = offsets[-1] + 1
    assert offsets == list(range(80))


def test_what_would_wait_is_read_by_a_worker_first(make_harness) -> None:
    harness = make_harness(segment_bytes=3000, index_interval_bytes=200)
    for _ in range(80):
        harness.append(1)
    harness.flush()
    for path_contains in (".index", ".log"):
        harness.disk.fail(Fault("read_cached", error="cold", path_contains=path_contains, times=1))
        read = harness.log.read(5, max_bytes=500, end_offset=80)
        assert read.records is None
        assert read.is_cold
        read.cold.run()
        assert _read(harness, 5, max_bytes=500)[0] == 5
    harness.disk.fail(Fault("read_cached", error="cold"))
    assert _read(harness, 5, may_wait=True)[0] == 5


def test_a_cold_read_of_a_segment_that_has_gone_is_silent(make_harness) -> None:
    harness = make_harness(segment_bytes=300, retention_ms=0)
    for _ in range(6):
        harness.append(1)
    harness.disk.fail(Fault("read_cached", error="cold", times=1))
    read = harness.log.read(0, max_bytes=500, end_offset=6)
    harness.now_ms += 10
    harness.log.delete_old_segments(harness.now_ms, 6)
    remove_files(harness.disk, harness.log.take_purgeable(harness.now_ms + 60_000))
    read.cold.run()
    with pytest.raises(KafkaError):
        harness.log.read(0, max_bytes=500, end_offset=6)


# --- by timestamp ---


def _append_at(harness, *timestamps_ms) -> None:
    for timestamp_ms in timestamps_ms:
        harness.append(1, timestamp_ms=timestamp_ms)


def _found(found):
    return None if found is None else (found.offset, found.timestamp_ms)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_first_record_that_is_late_enough(make_harness, segment_bytes, is_reopened) -> None:
    harness = make_harness(segment_bytes=segment_bytes, index_interval_bytes=100)
    times = [1000, 1010, 1005, 1020, 1020, 1001, 1030, 1040, 1035, 1050]
    _append_at(harness, *times)
    if is_reopened:
        harness.flush()
        harness.log.close(harness.now_ms)
        harness.open(is_clean=True)
    for wanted in range(990, 1055):
        later = [(offset, time) for offset, time in enumerate(times) if time >= wanted]
        assert _found(harness.log.plan_timestamp_search(wanted).run()) == (later[0] if later else None)
    assert _found(harness.log.plan_max_timestamp_search().run()) == (9, 1050)
    harness.log.advance_log_start_offset(4)
    assert _found(harness.log.plan_timestamp_search(0).run()) == (4, 1020)


def test_inside_a_batch_the_record_is_found(harness) -> None:
    rows = [(None, b"v", 1000 + step, ()) for step in (0, 7, 3, 9)]
    harness.epoch = 6
    harness.append_bytes(build_batch(rows, compression="gzip"))
    found = harness.log.plan_timestamp_search(1005).run()
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (1, 1007, 6)
    assert _found(harness.log.plan_max_timestamp_search().run()) == (3, 1009)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_latest_time_is_that_of_a_record_that_was_not_deleted(make_harness, segment_bytes, is_reopened) -> None:
    """Seed 288 of the simulator: DeleteRecords removed the latest record, and nothing was found."""
    harness = make_harness(segment_bytes=segment_bytes, index_interval_bytes=100)
    times = [1000, 1090, 1005, 1050, 1020, 1050, 1040, 1041, 1010, 1010]
    _append_at(harness, *times)
    if is_reopened:
        harness.flush()
        harness.log.close(harness.now_ms)
        harness.open(is_clean=True)
    for log_start_offset in range(len(times)):
        harness.log.advance_log_start_offset(log_start_offset)
        latest = max(times[log_start_offset:])
        found = _found(harness.log.plan_max_timestamp_search().run())
        assert found == (times.index(latest, log_start_offset), latest)
    harness.log.advance_log_start_offset(len(times))
    assert harness.log.plan_max_timestamp_search().run() is None


def test_the_latest_time_behind_a_log_start_inside_a_batch(harness) -> None:
    rows = [(None, b"v", 1000 + step, ()) for step in (0, 9, 3, 7, 5)]
    harness.append_bytes(build_batch(rows, compression="gzip"))
    harness.log.advance_log_start_offset(2)
    assert _found(harness.log.plan_max_timestamp_search().run()) == (3, 1007)


def test_an_empty_log_has_no_timestamps(harness) -> None:
    assert harness.log.plan_timestamp_search(0).run() is None
    assert harness.log.plan_max_timestamp_search().run() is None


def test_a_search_survives_that_its_segment_is_deleted(make_harness) -> None:
    harness = make_harness(segment_bytes=300, retention_ms=0)
    _append_at(harness, *range(1000, 1006))
    search = harness.log.plan_timestamp_search(1000)
    harness.log.delete_old_segments(harness.now_ms, 3)
    remove_files(harness.disk, harness.log.take_purgeable(harness.now_ms + 60_000))
    assert _found(search.run()) == (3, 1003)
