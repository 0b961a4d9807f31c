"""Recovery of damage: below the recovery point it fails, above it truncates and keeps the removed bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.core.log.log import Log
from moldau.core.log.recovery.cut import MAX_KEPT_TAILS, is_cut_name
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.errors import DamagedLogError, StorageFullError
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import iterate_batches

LOG = "t-0/00000000000000000000.log"


def files(disk: Any) -> dict[str, bytes]:
    """Every log file and every kept file."""
    names = disk.list_directory("t-0")
    return {name: disk.read_file(f"t-0/{name}") for name in names if name.endswith(".log") or ".cut-" in name}


def begins(data: bytes) -> list[int]:
    return [position for position, _ in iterate_batches(data)]


def flip(disk: Any, path: str, position: int) -> None:
    data = bytearray(disk.read_file(path))
    data[position] ^= 0x10
    disk.replace_file(path, bytes(data))


@pytest.fixture
def ten_batches(make_harness: Callable[..., Any]) -> Any:
    harness = make_harness()
    for _ in range(10):
        harness.append(1)
    harness.disk.crash_process()
    return harness


def test_a_flipped_bit_below_the_recovery_point_refuses_the_log_and_changes_nothing(ten_batches: Any) -> None:
    disk = ten_batches.disk
    places = begins(disk.read_file(LOG))
    flip(disk, LOG, places[4] + 70)
    before = files(disk)
    for _ in range(2):
        with pytest.raises(DamagedLogError, match=rf"{LOG} is damaged from byte {places[4]} on, offset 4.* offset 7 "):
            ten_batches.open(recovery_point=7)
    assert files(disk) == before


def test_a_flipped_bit_above_the_recovery_point_cuts_the_log_and_keeps_what_is_cut(ten_batches: Any) -> None:
    disk = ten_batches.disk
    places = begins(disk.read_file(LOG))
    flip(disk, LOG, places[4] + 70)
    damaged = disk.read_file(LOG)
    log = ten_batches.open(recovery_point=4)
    assert log.log_end_offset == 4
    assert files(disk) == {
        "00000000000000000000.log": damaged[: places[4]],
        "00000000000000000000.log.cut-4": damaged[places[4] :],
    }
    [cut] = log.cuts
    size, position = len(damaged) - places[4], places[4]
    assert cut.describe() == (
        f"cut {size} bytes of {LOG} from byte {position} on, offset 4, and kept them in {LOG}.cut-4"
    )


def test_segments_behind_the_cut_are_kept_whole(make_harness: Callable[..., Any]) -> None:
    harness = make_harness(segment_bytes=300)
    for _ in range(12):
        harness.append(1)
    harness.disk.crash_process()
    before = files(harness.disk)
    flip(harness.disk, "t-0/00000000000000000003.log", -1)
    log = harness.open()
    assert log.log_end_offset == 5
    after = files(harness.disk)
    assert list(after) == [
        "00000000000000000000.log",
        "00000000000000000003.log",
        "00000000000000000003.log.cut-5",
        "00000000000000000006.log.cut-5",
        "00000000000000000009.log.cut-5",
    ]
    assert after["00000000000000000006.log.cut-5"] == before["00000000000000000006.log"]
    assert after["00000000000000000009.log.cut-5"] == before["00000000000000000009.log"]
    assert harness.append(1).base_offset == 5


@pytest.mark.parametrize("kept", [0, 4], ids=["emptied", "cut between two batches"])
def test_a_log_that_ends_below_its_recovery_point_is_refused(ten_batches: Any, kept: int) -> None:
    disk = ten_batches.disk
    data = disk.read_file(LOG)
    disk.replace_file(LOG, data[: begins(data)[kept]])
    with pytest.raises(DamagedLogError, match=f"t-0 ends at offset {kept}, but everything below offset 10"):
        ten_batches.open(recovery_point=10)
    with pytest.raises(DamagedLogError, match=f"t-0 ends at offset {kept}"):
        ten_batches.open(recovery_point=10, is_clean=True)


def test_a_log_whose_file_is_gone_is_refused(ten_batches: Any) -> None:
    ten_batches.disk.remove(LOG)
    with pytest.raises(DamagedLogError, match="t-0 ends at offset 0, but everything below offset 10"):
        ten_batches.open(recovery_point=10)


def test_damage_behind_the_mark_of_a_clean_stop_is_refused_without_a_checkpoint(ten_batches: Any) -> None:
    flip(ten_batches.disk, LOG, begins(ten_batches.disk.read_file(LOG))[9] + 70)
    with pytest.raises(DamagedLogError, match="offset 9, but everything was on the disk"):
        ten_batches.open(is_clean=True)


def test_bytes_behind_everything_that_was_flushed_do_not_refuse_a_clean_stop(ten_batches: Any) -> None:
    disk = ten_batches.disk
    whole = disk.read_file(LOG)
    disk.replace_file(LOG, whole + b"junk")
    assert ten_batches.open(is_clean=True, recovery_point=10).log_end_offset == 10
    assert files(disk) == {"00000000000000000000.log": whole, "00000000000000000000.log.cut-10": b"junk"}


def test_a_tail_of_zeros_is_not_kept(ten_batches: Any) -> None:
    disk = ten_batches.disk
    whole = disk.read_file(LOG)
    disk.replace_file(LOG, whole + bytes(3 << 20))
    [cut] = ten_batches.open().cuts
    assert (cut.byte_count, cut.kept_in) == (3 << 20, "")
    assert files(disk) == {"00000000000000000000.log": whole}


def test_what_was_cut_at_one_offset_several_times_is_kept_each_time_up_to_a_bound(ten_batches: Any) -> None:
    disk = ten_batches.disk
    whole = disk.read_file(LOG)
    for number in range(MAX_KEPT_TAILS + 3):
        disk.replace_file(LOG, whole + b"torn %d" % number)
        assert ten_batches.open().log_end_offset == 10
    kept = {name: data for name, data in files(disk).items() if is_cut_name(name)}
    numbers = range(3, MAX_KEPT_TAILS + 3)
    assert kept == {f"00000000000000000000.log.cut-10.{number + 1}": b"torn %d" % number for number in numbers}


def test_without_room_for_what_is_cut_the_log_stays_as_it_is(ten_batches: Any) -> None:
    disk = ten_batches.disk
    damaged = disk.read_file(LOG) + b"torn"
    disk.replace_file(LOG, damaged)
    disk.fail(Fault("append", "full", "cut-"))
    with pytest.raises(StorageFullError):
        ten_batches.open()
    assert files(disk) == {"00000000000000000000.log": damaged}


def test_records_below_a_log_start_offset_beyond_the_end_are_kept_beside_the_log(ten_batches: Any) -> None:
    whole = ten_batches.disk.read_file(LOG)
    assert ten_batches.open(log_start_offset=12).log_end_offset == 12
    assert files(ten_batches.disk)["00000000000000000000.log.cut-10"] == whole


def test_a_log_that_was_compacted_once_is_no_damaged_log_under_another_policy(make_harness: Callable[..., Any]) -> None:
    harness = make_harness(segment_bytes=300)
    for _ in range(9):
        harness.append(1)
    harness.disk.crash_process()
    harness.disk.remove("t-0/00000000000000000003.log")
    before = files(harness.disk)
    log = Log.open(
        harness.disk,
        "t-0",
        TopicPartition("t", 0),
        METADATA_TOPIC_ID,
        harness.settings,
        now_ms=harness.now_ms,
        plan=RecoveryPlan(cleaned_offset=9),
    )
    assert (log.log_end_offset, files(harness.disk)) == (9, before)
