"""An append's checks, changes and results, the roll of a segment, and the state after a disk failure."""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin
from moldau.errors import KafkaError, ProtocolError, StorageFailedError, StorageFullError
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.wire.records.batch import is_crc_valid, iterate_batches, read_header
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import ControlType, build_control_batch


def _code(harness, batch):
    before = (harness.log.log_end_offset, harness.log.size_bytes)
    with pytest.raises(KafkaError) as refused:
        harness.append_bytes(batch)
    assert (harness.log.log_end_offset, harness.log.size_bytes) == before, "a refused batch changes nothing"
    return refused.value.code


def test_offsets_follow_each_other_and_the_header_is_patched_in_place(harness) -> None:
    harness.epoch = 5
    batch = harness.batch(3)
    assert harness.append_bytes(memoryview(batch)).last_offset == 2
    second = harness.batch(2)
    appended = harness.append_bytes(second)
    assert (appended.base_offset, appended.last_offset, appended.log_append_time_ms) == (3, 4, -1)
    header = read_header(second)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 5)
    assert is_crc_valid(second, 0, len(second))
    assert harness.log.end_offset_for_epoch(5) == (5, 5)


def test_a_read_only_buffer_is_copied(harness) -> None:
    batch = bytes(harness.batch(1))
    harness.append_bytes(batch)
    harness.append_bytes(memoryview(batch))
    assert read_header(batch).base_offset == 0
    assert harness.offsets() == [0, 1]


def test_no_view_of_the_buffer_is_kept(harness) -> None:
    batch = harness.batch(1)
    with memoryview(batch) as view:
        harness.append_bytes(view)
    batch.extend(b"resized")


def control_batch(harness, count: int) -> bytearray:
    records = [(ControlType.LEADER_CHANGE, b"")] * count
    return bytearray(build_control_batch(records, timestamp=harness.now_ms))


def test_what_the_header_proves_wrong_is_refused(harness) -> None:
    damaged = harness.batch(1)
    damaged[-1] ^= 1
    assert _code(harness, damaged) == 2
    assert _code(harness, b"") == 87
    assert _code(harness, harness.batch(1) + harness.batch(1)) == 87
    assert _code(harness, control_batch(harness, 1)) == 87
    assert _code(harness, harness.batch(1, timestamp_ms=harness.now_ms + 3_600_001)) == 32


def test_a_batch_over_the_limit_is_too_large(harness) -> None:
    size = len(harness.batch(1, size=5000))
    harness.change(max_message_bytes=size)
    harness.append(1, size=5000)
    harness.change(max_message_bytes=size - 1)
    assert _code(harness, harness.batch(1, size=5000)) == 10
    harness.change(max_message_bytes=1 << 20, segment_bytes=size - 1)
    assert _code(harness, harness.batch(1, size=5000)) == 18


def test_a_repeat_is_answered_with_its_old_offset_and_its_timestamp(harness) -> None:
    fields = {"producer_id": 9, "producer_epoch": 0}
    harness.append(2, base_sequence=0, **fields)
    harness.append(2, base_sequence=2, **fields)
    end_offset = harness.log.log_end_offset
    again = harness.append(2, base_sequence=0, **fields)
    assert (again.base_offset, again.last_offset, again.is_duplicate) == (0, 1, True)
    assert again.log_append_time_ms == harness.now_ms
    assert harness.log.log_end_offset == end_offset
    assert _code(harness, harness.batch(1, base_sequence=9, **fields)) == 45


def test_log_append_time_is_stamped_and_covered_by_the_crc(harness) -> None:
    harness.change(message_timestamp_type="LogAppendTime")
    batch = harness.batch(2, timestamp_ms=5)
    assert harness.append_bytes(batch).log_append_time_ms == harness.now_ms
    header = read_header(batch)
    assert header.is_log_append_time
    assert header.max_timestamp == harness.now_ms
    assert is_crc_valid(batch, 0, len(batch))


def test_a_log_append_time_mark_of_a_client_is_cleared(harness) -> None:
    harness.change(message_timestamp_type="LogAppendTime")
    marked = harness.batch(1)
    harness.append_bytes(marked)
    harness.change(message_timestamp_type="CreateTime")
    marked[:8] = bytes(8)
    harness.append_bytes(marked)
    assert not read_header(marked).is_log_append_time
    assert is_crc_valid(marked, 0, len(marked))


def test_records_are_walked_where_that_is_switched_on(harness) -> None:
    without_key = build_batch([(None, b"v", harness.now_ms, ())])
    harness.append_bytes(without_key)
    harness.change(cleanup_policy=("compact",))
    assert _code(harness, without_key) == 87
    harness.log.append(
        without_key, leader_epoch=0, now_ms=harness.now_ms, origin=AppendOrigin.CLIENT, are_records_checked=True
    )


def test_a_coordinator_appends_several_batches_as_one_write(harness) -> None:
    harness.append(1)
    batches = harness.batch(2) + control_batch(harness, 3)
    appended = harness.log.append(batches, leader_epoch=1, now_ms=harness.now_ms, origin=AppendOrigin.COORDINATOR)
    assert (appended.base_offset, appended.last_offset) == (1, 5)
    assert [header.base_offset for _, header in iterate_batches(batches)] == [1, 3]
    assert harness.offsets() == [0, 1, 3]
    with pytest.raises(ProtocolError):
        harness.log.append(batches[:-1], leader_epoch=1, now_ms=harness.now_ms, origin=AppendOrigin.CONTROLLER)


# --- new segments ---


def test_a_segment_is_full_by_bytes(make_harness) -> None:
    harness = make_harness(segment_bytes=300)
    for _ in range(6):
        harness.append(1)
    assert harness.segments() == [0, 3]
    assert harness.offsets() == list(range(6))


def test_a_segment_ends_by_the_time_of_its_records(make_harness) -> None:
    harness = make_harness(segment_ms=1000)
    for timestamp_ms in (5000, 5500, 6000, 6001, 6002):
        harness.append(1, timestamp_ms=timestamp_ms)
    assert harness.segments() == [0, 3]


def test_jitter_ends_it_earlier_and_never_later(make_harness) -> None:
    harness = make_harness(segment_ms=1000, segment_jitter_ms=900)
    harness.append(1, timestamp_ms=5000)
    harness.append(1, timestamp_ms=6000)
    assert harness.segments() == [0, 1]


@pytest.mark.parametrize(("step_ms", "segments"), [(1, [0, 4, 8]), (0, [0, 7]), (-1, [0, 7])])
def test_each_index_is_full_by_its_own_entries(make_harness, step_ms, segments) -> None:
    """The offset index has 6 places of 8 bytes, the time index 3 of 12: only a later timestamp takes one of these."""
    harness = make_harness(segment_index_bytes=48, index_interval_bytes=0)
    for number in range(9):
        harness.append(1, timestamp_ms=5000 + number * step_ms)
    assert harness.segments() == segments


def test_a_full_index_is_noticed_after_a_start(make_harness) -> None:
    harness = make_harness(segment_index_bytes=48, index_interval_bytes=0)
    for number in range(4):
        harness.append(1, timestamp_ms=5000 + number)
    harness.open()
    harness.append(1, timestamp_ms=6000)
    assert harness.segments() == [0, 4]


def test_an_offset_that_does_not_fit_32_bits_begins_a_segment(harness) -> None:
    harness.append(1)
    harness.log.log_end_offset = 0x80000000
    harness.append(1)
    assert harness.segments() == [0, 0x80000000]


def test_no_file_is_made_before_the_first_append(harness) -> None:
    assert harness.disk.list_directory("t-0") == []
    harness.append(1)
    assert harness.disk.list_directory("t-0") == ["00000000000000000000.log"]


# --- a failing disk ---


def test_a_full_disk_leaves_the_log_as_it_was_and_the_next_append_tries_again(harness) -> None:
    harness.append(1)
    harness.disk.capacity_bytes = harness.disk.used_bytes() + 10
    with pytest.raises(StorageFullError):
        harness.append(1, producer_id=5, producer_epoch=0, base_sequence=0)
    assert harness.offsets() == [0]
    harness.disk.capacity_bytes = None
    appended = harness.append(1, producer_id=5, producer_epoch=0, base_sequence=0)
    assert (appended.base_offset, appended.is_duplicate) == (1, False)


@pytest.mark.parametrize("operation", ["open", "write"])
def test_a_disk_that_is_full_at_a_new_segment_changes_nothing(make_harness, operation) -> None:
    harness = make_harness(segment_bytes=150)
    harness.append(1)
    harness.disk.fail(Fault(operation, error="full"))
    for _ in range(2):
        with pytest.raises(StorageFullError):
            harness.append(1)
    harness.disk.heal()
    assert harness.append(1).base_offset == 1
    assert harness.offsets() == [0, 1]


def test_an_input_output_error_takes_the_directory_offline_for_good(harness) -> None:
    harness.append(1)
    harness.disk.fail(Fault("append", times=1))
    with pytest.raises(StorageFailedError):
        harness.append(1)
    assert harness.log.health.is_offline
    with pytest.raises(StorageFailedError, match="offline"):
        harness.append(1)
    with pytest.raises(StorageFailedError, match="offline"):
        harness.log.read(0, max_bytes=100, end_offset=1)
    assert harness.log.log_end_offset == 1


@pytest.mark.parametrize("operation", ["open", "write", "read_cached", "rename"])
def test_any_failure_of_the_device_takes_it_offline(make_harness, operation) -> None:
    harness = make_harness(segment_bytes=150, retention_bytes=0)
    for _ in range(3):
        harness.append(1)
    harness.disk.fail(Fault(operation))
    use = {
        "read_cached": lambda: harness.log.read(0, max_bytes=100, end_offset=3),
        "rename": lambda: harness.log.delete_old_segments(harness.now_ms, 3),
    }
    with pytest.raises(StorageFailedError):
        use.get(operation, harness.append)()
    assert harness.log.health.is_offline


def test_a_failed_flush_takes_the_directory_offline_and_is_never_tried_again(harness) -> None:
    harness.append(1)
    plan = harness.log.unflushed()
    harness.disk.fail(Fault("flush", times=1))
    with pytest.raises(StorageFailedError):
        plan.run()
    assert harness.log.recovery_point == 0
    with pytest.raises(StorageFailedError, match="offline"):
        harness.append(1)
    harness.log.close(harness.now_ms)
    assert harness.log.recovery_point == 0


# --- durability ---


def test_a_flush_moves_the_recovery_point_to_where_it_was_planned(harness) -> None:
    harness.append(1)
    plan = harness.log.unflushed()
    harness.append(1)
    plan.run()
    harness.log.mark_flushed(plan, harness.now_ms)
    assert (harness.log.recovery_point, harness.log.log_end_offset) == (1, 2)
    harness.flush()
    assert harness.log.recovery_point == 2
    assert harness.log.unflushed() is None


def test_when_a_flush_is_due(make_harness) -> None:
    harness = make_harness(flush_messages=3, flush_ms=1000)
    log = harness.log
    assert not log.is_flush_due(harness.now_ms + 5000)
    harness.append(2)
    assert not log.is_flush_due(harness.now_ms + 999)
    assert log.is_flush_due(harness.now_ms + 1000)
    harness.append(1)
    assert log.is_flush_due(harness.now_ms)
    harness.flush()
    assert not log.is_flush_due(harness.now_ms)
    log.roll(harness.now_ms)
    assert log.is_flush_due(harness.now_ms), "a sealed segment has no index files yet"
    harness.flush()
    assert not log.is_flush_due(harness.now_ms)


def test_a_closed_log_takes_nothing(harness) -> None:
    harness.append(1)
    harness.log.close(harness.now_ms)
    with pytest.raises(StorageFailedError, match="closed"):
        harness.append(1)
    harness.log.close(harness.now_ms)
