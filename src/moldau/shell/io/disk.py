"""The Disk port on the file system.

Few descriptors. A node with 20,000 partitions has more files than descriptors, so an `OsFile` keeps its descriptor only
while it is among the recently used ones (second-chance order over all files of the disk) and reopens it when needed.
Worker threads read and fsync the same files that the loop appends to, so

* each file has a lock, held for the short system calls (`pwrite`, `ftruncate`, a read that cannot wait), and
* the long ones (`fsync`, a read that may wait) only pin the descriptor: it is not evicted while pinned, and a `close`
  in the meantime takes effect at the last unpin.

Close a file before it is renamed: its handle knows the old name. `OsDisk` is the only user of its
root; two handles on one path would not see each other's size.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from moldau.errors import MoldauError, StorageFailedError, StorageFullError
from moldau.ports import FLUSH_FAILED_MARK, Disk
from moldau.shell.io.allocator import unfilled
from moldau.shell.io.residency import Residency
from moldau.types import Buffer

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

T = TypeVar("T")

_FULL = (errno.ENOSPC, errno.EDQUOT)
_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOWAIT_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

DEFAULT_MAX_OPEN_FILES = 4096
UNFILLED_FROM_BYTES = 128 << 10


def _is_same_file(descriptor: int, absolute: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(absolute))
    except FileNotFoundError:
        return False


def _translated(error: OSError, doing: str, path: str) -> MoldauError | OSError:
    """Translates an operating system error to the Disk port's error; a missing file stays FileNotFoundError."""
    if isinstance(error, FileNotFoundError):
        return error
    reason = f"{doing} {path}: {os.strerror(error.errno) if error.errno else error}"
    if error.errno in _FULL:
        return StorageFullError(reason)
    return StorageFailedError(reason)


def _default_max_open_files() -> int:
    """Half of the process's descriptor limit (the other half is for sockets), at most DEFAULT_MAX_OPEN_FILES."""
    try:
        import resource
    except ImportError:  # Windows
        return DEFAULT_MAX_OPEN_FILES
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return DEFAULT_MAX_OPEN_FILES
    return max(16, min(DEFAULT_MAX_OPEN_FILES, soft_limit // 2))


def _fsync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        # fsync on macOS leaves the data in the drive's own cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def make_durable_directory(path: str) -> None:
    """Makes `path` and its missing parents, with durable names: data flushed below a name that is not durable is lost
    with it. Raises OSError."""
    missing: list[str] = []
    above = os.path.abspath(path)
    while not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for made in missing:
        with contextlib.suppress(PermissionError):  # a process may create names in a directory that it may not read
            _flush_names(os.path.dirname(made))


def _flush_names(absolute: str) -> None:
    if sys.platform == "win32":  # a directory cannot be opened there; NTFS journals names itself
        return
    descriptor = os.open(absolute, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OsFile:
    """A file of an OsDisk; the head of this module says which threads may call which methods."""

    __slots__ = (
        "_absolute_path",
        "_descriptor",
        "_disk",
        "_is_closed",
        "_lock",
        "_pins",
        "_residency",
        "_size",
        "path",
        "was_used",
    )

    def __init__(self, disk: OsDisk, path: str, absolute_path: str, *, create: bool) -> None:
        self.path = path
        self.was_used = True
        self._disk = disk
        self._absolute_path = absolute_path
        self._lock = threading.Lock()
        self._pins = 0
        self._is_closed = False
        self._descriptor = -1
        self._residency: Residency | None = None
        with self._lock:
            descriptor = self._open_descriptor(os.O_CREAT if create else 0)
            self._size = os.fstat(descriptor).st_size

    def size(self) -> int:
        return self._size

    def append(self, data: Buffer) -> int:
        with self._lock:
            descriptor = self._descriptor
            if descriptor < 0:
                descriptor = self._open_descriptor(0)
            self.was_used = True
            position = self._size
            try:
                written = os.pwrite(descriptor, data, position)
                if written != len(data):
                    self._write_rest(descriptor, position, data, written)
            except OSError as error:
                raise self._cut_back(descriptor, error, position) from error
            self._size = position + len(data)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        with self._lock:
            descriptor = self._open_descriptor(0) if self._descriptor < 0 else self._descriptor
            self.was_used = True
            try:
                self._write_rest(descriptor, position, data, 0)
            except OSError as error:
                raise self._cut_back(descriptor, error, self._size) from error
            self._size = max(self._size, position + len(data))

    def read(self, position: int, length: int) -> bytes:
        def read_all(descriptor: int) -> bytes:
            data = os.pread(descriptor, length, position)
            if len(data) == length or not data:
                return data
            parts = [data]
            have = len(data)
            while have < length:
                data = os.pread(descriptor, length - have, position + have)
                if not data:
                    break
                parts.append(data)
                have += len(data)
            return b"".join(parts)

        data = self._run_pinned("read", read_all)
        if self._residency is not None:
            with self._lock:
                self._residency.was_read(position, position + length)
        return data

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        if not self._disk.has_nowait:
            return self.read(position, length)
        length = min(length, self._size - position)
        if length <= 0:
            return b""
        with self._lock:
            residency = self._residency
            if residency is not None and not residency.is_readable(position, position + length):
                return None
            buffer = unfilled(length) if length >= UNFILLED_FROM_BYTES else bytearray(length)
            descriptor = self._open_descriptor(0) if self._descriptor < 0 else self._descriptor
            self.was_used = True
            try:
                count = os.preadv(descriptor, [buffer], position, _NOWAIT)
            except BlockingIOError:
                count = 0
            except OSError as error:
                if error.errno not in _NOWAIT_UNSUPPORTED:
                    raise _translated(error, "read", self.path) from error
                self._disk.has_nowait = False
                count = -1
            if count == length:
                return buffer
            if count >= 0:
                self._missed(position, position + length)
                return None
        return self.read(position, length)

    def _missed(self, position: int, end: int) -> None:
        if self._residency is None:
            self._residency = Residency()
        self._residency.missed(position, end, self._size)

    def truncate(self, size: int) -> None:
        with self._lock:
            descriptor = self._open_descriptor(0) if self._descriptor < 0 else self._descriptor
            try:
                os.ftruncate(descriptor, size)
            except OSError as error:
                raise _translated(error, "truncate", self.path) from error
            self._size = size

    def flush(self) -> None:
        try:
            self._run_pinned("flush", _fsync)
        except (StorageFailedError, StorageFullError) as error:
            self._disk.mark_failed_flush(self.path)
            # also without space: the pages now count as clean, and flushing them again would write nothing
            raise StorageFailedError(str(error)) from error

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._pins == 0:
                self._close_descriptor()

    def evict(self) -> bool:
        """Closes the descriptor if it is not in use; only the disk calls this."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._pins:
                return False
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
            return True
        finally:
            self._lock.release()

    def _run_pinned(self, doing: str, work: Callable[[int], T]) -> T:
        with self._lock:
            descriptor = self._open_descriptor(0) if self._descriptor < 0 else self._descriptor
            self._pins += 1
        try:
            return work(descriptor)
        except OSError as error:
            raise _translated(error, doing, self.path) from error
        finally:
            with self._lock:
                self._pins -= 1
                if self._is_closed and self._pins == 0:
                    self._close_descriptor()

    def _open_descriptor(self, flags: int) -> int:
        """Called with the lock held. Raises ValueError after `close`, as Python's own files do."""
        if self._is_closed:
            raise ValueError(f"closed file: {self.path}")
        flags |= os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
        try:
            self._descriptor = self._disk.with_descriptor(lambda: os.open(self._absolute_path, flags, 0o644))
        except OSError as error:
            raise _translated(error, "open", self.path) from error
        self._disk.admit(self)
        return self._descriptor

    def _close_descriptor(self) -> None:
        self._disk.forget(self)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @staticmethod
    def _write_rest(descriptor: int, position: int, data: Buffer, written: int) -> None:
        """A short write precedes ENOSPC, or happens at 2 GiB: the next call shows which."""
        view = memoryview(data)
        while written < len(view):
            written += os.pwrite(descriptor, view[written:], position + written)

    def _cut_back(self, descriptor: int, error: OSError, size: int) -> MoldauError | OSError:
        failure = _translated(error, "write", self.path)
        if isinstance(failure, StorageFullError):
            try:
                os.ftruncate(descriptor, size)
            except OSError as second_error:
                return StorageFailedError(f"cut back {self.path}: {second_error}")
        return failure


@runtime_checkable
class HasSpace(Protocol):
    """A disk that knows how large its volume is."""

    def space(self) -> tuple[int, int]:
        """Total and free bytes of the file system."""


def space_of(disk: Disk) -> tuple[int, int]:
    """(total, usable) bytes of the volume under `disk`; (-1, -1) if unknown. Waits."""
    return disk.space() if isinstance(disk, HasSpace) else (-1, -1)


class OsDisk:
    """The directory `root` and everything under it. `root` is made if absent."""

    def __init__(self, root: str, *, max_open_files: int | None = None) -> None:
        self.root = os.path.abspath(root)
        self.has_nowait = bool(_NOWAIT)
        self.max_open_files = _default_max_open_files() if max_open_files is None else max_open_files
        self._open_files: dict[OsFile, None] = {}
        self._lock = threading.Lock()
        try:
            make_durable_directory(self.root)
        except FileExistsError as error:
            raise StorageFailedError(f"{self.root} is a file, not a directory") from error
        except OSError as error:
            raise _translated(error, "make", self.root) from error

    @property
    def open_files(self) -> int:
        """The number of descriptors in use."""
        return len(self._open_files)

    def space(self) -> tuple[int, int]:
        """(total, usable by us) bytes of the volume; (-1, -1) if it does not answer."""
        try:
            usage = shutil.disk_usage(self.root)
        except OSError:
            return -1, -1
        return usage.total, usage.free

    @property
    def directory(self) -> str:
        return self.root

    def open(self, path: str, *, create: bool = True) -> OsFile:
        return OsFile(self, path, self._absolute(path), create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._absolute(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._absolute(path))

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(self.with_descriptor(lambda: os.listdir(self._absolute(path))))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _translated(error, "list", path) from error

    def make_directory(self, path: str) -> None:
        absolute = self._absolute(path)
        try:
            try:
                os.mkdir(absolute)  # usually the parent exists: no need to check first
            except (FileExistsError, FileNotFoundError):
                os.makedirs(absolute, exist_ok=True)
        except OSError as error:
            raise _translated(error, "make", path) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._absolute(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _translated(error, "remove", path) from error

    def remove_tree(self, path: str) -> None:
        try:
            self.with_descriptor(lambda: shutil.rmtree(self._absolute(path)))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _translated(error, "remove", path) from error

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(self._absolute(old), self._absolute(new))
        except OSError as error:
            raise _translated(error, "rename", old) from error

    def flush_directory(self, path: str) -> None:
        try:
            self.with_descriptor(lambda: _flush_names(self._absolute(path)))
        except OSError as error:
            raise _translated(error, "flush", path) from error

    def mark_failed_flush(self, path: str) -> None:
        """See File.flush. Not flushed, because the mark must live exactly as long as the page cache."""
        try:
            with open(os.path.join(self.root, FLUSH_FAILED_MARK), "w", encoding="utf-8") as mark:
                mark.write(path)
        except OSError:
            return  # the flush has failed, and its error is more useful

    def read_file(self, path: str) -> bytes:
        try:
            with self.with_descriptor(lambda: open(self._absolute(path), "rb")) as file:
                return file.read()
        except OSError as error:
            raise _translated(error, "read", path) from error

    def replace_file(self, path: str, data: bytes) -> None:
        absolute = self._absolute(path)
        temporary = absolute + ".tmp"
        try:
            with self.with_descriptor(lambda: open(temporary, "wb")) as file:
                file.write(data)
                file.flush()
                _fsync(file.fileno())
            os.replace(temporary, absolute)
        except OSError as error:
            failure = _translated(error, "replace", path)
            if isinstance(failure, StorageFullError):
                self.remove(path + ".tmp")
            raise failure from error
        self.flush_directory(os.path.dirname(path))

    def lock(self, path: str) -> Callable[[], None]:
        """See ports.Disk. Takes both kinds of lock: Java's FileChannel takes `lockf`, and `flock` also separates two
        nodes of one process. The file is removed with the lock, as Apache Kafka's is."""
        absolute = self._absolute(path)
        while True:
            descriptor = self._try_lock(path)
            # the last holder may have removed the file between our open and our lock: our lock would then be on an
            # invisible file
            if _is_same_file(descriptor, absolute):
                break
            os.close(descriptor)

        def release() -> None:
            with contextlib.suppress(OSError):
                os.unlink(absolute)
            os.close(descriptor)

        return release

    def _try_lock(self, path: str) -> int:
        """A descriptor of the file at `path`, locked. Raises as `lock`."""
        try:
            descriptor = os.open(self._absolute(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _translated(error, "open", path) from error
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise BlockingIOError(f"{self.root} is in use by another broker") from error
        return descriptor

    def admit(self, file: OsFile) -> None:
        """Counts a newly opened descriptor and closes the one that was idle longest."""
        with self._lock:
            self._open_files[file] = None
            self._evict_to(self.max_open_files, keep=file)

    def forget(self, file: OsFile) -> None:
        """The file was closed: its descriptor no longer counts."""
        with self._lock:
            self._open_files.pop(file, None)

    def with_descriptor(self, work: Callable[[], T]) -> T:
        """Does `work`, which opens something; if the process has no descriptor left, retries once with fewer files
        open. Raises OSError."""
        try:
            return work()
        except OSError as error:
            if error.errno not in _TOO_MANY_OPEN:
                raise
        self._evict_half()
        return work()

    def _evict_half(self) -> None:
        """The process ran out of descriptors: allows fewer from now on, but not zero. A disk without open files did not
        take the descriptors, and would reopen a file for each access as long as the process lives."""
        with self._lock:
            limit = len(self._open_files) // 2
            if limit:
                self.max_open_files = limit
                self._evict_to(limit, keep=None)

    def _evict_to(self, limit: int, *, keep: OsFile | None) -> None:
        tries = 2 * len(self._open_files)
        while len(self._open_files) > limit and tries > 0:
            tries -= 1
            victim = next(iter(self._open_files))
            del self._open_files[victim]
            if victim is keep or victim.was_used or not victim.evict():
                victim.was_used = False
                self._open_files[victim] = None

    def _absolute(self, path: str) -> str:
        """`path` under the root; ValueError for a path that would leave it."""
        if path:
            for part in path.split("/"):
                if part in ("", ".", "..") or "\0" in part or (os.sep != "/" and os.sep in part):
                    raise ValueError(f"not a path under the log directory: {path!r}")
        return os.path.join(self.root, path)
