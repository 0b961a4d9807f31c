"""What a crash may take from the disk in memory, and what must survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import StorageFailedError, StorageFullError
from moldau.shell.io.simulated.memory_disk import PAGE_SIZE, Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom


def _durable(disk: MemoryDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.append(data)
    file.flush()
    disk.flush_directory(path.rpartition("/")[0])


def test_a_crash_of_the_process_loses_nothing() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    file = disk.open("d/a")
    file.append(b"unflushed")
    disk.crash_process()
    assert disk.read_file("d/a") == b"unflushed"
    file.append(b" zombie")
    assert disk.read_file("d/a") == b"unflushed"


def test_a_crash_of_the_process_keeps_what_a_later_crash_of_the_machine_may_lose() -> None:
    outcomes = {}
    for seed in range(30):
        disk = MemoryDisk()
        _durable(disk, "a", b"safe")
        disk.open("a").append(b" unsafe")
        disk.crash_process()
        disk.crash_machine(SeededRandom(seed))
        outcomes[disk.read_file("a")] = True
    assert all(data.startswith(b"safe") for data in outcomes)
    assert b"safe" in outcomes
    assert b"safe unsafe" in outcomes


@given(seed=st.integers(0, 1 << 32), first=st.binary(max_size=9000), second=st.binary(min_size=1, max_size=20000))
def test_a_crash_of_the_machine_keeps_every_flushed_byte(seed: int, first: bytes, second: bytes) -> None:
    disk = MemoryDisk()
    _durable(disk, "a", first)
    disk.open("a").append(second)
    disk.crash_machine(SeededRandom(seed))
    left = disk.read_file("a")
    assert left[: len(first)] == first
    assert len(first) <= len(left) <= len(first) + len(second)
    whole = first + second
    for begin in range(0, len(left), PAGE_SIZE):
        page, wanted = left[begin : begin + PAGE_SIZE], whole[begin : min(begin + PAGE_SIZE, len(left))]
        torn_at = next((i for i, (a, b) in enumerate(zip(page, wanted, strict=True)) if a != b), len(page))
        old = (first + bytes(len(whole)))[begin + torn_at : begin + len(page)]
        assert page[torn_at:] == old, "a page is new, old, or new up to a byte and old behind it"


def test_every_page_may_survive_alone_and_tears_fall_inside_pages() -> None:
    survivors, torn = {}, 0
    for seed in range(300):
        disk = MemoryDisk()
        _durable(disk, "a", b"")
        disk.open("a").append(b"\1" * (3 * PAGE_SIZE))
        disk.crash_machine(SeededRandom(seed))
        left = disk.read_file("a").ljust(3 * PAGE_SIZE, b"\0")
        pages = [left[begin : begin + PAGE_SIZE] for begin in range(0, 3 * PAGE_SIZE, PAGE_SIZE)]
        survivors[tuple(page == b"\1" * PAGE_SIZE for page in pages)] = True
        torn += any(0 < page.count(1) < PAGE_SIZE for page in pages)
    assert len(survivors) == 8
    assert torn > 10


def test_an_overwritten_page_is_old_or_new() -> None:
    outcomes = {}
    for seed in range(60):
        disk = MemoryDisk()
        _durable(disk, "a", b"old!")
        disk.open("a").write_at(0, b"new!")
        disk.crash_machine(SeededRandom(seed))
        outcomes[disk.read_file("a")] = True
    assert {b"old!", b"new!"} <= outcomes.keys()


def test_a_truncation_may_be_undone_until_it_is_flushed() -> None:
    outcomes = {}
    for seed in range(60):
        disk = MemoryDisk()
        _durable(disk, "a", b"long contents")
        file = disk.open("a")
        file.truncate(4)
        file.append(b"!")
        disk.crash_machine(SeededRandom(seed))
        outcomes[disk.read_file("a")] = True
    assert {b"long contents", b"long!"} <= outcomes.keys()
    disk = MemoryDisk()
    _durable(disk, "a", b"long contents")
    file = disk.open("a")
    file.truncate(4)
    file.flush()
    disk.crash_machine(SeededRandom(1))
    assert disk.read_file("a") == b"long"


def test_names_are_durable_only_after_their_directory_is_flushed() -> None:
    seen = {}
    for seed in range(40):
        disk = MemoryDisk()
        disk.make_directory("d")
        disk.flush_directory("")
        for name in ("one", "two"):
            file = disk.open(f"d/{name}")
            file.append(b"x")
            file.flush()
        disk.crash_machine(SeededRandom(seed))
        seen[tuple(disk.list_directory("d"))] = True
    assert sorted(seen) == [(), ("one",), ("one", "two")], "a prefix of the changes, in their order"


def test_a_rename_in_one_directory_is_atomic() -> None:
    for seed in range(40):
        disk = MemoryDisk()
        _durable(disk, "old", b"x")
        disk.rename("old", "new")
        disk.crash_machine(SeededRandom(seed))
        assert disk.list_directory("") in (["old"], ["new"])


def test_replace_file_is_durable_when_it_returns() -> None:
    for seed in range(20):
        disk = MemoryDisk()
        disk.replace_file("checkpoint", b"one")
        disk.replace_file("checkpoint", b"two")
        disk.crash_machine(SeededRandom(seed))
        assert disk.read_file("checkpoint") == b"two"


def test_the_same_seed_crashes_alike() -> None:
    def crash() -> list[bytes]:
        disk = MemoryDisk()
        for number in range(5):
            disk.open(f"f{number}").append(bytes([number]) * 10000)
        disk.flush_directory("")
        disk.crash_machine(SeededRandom(7))
        return [disk.read_file(name) for name in disk.list_directory("")]

    assert crash() == crash()


def test_a_full_disk_takes_nothing_and_goes_on_when_there_is_room() -> None:
    disk = MemoryDisk(capacity_bytes=10)
    file = disk.open("a")
    file.append(b"12345678")
    with pytest.raises(StorageFullError):
        file.append(b"abc")
    assert disk.read_file("a") == b"12345678"
    file.append(b"ab")
    with pytest.raises(StorageFullError):
        disk.replace_file("b", b"x")


def test_faults_hit_their_operation_their_path_and_their_count() -> None:
    disk = MemoryDisk()
    file = disk.open("topic-0/a".rpartition("/")[2])
    disk.fail(Fault("append", path_contains="b", times=1))
    file.append(b"x")
    other = disk.open("b")
    with pytest.raises(StorageFailedError):
        other.append(b"x")
    other.append(b"x")
    disk.fail(Fault("read_cached", error="cold", times=1))
    assert other.read_cached(0, 1) is None
    assert other.read_cached(0, 1) == b"x"
    disk.fail(Fault("flush"))
    with pytest.raises(StorageFailedError):
        file.flush()
    disk.heal()
    file.flush()


def test_a_failed_flush_loses_the_pages_for_good() -> None:
    disk = MemoryDisk()
    _durable(disk, "a", b"safe")
    file = disk.open("a")
    file.append(b" lost")
    disk.fail(Fault("flush", times=1))
    with pytest.raises(StorageFailedError):
        file.flush()
    file.flush()
    disk.crash_machine(SeededRandom(3))
    assert disk.read_file("a") == b"safe" + bytes(5)


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_page_is_on_the_disk_again_once_it_was_written_after_the_failed_flush(restarts: int) -> None:
    for seed in range(20):
        disk = MemoryDisk()
        pages = [bytes([65 + page]) * PAGE_SIZE for page in range(4)]
        _durable(disk, "a", pages[0] + b"half")
        file = disk.open("a")
        file.truncate(PAGE_SIZE)
        for page in pages[1:]:
            file.append(page)
        disk.fail(Fault("flush", times=1))
        with pytest.raises(StorageFailedError):
            file.flush()
        for _ in range(restarts):
            disk.crash_process()
        file = disk.open("a")
        assert file.read(0, 4 * PAGE_SIZE) == b"".join(pages)
        file.write_at(2 * PAGE_SIZE + 5, b"CC")
        file.append(b"end")
        file.flush()
        disk.crash_machine(SeededRandom(seed))
        lost = b"half".ljust(PAGE_SIZE, b"\0")
        assert disk.read_file("a") == pages[0] + lost + pages[2] + bytes(PAGE_SIZE) + b"end"


def test_a_page_that_a_failed_flush_lost_may_be_cut_off_and_written_again() -> None:
    disk = MemoryDisk()
    file = disk.open("a")
    disk.flush_directory("")
    file.append(b"x" * 3 * PAGE_SIZE)
    disk.fail(Fault("flush", times=1))
    with pytest.raises(StorageFailedError):
        file.flush()
    file.truncate(PAGE_SIZE)
    file.flush()
    file.append(b"y" * PAGE_SIZE)
    file.flush()
    disk.crash_machine(SeededRandom(1))
    assert disk.read_file("a") == bytes(PAGE_SIZE) + b"y" * PAGE_SIZE
