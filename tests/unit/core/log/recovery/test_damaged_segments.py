"""Damage inside a sealed segment: readers of the damaged bytes get an error, everything else stays readable."""

from __future__ import annotations

import struct

import pytest

from moldau.core.log.cleaning.cleanable import find_cleanable, plan_round
from moldau.core.log.cleaning.compaction import compact
from moldau.core.log.files.checkpoint import LEADER_EPOCH_CHECKPOINT
from moldau.core.log.recovery.inspection import repair_indexes
from moldau.errors import KafkaError, StorageFailedError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.unit.core.log.compacting import batches, begin_round, run_round

NOW_MS = 1_800_000_000_000
CORRUPT_MESSAGE = 2


def filled(make_harness, **settings):
    """Three segments of 20 batches of one record, closed as a clean stop does."""
    harness = make_harness(segment_bytes=2000, index_interval_bytes=250, **settings)
    while len(harness.log.segments) < 4:
        harness.append(1)
        harness.now_ms += 10
    harness.log.close(harness.now_ms)
    return harness


def bytes_of(disk: MemoryDisk, path: str) -> bytearray:
    return bytearray(disk.read_file(path))


def put(disk: MemoryDisk, path: str, data: bytes) -> None:
    disk.remove(path)
    file = disk.open(path)
    file.append(data)
    file.close()


def segment_path(harness, number: int, suffix: str = ".log") -> str:
    names = [name for name in harness.disk.list_directory("t-0") if name.endswith(".log")]
    return "t-0/" + names[number].replace(".log", suffix)


def batches_of(data: bytes) -> list[tuple[int, int, int]]:
    """(position, end, base offset) of each batch."""
    return [(at, at + header.size, header.base_offset) for at, header in iterate_batches(bytes(data))]


def read_each(log) -> tuple[list[int], dict[int, int]]:
    """Reads every offset separately: the first offsets of the responses, and the errors."""
    found, refused = [], {}
    for offset in range(log.log_start_offset, log.log_end_offset):
        for _ in range(3):
            try:
                read = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
            except KafkaError as error:
                refused[offset] = error.code
                break
            if read.cold is None:
                first = next(iter(iterate_batches(bytes(read.records))), None)
                assert first is not None, f"nothing whole is read at {offset}"
                if first[1].base_offset == offset:
                    found.append(offset)
                break
            read.cold.run()
        else:
            raise AssertionError(f"offset {offset} is read again and again")
    return found, refused


def damaged(harness, number: int, change) -> list[int]:
    """Changes a file of records; gives the base offsets of the changed batches."""
    path = segment_path(harness, number)
    before = bytes_of(harness.disk, path)
    after = bytearray(before)
    changed = change(after)
    after = after if changed is None else changed
    put(harness.disk, path, bytes(after))
    return [first for at, end, first in batches_of(before) if bytes(after[at:end]) != bytes(before[at:end])]


def set_length(position: int, length: int):
    def change(data: bytearray) -> None:
        begin = batches_of(data)[position][0]
        struct.pack_into(">i", data, begin + 8, length)

    return change


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("length", [-12, -13, -(1 << 31), 0, 48, 1_000_000, (1 << 31) - 1])
@pytest.mark.parametrize("position", [0, 7, -1])
def test_a_damaged_length_ends_no_walk_and_hides_nothing_behind_it(make_harness, is_clean, length, position) -> None:
    harness = filled(make_harness)
    lost = damaged(harness, 0, set_length(position, length))
    assert len(lost) == 1
    log = harness.open(is_clean=is_clean, recovery_point=harness.log.log_end_offset)
    found, refused = read_each(log)
    assert refused == {lost[0]: CORRUPT_MESSAGE}
    assert found == [offset for offset in range(log.log_end_offset) if offset not in lost]
    assert len([line for line in log.health.findings if "000.log: " in line]) == 1
    assert "readers of the records there get CORRUPT_MESSAGE" in "".join(log.health.findings)
    last = log.plan_max_timestamp_search().run()
    assert last is not None
    assert last.offset == log.log_end_offset - 1
    if position:
        assert log.plan_timestamp_search(0).run().offset == 0
    else:
        with pytest.raises(KafkaError) as damage:
            log.plan_timestamp_search(0).run()
        assert damage.value.code == CORRUPT_MESSAGE


@pytest.mark.parametrize("flipped_byte", [0, 5, 7, 8, 11, 16, 17, 25, 40, 60, 70])
def test_one_flipped_bit_costs_one_batch_at_most(make_harness, flipped_byte) -> None:
    harness = filled(make_harness)

    def flip(data: bytearray) -> None:
        data[batches_of(data)[5][0] + flipped_byte] ^= 1 << (flipped_byte % 8)

    lost = damaged(harness, 1, flip)
    log = harness.open(is_clean=True)
    # batches that no walk has checked are sent, and the reader's CRC check rejects them
    repair_indexes(log.segments[1], 250, log.health, may_have_holes=False)
    found, refused = read_each(log)
    assert set(refused) <= set(lost)
    assert set(range(log.log_end_offset)) - set(found) == set(refused) == set(lost)


@pytest.mark.parametrize(
    "change", [lambda data: bytearray(), lambda data: bytearray(len(data)), lambda data: data[: len(data) // 2]]
)
@pytest.mark.parametrize("number", [0, 1])
def test_an_emptied_zeroed_or_cut_segment_is_detected_at_start_and_at_each_read(make_harness, change, number) -> None:
    harness = filled(make_harness)
    lost = damaged(harness, number, change)
    log = harness.open(is_clean=True)
    path = segment_path(harness, number)
    assert [line for line in log.health.findings if line.startswith(path)]
    found, refused = read_each(log)
    assert refused == dict.fromkeys(lost, CORRUPT_MESSAGE)
    assert found == [offset for offset in range(log.log_end_offset) if offset not in lost]


def test_a_segment_cut_between_two_batches_does_not_let_readers_jump(make_harness) -> None:
    harness = filled(make_harness)
    lost = damaged(harness, 0, lambda data: data[: batches_of(data)[-1][0]])
    log = harness.open(is_clean=True)
    assert read_each(log)[1] == dict.fromkeys(lost, CORRUPT_MESSAGE)
    assert "are not in the file" in "".join(log.health.findings)


def test_a_segment_whose_file_is_gone_does_not_let_readers_jump(make_harness) -> None:
    harness = filled(make_harness)
    data = bytes_of(harness.disk, segment_path(harness, 1))
    lost = [first for _, _, first in batches_of(data)]
    harness.disk.remove(segment_path(harness, 1))
    log = harness.open(is_clean=True)
    assert read_each(log)[1] == dict.fromkeys(lost, CORRUPT_MESSAGE)


def test_a_first_segment_that_is_gone_after_a_clean_stop_is_told_once(make_harness) -> None:
    harness = filled(make_harness)
    second = segment_path(harness, 1)
    begin = int(second[4:24])
    harness.disk.remove(segment_path(harness, 0))
    for findings in ([f"the files of the records from offset 0 to {begin - 1} are missing"], []):
        log = harness.open(is_clean=True)
        told = [line for line in log.health.findings if line.startswith(f"{second}: ")]
        assert [line.rpartition(": ")[2] for line in told] == findings
        assert log.log_start_offset == begin
        log.close(harness.now_ms)


@pytest.mark.parametrize("is_by_retention", [True, False])
def test_a_log_whose_start_was_moved_lacks_no_file(make_harness, is_by_retention) -> None:
    harness = filled(make_harness)
    log = harness.open(is_clean=True)
    offset = log.segments[1].base_offset
    log.advance_log_start_offset(offset if is_by_retention else offset + 1)
    assert log.delete_old_segments(harness.now_ms, log.log_end_offset)
    log.close(harness.now_ms)
    assert harness.open(is_clean=True, log_start_offset=log.log_start_offset).health.findings == ()


def test_an_emptied_segment_of_a_compacted_log_is_told(make_harness) -> None:
    harness = make_harness(segment_bytes=2000, cleanup_policy=("compact",))
    for _ in range(60):
        harness.append(1)
    harness.log.close(harness.now_ms)
    damaged(harness, 0, lambda data: bytearray())
    log = harness.open(is_clean=True)
    sentence = "the file is empty, but its time index says that it held records"
    assert f"{segment_path(harness, 0)}: {sentence}" in log.health.findings


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("kind", ["flip", "zero", "cut", "empty", "junk", "missing"])
def test_a_damaged_index_costs_nothing_and_is_built_anew(make_harness, suffix, kind) -> None:
    harness = filled(make_harness)
    path = segment_path(harness, 0, suffix)
    before = bytes_of(harness.disk, path)
    for flipped in range(len(before)) if kind == "flip" else (0,):
        data = bytearray(before)
        data[flipped] ^= 1 << (flipped % 8)
        changed = {
            "flip": data,
            "zero": bytes(len(before)),
            "cut": before[:5],
            "empty": b"",
            "junk": b"not an index at all!" * 3,
            "missing": b"",
        }[kind]
        put(harness.disk, path, bytes(changed))
        if kind == "missing":
            harness.disk.remove(path)
        log = harness.open(is_clean=True)
        found, refused = read_each(log)
        assert not refused, (flipped, refused)
        assert found == list(range(log.log_end_offset))
        if kind != "flip":
            assert [line for line in log.health.findings if line.startswith(path)]
        log.release()


def test_a_damaged_index_of_the_active_segment_hides_nothing(make_harness) -> None:
    harness = make_harness(index_interval_bytes=250)
    for _ in range(40):
        harness.append(1)
    harness.log.close(harness.now_ms)
    path = segment_path(harness, 0, ".index")
    before = bytes_of(harness.disk, path)
    for flipped in range(len(before)):
        data = bytearray(before)
        data[flipped] ^= 1 << (flipped % 8)
        put(harness.disk, path, bytes(data))
        log = harness.open(is_clean=True)
        assert read_each(log) == (list(range(40)), {})
        harness.append(1)
        assert read_each(log)[0] == list(range(41))
        log.truncate_to(40, harness.now_ms)
        log.close(harness.now_ms)


def test_damage_inside_the_active_segment_hides_nothing_behind_it(make_harness) -> None:
    harness = make_harness(index_interval_bytes=250)
    for _ in range(40):
        harness.append(1)
    harness.log.close(harness.now_ms)
    lost = damaged(harness, 0, set_length(7, -12))
    log = harness.open(is_clean=True)
    assert read_each(log) == ([offset for offset in range(40) if offset not in lost], {lost[0]: CORRUPT_MESSAGE})
    for _ in range(9):
        harness.append(1)
    assert read_each(log) == ([offset for offset in range(49) if offset not in lost], {lost[0]: CORRUPT_MESSAGE})
    log.roll(harness.now_ms)
    assert read_each(log)[1] == {lost[0]: CORRUPT_MESSAGE}


def test_an_index_that_is_built_anew_is_saved_at_the_next_stop_and_reported_once(make_harness) -> None:
    harness = filled(make_harness)
    path = segment_path(harness, 0, ".index")
    before = harness.disk.read_file(path)
    harness.disk.remove(path)
    log = harness.open(is_clean=True)
    assert len(log.health.findings) == 1
    log.close(harness.now_ms)
    assert harness.disk.read_file(path) == before
    assert harness.open(is_clean=True).health.findings == ()


def test_what_is_undamaged_reports_nothing(make_harness) -> None:
    harness = filled(make_harness)
    for _ in range(2):
        log = harness.open(is_clean=True)
        assert log.health.findings == ()
        assert read_each(log) == (list(range(log.log_end_offset)), {})
        log.close(harness.now_ms)


def of_epochs(make_harness, epochs):
    """A log that was closed with 25 records of each leader epoch."""
    harness = make_harness(segment_bytes=2000)
    for epoch in epochs:
        harness.epoch = epoch
        for _ in range(25):
            harness.append(1)
    harness.log.close(harness.now_ms)
    return harness


def test_damaged_leader_epochs_are_read_from_the_log(make_harness) -> None:
    harness = of_epochs(make_harness, (1, 4, 7))
    entries = [(1, 0), (4, 25), (7, 50)]
    for data in (b"junk", b"", b"0\n3\n1 0\n", b"0\n0\n", None):
        path = f"t-0/{LEADER_EPOCH_CHECKPOINT}"
        harness.disk.remove(path)
        if data is not None:
            put(harness.disk, path, data)
        log = harness.open(is_clean=True)
        assert log.leader_epochs.entries == entries
        assert [line for line in log.health.findings if line.startswith(path)]
        log.close(harness.now_ms)
        assert harness.open(is_clean=True).health.findings == ()


@pytest.mark.parametrize("is_clean", [True, False])
def test_no_flipped_bit_names_a_leader_epoch_behind_that_of_the_last_batch(make_harness, is_clean) -> None:
    """With such an epoch the leader would tell its followers again and again to truncate the batches of its own
    epoch."""
    harness = of_epochs(make_harness, (1, 3, 4))
    path = f"t-0/{LEADER_EPOCH_CHECKPOINT}"
    data = harness.disk.read_file(path)
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            put(harness.disk, path, bytes(changed))
            log = harness.open(is_clean=is_clean)
            assert log.leader_epochs.latest_epoch <= 4
            log.leader_epochs.begin(5, log.log_end_offset)
            assert log.end_offset_for_epoch(5) == (5, 75)
            log.release()
    put(harness.disk, path, b"0\n3\n1 0\n3 25\n6 50\n")
    log = harness.open(is_clean=is_clean)
    assert log.leader_epochs.entries == [(1, 0), (3, 25), (4, 50)]
    assert len([line for line in log.health.findings if line.startswith(path)]) == is_clean


@pytest.mark.parametrize("kind", ["flip", "zero", "cut", "cut between batches", "empty", "junk", "whole"])
@pytest.mark.parametrize("renamed", [0, 1, 3])
def test_the_segments_behind_a_damaged_swap_come_back(make_harness, kind, renamed) -> None:
    harness = make_harness(segment_bytes=2000, cleanup_policy=("compact",))
    disk = harness.disk
    number = 0
    while len(harness.log.segments) < 4:
        harness.append_bytes(bytearray(build_batch([(b"%d" % (number % 40), b"value" * 5, NOW_MS + number, ())])))
        number += 1
    harness.log.close(harness.now_ms)
    harness.change(segment_bytes=1 << 20)
    log = harness.open(is_clean=True)
    end_offset = log.log_end_offset
    last = log.segments[-1].base_offset
    plan = plan_round(
        log,
        find_cleanable(log, 0, end_offset, harness.now_ms),
        now_ms=harness.now_ms,
        nonce="ab",
        dedupe_buffer_bytes=1 << 20,
        io_buffer_bytes=1 << 16,
    )
    steps = compact(disk, plan)
    result = None
    while result is None:
        try:
            next(steps)
        except StopIteration as end:
            result = end.value
    log.release()
    cleaned = result.segments[0]
    for suffix in (".log", ".index", ".timeindex"):
        disk.rename(plan.cleaned_path(0, suffix), f"t-0/{0:020d}{suffix}.swap")
    for base in cleaned.replaced[:renamed]:
        for suffix in (".log", ".index", ".timeindex"):
            disk.rename(f"t-0/{base:020d}{suffix}", f"t-0/{base:020d}{suffix}.deleted")
    path = f"t-0/{0:020d}.log.swap"
    data = bytes_of(disk, path)
    if kind == "flip":
        data[len(data) // 2] ^= 1
    elif kind == "zero":
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    elif kind.startswith("cut"):
        del data[batches_of(data)[-1][0] + (0 if "batches" in kind else 30) :]
    elif kind == "empty":
        data.clear()
    elif kind == "junk":
        data[:40] = b"x" * 40
    put(disk, path, bytes(data))
    log = harness.open()
    found, refused = read_each(log)
    assert not refused
    assert log.log_end_offset == end_offset
    assert (len(found) == end_offset) == (kind != "whole")
    assert bool([line for line in log.health.findings if line.startswith(path)]) == (kind != "whole")
    assert set(range(last, end_offset)) <= set(found)
    assert not [name for name in disk.list_directory("t-0") if name.endswith((".swap", ".deleted"))]


def test_what_an_earlier_swap_replaced_does_not_come_back(make_harness) -> None:
    """Nothing is left of the first segment: an empty swap file is doubtful, so its source segments come back."""
    harness = make_harness(segment_bytes=2000, cleanup_policy=("compact",))
    disk = harness.disk

    def write_until(segments: int) -> None:
        number = 0
        while len(harness.log.segments) < segments:
            harness.append_bytes(bytearray(build_batch([(b"%d" % (number % 5), b"value" * 5, NOW_MS, ())])))
            number += 1
        harness.flush()

    write_until(3)
    harness.change(segment_bytes=1 << 20)
    run_round(harness.log, harness.now_ms)
    harness.change(segment_bytes=2000)
    assert len(harness.log.segments) == 2
    left = batches(harness.log)
    write_until(4)
    plan, result = begin_round(harness.log, harness.now_ms, nonce="0b")
    assert result.segments[0].size == 0
    disk.fail(Fault("rename", "io", path_contains=".log.swap"))
    with pytest.raises(StorageFailedError):
        harness.log.replace_segments(plan, result.segments[0], harness.now_ms)
    disk.faults.clear()
    harness.log.release()
    log = harness.open()
    assert not read_each(log)[1]
    assert batches(log)[: len(left)] == left
