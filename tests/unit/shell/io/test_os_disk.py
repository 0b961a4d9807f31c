"""Properties of only the real disk: few descriptors, several threads, errors of the operating system."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.errors import StorageFailedError, StorageFullError
from moldau.shell.io import disk as disk_module
from moldau.shell.io.disk import OsDisk


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), max_open_files=4)
    files = [disk.open(f"f{number}") for number in range(20)]
    for turn in range(3):
        for number, file in enumerate(files):
            assert file.append(bytes([number])) == turn
            assert disk.open_files <= 4
    assert all(file.read(0, 9) == bytes([number]) * 3 for number, file in enumerate(files))
    for file in files:
        file.close()
    assert disk.open_files == 0


def test_the_lately_used_file_keeps_its_descriptor(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), max_open_files=3)
    hot = disk.open("hot")
    for number in range(10):
        hot.append(b"x")
        disk.open(f"cold{number}")
    (tmp_path / "hot").unlink()
    hot.append(b"y")  # would fail if it had to be opened again
    with pytest.raises(FileNotFoundError):
        disk.open("hot", create=False)


def test_files_are_read_and_flushed_by_threads_while_the_loop_appends(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), max_open_files=2)
    files = [disk.open(f"f{number}") for number in range(6)]
    errors: list[BaseException] = []
    is_done = threading.Event()

    def work() -> None:
        try:
            while not is_done.is_set():
                for number, file in enumerate(files):
                    file.flush()
                    data = file.read(0, 1 << 20)
                    assert data == bytes([number]) * len(data)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        for number, file in enumerate(files):
            file.append(bytes([number]) * 10)
    is_done.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert errors == []
    assert [file.size() for file in files] == [3000] * 6


def test_a_short_write_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(disk_module.os, "pwrite", lambda fd, data, position: real(fd, bytes(data)[:3], position))
    file = OsDisk(str(tmp_path)).open("a")
    assert file.append(b"0123456789") == 0
    assert file.read(0, 20) == b"0123456789"


def _failing_after(count: int, number: int) -> object:
    real, calls = os.pwrite, [0]

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        calls[0] += 1
        if calls[0] > count:
            raise OSError(number, os.strerror(number))
        return real(descriptor, bytes(data)[: max(1, len(data) // 2)], position)

    return pwrite


def test_no_space_left_cuts_back_to_the_old_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk(str(tmp_path)).open("a")
    file.append(b"kept")
    with monkeypatch.context() as patch:
        patch.setattr(disk_module.os, "pwrite", _failing_after(1, errno.ENOSPC))
        with pytest.raises(StorageFullError):
            file.append(b"never seen")
    assert (tmp_path / "a").read_bytes() == b"kept"
    assert file.append(b"!") == 4


def test_an_input_output_error_is_a_failed_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk(str(tmp_path)).open("a")
    monkeypatch.setattr(disk_module.os, "pwrite", _failing_after(0, errno.EIO))
    with pytest.raises(StorageFailedError, match="write a"):
        file.append(b"x")

    def fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk_module.os, "fsync", fsync)
    with pytest.raises(StorageFailedError, match="flush a"):
        file.flush()


def test_the_names_of_a_new_root_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, flushed = os.fsync, set[int]()

    def fsync(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(disk_module.os, "fsync", fsync)
    OsDisk(str(tmp_path / "data" / "node-1"))
    assert flushed == {tmp_path.stat().st_ino, (tmp_path / "data").stat().st_ino}
    flushed.clear()
    OsDisk(str(tmp_path / "data" / "node-1"))
    assert not flushed, "nothing was made"


def test_out_of_descriptors_it_lives_with_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk(str(tmp_path), max_open_files=100)
    files = [disk.open(f"f{number}") for number in range(8)]
    real, failed = os.open, [False]

    def limited(path: str, flags: int, mode: int = 0o777) -> int:
        if not failed[0]:
            failed[0] = True
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(disk_module.os, "open", limited)
    disk.open("one more").append(b"x")
    assert disk.max_open_files == 4
    for file in files:
        file.append(b"x")
    assert disk.open_files <= 5


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit that a process sets itself")
@pytest.mark.parametrize(
    "work",
    [
        lambda disk: disk.replace_file("small", b"new"),
        lambda disk: disk.read_file("small"),
        lambda disk: disk.list_directory("inner"),
        lambda disk: disk.flush_directory("inner"),
        lambda disk: disk.remove_tree("inner"),
    ],
    ids=["replace", "read", "list", "flush", "remove"],
)
def test_out_of_descriptors_what_needs_one_for_a_moment_gets_it_from_an_idle_file(
    tmp_path: Path, work: Callable[[OsDisk], object]
) -> None:
    import resource

    disk = OsDisk(str(tmp_path), max_open_files=1_000)
    disk.replace_file("small", b"old")
    disk.make_directory("inner/most")
    files = [disk.open(f"f{number}") for number in range(8)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        work(disk)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert disk.open_files <= 4
    for file in files:
        file.append(b"x")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit that a process sets itself")
@pytest.mark.parametrize("open_files", [0, 1])
def test_out_of_descriptors_it_gives_up_none_where_that_would_not_help(tmp_path: Path, open_files: int) -> None:
    import resource

    disk = OsDisk(str(tmp_path), max_open_files=1_000)
    disk.replace_file("small", b"old")
    files = [disk.open(f"f{number}") for number in range(open_files)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(StorageFailedError, match="read small"):
            disk.read_file("small")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files += [disk.open(f"g{number}") for number in range(8)]
    for file in files:
        file.append(b"x")
    assert disk.open_files == len(files)


def test_the_lock_file_goes_with_its_lock(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path))
    release = disk.lock(".lock")
    with pytest.raises(BlockingIOError, match="in use"):
        disk.lock(".lock")
    release()
    assert os.listdir(tmp_path) == []
    disk.lock(".lock")()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder releases it between our open and our lock: the next holder will not open the file that we opened."""
    disk = OsDisk(str(tmp_path))
    first: list[Callable[[], None]] = [disk.lock(".lock")]
    real = os.open

    def opened_before_the_release(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real(path, flags, mode)
        if first:
            first.pop()()
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(disk_module.os, "open", opened_before_the_release)
        release = disk.lock(".lock")
    with pytest.raises(BlockingIOError):
        disk.lock(".lock")
    release()


def test_a_read_that_would_wait_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk(str(tmp_path))
    file = disk.open("a")
    file.append(b"0123456789")
    if not disk.has_nowait:
        pytest.skip("this system has no reads that refuse to wait")

    def blocked(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(disk_module.os, "preadv", blocked)
        assert file.read_cached(0, 10) is None
        patch.setattr(disk_module.os, "preadv", lambda *arguments: 4)
        assert file.read_cached(0, 10) is None
    # a worker does the next read-ahead, so the loop waits for the worker's data; appended data is available
    assert file.read_cached(2, 100) is None
    file.append(b"abc")
    assert file.read_cached(10, 3) == b"abc"
    assert file.read(2, 100) == b"23456789abc"
    assert file.read_cached(2, 100) == b"23456789abc"
    assert file.read_cached(0, 10) is None


def test_where_the_file_system_has_no_such_reads_it_reads_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk(str(tmp_path))
    file = disk.open("a")
    file.append(b"0123456789")

    def unsupported(*arguments: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(disk_module.os, "preadv", unsupported)
    assert file.read_cached(0, 4) == b"0123"
    assert not disk.has_nowait
