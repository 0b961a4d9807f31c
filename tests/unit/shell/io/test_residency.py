"""The loop's reads of a file that was found cold: data that a worker has read since, and data appended since."""

from __future__ import annotations

from moldau.shell.io.residency import MAX_RANGES, Residency


def cold(size: int) -> Residency:
    residency = Residency()
    residency.missed(0, 10, size)
    return residency


def test_a_cold_file_is_read_by_workers_only() -> None:
    residency = cold(100)
    assert not residency.is_readable(0, 10)
    assert not residency.is_readable(90, 110)


def test_what_was_appended_since_is_read_at_once() -> None:
    residency = cold(100)
    assert residency.is_readable(100, 200)
    residency.was_read(90, 100)
    assert residency.is_readable(90, 110)
    assert not residency.is_readable(89, 110)


def test_ranges_that_touch_are_one() -> None:
    residency = cold(100)
    residency.was_read(0, 10)
    residency.was_read(20, 30)
    assert not residency.is_readable(5, 25)
    residency.was_read(10, 20)
    assert residency.is_readable(0, 30)
    assert not residency.is_readable(0, 31)


def test_a_miss_in_what_was_read_forgets_that_range_only() -> None:
    residency = cold(100)
    residency.was_read(0, 10)
    residency.was_read(20, 30)
    residency.missed(25, 28, 100)
    assert residency.is_readable(0, 10)
    assert not residency.is_readable(20, 22)


def test_of_many_readers_the_longest_unused_is_forgotten() -> None:
    residency = cold(1000)
    for number in range(MAX_RANGES):
        residency.was_read(number * 10, number * 10 + 5)
    residency.was_read(5, 7)
    residency.was_read(900, 905)
    assert residency.is_readable(0, 7)
    assert not residency.is_readable(10, 15)
    assert residency.is_readable(900, 905)
