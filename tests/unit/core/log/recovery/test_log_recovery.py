"""A start after kill -9, torn tails at every byte, and damaged files."""

from __future__ import annotations

import zlib

import pytest

from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.recovery.recalled_epochs import recall_epochs
from moldau.errors import DamagedLogError, KafkaError, StorageFailedError

LOG = "t-0/00000000000000000000.log"


def test_after_kill_9_nothing_is_missing(make_harness) -> None:
    harness = make_harness(segment_bytes=500, index_interval_bytes=100)
    for number in range(20):
        harness.append(2, producer_id=1, producer_epoch=0, base_sequence=2 * number)
        if number == 7:
            harness.flush()
    recovery_point = harness.log.recovery_point
    harness.disk.crash_process()
    log = harness.open(recovery_point=recovery_point)
    assert (log.log_end_offset, len(log.cuts)) == (40, 0)
    assert harness.offsets() == list(range(0, 40, 2))
    assert harness.append(2, producer_id=1, producer_epoch=0, base_sequence=38).is_duplicate
    assert not harness.append(2, producer_id=1, producer_epoch=0, base_sequence=40).is_duplicate


@pytest.mark.parametrize("torn", [b"\0" * 100, b"\xff" * 100, b""], ids=["zeros", "ones", "empty"])
def test_a_torn_first_batch_after_a_flushed_segment_keeps_the_older_leader_epochs(make_harness, torn) -> None:
    harness = make_harness()
    harness.epoch = 3
    harness.append(2)
    harness.log.roll(harness.now_ms)
    harness.flush()
    harness.append(1)
    harness.disk.replace_file("t-0/00000000000000000002.log", torn)
    log = harness.open(recovery_point=2)
    assert (log.log_end_offset, log.end_offset_for_epoch(3)) == (2, (3, 2))


def _three_batches(harness):
    for count in (1, 2, 3):
        harness.append(count)
    return harness.disk.read_file(LOG)


def test_a_tail_torn_at_any_byte_is_cut_to_the_last_whole_batch(make_harness) -> None:
    harness = make_harness()
    whole = _three_batches(harness)
    ends = [size for size in range(len(whole) + 1) if size in _batch_ends(whole)]
    for cut in range(len(whole) + 1):
        for tail in (b"", b"\0" * 100, b"\xff" * 100, whole[:50]):
            if cut == len(whole) and tail == b"":
                continue
            harness.disk.replace_file(LOG, whole[:cut] + tail)
            log = harness.open()
            size = cut + len(tail)
            # a tail may by chance equal the torn part
            kept = max(end for end in ends if (whole[:cut] + tail).startswith(whole[:end]))
            assert log.size_bytes == kept
            assert sum(cut.byte_count for cut in log.cuts) == size - kept
            assert harness.disk.read_file(LOG) == whole[:kept]
            assert log.log_end_offset == {0: 0, 1: 1, 2: 3, 3: 6}[ends.index(kept)]
            log.release()


def _batch_ends(data):
    ends, position = [0], 0
    while position < len(data):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        ends.append(position)
    return ends


def test_any_damaged_byte_ends_the_log_before_its_batch(make_harness) -> None:
    harness = make_harness()
    whole = _three_batches(harness)
    ends = _batch_ends(whole)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x81
        harness.disk.replace_file(LOG, bytes(damaged))
        log = harness.open()
        begin = max(end for end in ends if end <= position)
        if position - begin in (*range(8), *range(12, 16)):
            # the CRC covers neither base offset nor leader epoch; a larger base offset is a legal hole
            assert log.size_bytes in ends
        else:
            assert log.size_bytes == begin
        log.release()


def test_segments_behind_a_damaged_one_are_dropped(make_harness) -> None:
    harness = make_harness(segment_bytes=300)
    for _ in range(12):
        harness.append(1)
    assert len(harness.segments()) == 4
    damaged = bytearray(harness.disk.read_file("t-0/00000000000000000003.log"))
    damaged[-1] ^= 1
    harness.disk.replace_file("t-0/00000000000000000003.log", bytes(damaged))
    log = harness.open(recovery_point=3)
    assert log.log_end_offset == 5
    assert harness.segments() == [0, 3]
    assert harness.append(1).base_offset == 5


def test_segments_below_the_recovery_point_are_not_read(make_harness) -> None:
    harness = make_harness(segment_bytes=300)
    for _ in range(12):
        harness.append(1)
    harness.flush()
    damaged = bytearray(harness.disk.read_file(LOG))
    damaged[-1] ^= 1
    harness.disk.replace_file(LOG, bytes(damaged))
    assert harness.open(recovery_point=12).log_end_offset == 12


def test_a_clean_stop_is_trusted_and_leaves_kafkas_files(make_harness) -> None:
    harness = make_harness(index_interval_bytes=100)
    for _ in range(5):
        harness.append(1, producer_id=1, producer_epoch=0, base_sequence=harness.log.log_end_offset)
    harness.log.close(harness.now_ms)
    assert harness.disk.list_directory("t-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000005.snapshot",
        "leader-epoch-checkpoint",
    ]
    log = harness.open(is_clean=True)
    assert (log.log_end_offset, log.recovery_point) == (5, 5)
    assert log.unflushed() is None
    before = {name: harness.disk.read_file(f"t-0/{name}") for name in harness.disk.list_directory("t-0")}
    log.close(harness.now_ms)
    assert before == {name: harness.disk.read_file(f"t-0/{name}") for name in harness.disk.list_directory("t-0")}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"12345"])
def test_a_clean_stop_whose_index_is_gone_or_damaged_is_read_again(make_harness, suffix, content) -> None:
    harness = make_harness(index_interval_bytes=100)
    for _ in range(5):
        harness.append(1)
    harness.log.close(harness.now_ms)
    path = f"t-0/00000000000000000000{suffix}"
    if content is None:
        harness.disk.remove(path)
    else:
        harness.disk.replace_file(path, content)
    assert harness.open(is_clean=True).log_end_offset == 5
    assert harness.offsets() == list(range(5))


def test_an_emptied_time_index_hides_no_record_from_a_search_by_time(make_harness) -> None:
    harness = make_harness(index_interval_bytes=100)
    latest_ms = harness.now_ms + 1_000
    for timestamp_ms in (latest_ms, *range(harness.now_ms, harness.now_ms + 9)):
        harness.append(1, timestamp_ms=timestamp_ms)
    harness.log.close(harness.now_ms)
    harness.disk.replace_file("t-0/00000000000000000000.timeindex", b"")
    log = harness.open(is_clean=True)
    assert log.segments[-1].load_max_timestamp() == latest_ms
    found = log.plan_timestamp_search(latest_ms).run()
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (0, latest_ms)


def test_a_clean_stop_that_was_none_is_found_out(make_harness) -> None:
    harness = make_harness(index_interval_bytes=100)
    for _ in range(5):
        harness.append(1)
    harness.log.close(harness.now_ms)
    whole = harness.disk.read_file(LOG)
    harness.disk.replace_file(LOG, whole[:-10])
    with pytest.raises(DamagedLogError, match=rf"{LOG} is damaged from byte \d+ on, offset 4"):
        harness.open(is_clean=True)
    assert harness.disk.read_file(LOG) == whole[:-10]


def test_indexes_left_by_a_clean_stop_are_not_trusted_once_the_segment_grew(make_harness) -> None:
    harness = make_harness(index_interval_bytes=100, segment_bytes=2000)
    harness.append(1, timestamp_ms=1000)
    harness.log.close(harness.now_ms)
    harness.open(is_clean=True)
    for timestamp_ms in range(2000, 2010):
        harness.append(1, timestamp_ms=timestamp_ms)
    harness.log.roll(harness.now_ms)
    harness.disk.crash_process()
    log = harness.open(recovery_point=harness.log.log_end_offset)
    assert log.plan_timestamp_search(2005).run().offset == 6


def test_producers_outlive_snapshots_that_are_gone_or_damaged(make_harness) -> None:
    harness = make_harness(segment_bytes=300)
    for sequence in range(12):
        harness.append(1, producer_id=1, producer_epoch=0, base_sequence=sequence)
    harness.flush()
    names = [name for name in harness.disk.list_directory("t-0") if name.endswith(".snapshot")]
    harness.disk.remove(f"t-0/{names[-1]}")
    harness.disk.replace_file(f"t-0/{names[-2]}", b"damaged")
    harness.open(recovery_point=12)
    assert harness.append(1, producer_id=1, producer_epoch=0, base_sequence=11).is_duplicate
    with pytest.raises(KafkaError) as refused:
        harness.append(1, producer_id=1, producer_epoch=0, base_sequence=13)
    assert refused.value.code == 45


def test_leader_epochs_are_found_again_in_the_batches(harness) -> None:
    for epoch in (1, 1, 4):
        harness.epoch = epoch
        harness.append(1)
    harness.disk.crash_process()
    log = harness.open()
    assert log.leader_epochs.entries == [(1, 0), (4, 2)]


def test_leftovers_of_a_crash_are_tidied(harness) -> None:
    harness.append(1)
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "leader-epoch-checkpoint.tmp"):
        harness.disk.replace_file(f"t-0/{name}", b"x")
    harness.disk.crash_process()
    harness.open()
    assert harness.disk.list_directory("t-0") == ["00000000000000000000.log"]


def test_messages_of_old_formats_are_never_cut_off(harness) -> None:
    body = b"\x01\x00" + (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + (1).to_bytes(4, "big") + b"v"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    harness.disk.replace_file(LOG, bytes(8) + len(message).to_bytes(4, "big") + message)
    with pytest.raises(StorageFailedError, match="format 1"):
        harness.open()


def test_a_log_start_offset_beyond_the_end_begins_the_log_there(harness) -> None:
    harness.append(5)
    harness.disk.crash_process()
    log = harness.open(log_start_offset=9)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert harness.append(1).base_offset == 9
    assert harness.segments() == [9]


def test_a_batch_larger_than_a_chunk_is_recovered(harness) -> None:
    harness.change(max_message_bytes=4 << 20)
    harness.append(1, size=1 << 20)
    harness.append(1, size=10)
    harness.append(1, size=(1 << 20) + 12345)
    harness.disk.crash_process()
    assert harness.open().log_end_offset == 3


def test_epochs_that_begin_above_the_log_start_are_completed_from_the_batches(harness) -> None:
    """DeleteRecords moves the epochs first: the broker ended before it wrote the new log start offset."""
    for epoch, count in ((0, 2), (2, 3), (3, 1), (5, 2)):
        harness.epoch = epoch
        for _ in range(count):
            harness.append()
        harness.log.roll(harness.now_ms)
    harness.log.advance_log_start_offset(5)
    assert harness.log.leader_epochs.entries == [(3, 5), (5, 6)]
    harness.flush()
    harness.disk.crash_process()
    log = harness.open(recovery_point=8, log_start_offset=1)
    assert log.leader_epochs.entries == [(0, 1), (2, 2), (3, 5), (5, 6)]
    assert log.end_offset_for_epoch(0) == (0, 2)


def test_epochs_that_begin_where_the_log_starts_are_left_as_they_are(harness) -> None:
    """Also if that is inside a batch."""
    harness.append(3)
    epochs = LeaderEpochs([(0, 1)])
    recall_epochs(harness.log.segments, epochs, 1)
    assert (epochs.entries, epochs.is_dirty) == ([(0, 1)], False)
    recall_epochs(harness.log.segments, epochs, 0)
    assert (epochs.entries, epochs.is_dirty) == ([(0, 0)], True)
