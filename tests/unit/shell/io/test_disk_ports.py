"""Both disks keep the guarantees of the Disk port; every test here runs with each of them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Literal

import pytest

from moldau.errors import StorageFailedError
from moldau.ports import FLUSH_FAILED_MARK, Disk
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return OsDisk(str(tmp_path / "root")) if request.param == "os" else MemoryDisk()


def test_append_gives_the_position_and_reads_see_it_at_once(disk: Disk) -> None:
    file = disk.open("a.log")
    assert file.append(b"first") == 0
    assert file.append(memoryview(b"second")) == 5
    assert file.append(bytearray(b"!")) == 11
    assert file.size() == 12
    assert file.read(0, 100) == b"firstsecond!"
    assert bytes(file.read_cached(5, 6) or b"") == b"second"
    assert file.read(12, 5) == b""
    assert bytes(file.read_cached(40, 5) or b"") == b""


def test_a_file_opened_again_has_what_was_written(disk: Disk) -> None:
    file = disk.open("a.log")
    file.append(b"bytes")
    file.close()
    again = disk.open("a.log", create=False)
    assert again.append(b"!") == 5
    assert again.read(0, 6) == b"bytes!"


def test_write_at_overwrites_and_extends(disk: Disk) -> None:
    file = disk.open("a.index")
    file.write_at(0, b"12345678")
    file.write_at(6, b"abcd")
    assert (file.size(), file.read(0, 20)) == (10, b"123456abcd")
    file.truncate(3)
    assert (file.size(), file.read(0, 20)) == (3, b"123")
    assert file.append(b"x") == 3


def test_a_closed_file_says_so(disk: Disk) -> None:
    file = disk.open("a.log")
    file.close()
    for use in (lambda: file.append(b"x"), lambda: file.read(0, 1), file.flush, lambda: file.truncate(0)):
        with pytest.raises(ValueError, match="closed"):
            use()
    file.close()


def test_open_without_create_raises_for_an_absent_file(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("absent", create=False)
    with pytest.raises(FileNotFoundError):
        disk.open("no/such/directory")
    with pytest.raises(FileNotFoundError):
        disk.read_file("absent")
    assert not disk.exists("absent")


def test_names_are_listed_sorted_and_absent_directories_are_empty(disk: Disk) -> None:
    assert disk.list_directory("topic-0") == []
    disk.make_directory("topic-0/deep")
    disk.make_directory("topic-0/deep")
    disk.open("topic-0/b").close()
    disk.open("topic-0/a").close()
    assert disk.list_directory("topic-0") == ["a", "b", "deep"]
    assert disk.list_directory("") == ["topic-0"]


def test_rename_moves_files_and_directories_and_replaces(disk: Disk) -> None:
    disk.make_directory("old")
    disk.replace_file("old/x", b"x")
    disk.replace_file("old/y", b"y")
    disk.rename("old/x", "old/y")
    assert (disk.list_directory("old"), disk.read_file("old/y")) == (["y"], b"x")
    disk.rename("old", "new")
    assert (disk.list_directory(""), disk.read_file("new/y")) == (["new"], b"x")
    with pytest.raises(FileNotFoundError):
        disk.rename("old", "newer")


def test_remove_is_silent_about_what_is_absent(disk: Disk) -> None:
    disk.make_directory("d")
    disk.replace_file("d/x", b"x")
    disk.remove("d/x")
    disk.remove("d/x")
    disk.remove_tree("d")
    disk.remove_tree("d")
    assert disk.list_directory("") == []


def test_flushing_changes_nothing_that_is_seen(disk: Disk) -> None:
    disk.make_directory("d")
    file = disk.open("d/x")
    file.append(b"x")
    file.flush()
    disk.flush_directory("d")
    disk.flush_directory("")
    assert disk.read_file("d/x") == b"x"


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../b", "a//b", ".", "a/.", "nul\0"])
def test_a_path_that_leaves_the_root_is_refused(disk: Disk, path: str) -> None:
    with pytest.raises(ValueError):
        disk.open(path)
    with pytest.raises(ValueError):
        disk.replace_file(path, b"")


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_flush_that_fails_leaves_a_mark_that_names_the_file(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(error, os.strerror(error))

    root = OsDisk(str(tmp_path))
    root.make_directory("t-0")
    file = root.open("t-0/a.log")
    file.append(b"batch")
    file.flush()
    assert not root.exists(FLUSH_FAILED_MARK)
    monkeypatch.setattr(os, "fsync", fail)
    # the pages count as clean now, even without room: no flush may write them again
    with pytest.raises(StorageFailedError):
        file.flush()
    assert root.read_file(FLUSH_FAILED_MARK) == b"t-0/a.log"


@pytest.mark.parametrize("error", ["io", "full"])
def test_the_disk_in_memory_leaves_the_same_mark(error: Literal["io", "full"]) -> None:
    disk = MemoryDisk()
    file = disk.open("a.log")
    disk.fail(Fault("flush", error, times=1))
    with pytest.raises(StorageFailedError):
        file.flush()
    disk.crash_process()
    assert disk.read_file(FLUSH_FAILED_MARK) == b"a.log"
