"""The file of the metadata log's flushed offset: never too large after a crash or a flipped bit."""

from __future__ import annotations

import pytest

from moldau.core.log.files.flushed_offset import FlushedOffset
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom

PATH = "__cluster_metadata-0/flushed-offset"


def written(*offsets: int) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("__cluster_metadata-0")
    note = FlushedOffset(disk, PATH)
    for offset in offsets:
        note.write(offset)
    note.close()
    return disk


def test_the_last_note_counts_and_no_file_says_nothing() -> None:
    assert FlushedOffset(written(), PATH).read() == 0
    assert FlushedOffset(written(7), PATH).read() == 7
    assert FlushedOffset(written(7, 19, 20), PATH).read() == 20


def test_a_flush_that_ends_behind_the_close_notes_nothing() -> None:
    """The log was closed under it: the data that it should flush may only be in memory."""
    disk = written(7)
    note = FlushedOffset(disk, PATH)
    note.write(8)
    note.close()
    note.write(9)
    assert FlushedOffset(disk, PATH).read() == 8


def test_a_crash_of_the_process_keeps_the_note() -> None:
    disk = written(7, 19)
    disk.crash_process()
    assert FlushedOffset(disk, PATH).read() == 19


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_of_the_machine_leaves_one_of_the_notes(seed: int) -> None:
    disk = written(199_998, 199_999)
    disk.flush_directory("")
    disk.flush_directory("__cluster_metadata-0")
    disk.open(PATH).flush()
    FlushedOffset(disk, PATH).write(200_000)
    disk.crash_machine(SeededRandom(seed))
    assert FlushedOffset(disk, PATH).read() in (199_998, 199_999, 200_000)


def test_any_flipped_bit_leaves_the_note_before_at_worst() -> None:
    disk = written(7, 19)
    whole = disk.read_file(PATH)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        disk.replace_file(PATH, bytes(data))
        assert FlushedOffset(disk, PATH).read() in (7, 19)


@pytest.mark.parametrize("content", [b"", b"junk", bytes(60), b"-1" * 30])
def test_a_file_that_is_no_note_says_nothing(content: bytes) -> None:
    disk = written()
    disk.replace_file(PATH, content)
    assert FlushedOffset(disk, PATH).read() == 0


def test_a_full_disk_leaves_the_note_before() -> None:
    disk = written(7)
    disk.fail(Fault("write", "full"))
    FlushedOffset(disk, PATH).write(19)
    assert FlushedOffset(disk, PATH).read() == 7
