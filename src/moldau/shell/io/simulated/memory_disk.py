"""A disk in memory: the Disk port for tests, for simulation, and for clusters without storage.

The model of crashes:

* *Content.* `data` is the content in the page cache. Bytes below `durable_size` are on the disk as `data` shows them,
  except for the pages in `overwritten`, which still hold their old bytes there. `flush` makes all of `data` durable.
  A crash of the machine leaves each unflushed page old or new, may tear one page at any byte, and may leave a file
  whose size grew at any size in between; a page that was allocated and never written reads as zeros.
* *Names.* Creating, renaming and removing are durable after `flush_directory` of the directory that they changed. A
  crash of the machine keeps some prefix of the unflushed changes of each directory, as a journal does.
* *A crash of the process* loses nothing: the page cache belongs to the system. Writes through old handles are lost.
* *A failed flush* makes the dirty pages clean, as Linux does: readers still see them, in a later process too, but
  flushing again succeeds without writing them. Only a new write of a page makes that page dirty again.

An append costs one `bytearray` extension: bytes that were never durable need no tracking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from moldau.errors import StorageFailedError, StorageFullError
from moldau.ports import FLUSH_FAILED_MARK, Random
from moldau.types import Buffer

PAGE_SIZE = 4096

Operation = Literal["append", "write", "read", "read_cached", "truncate", "flush", "open", "rename", "remove"]


class Fault(msgspec.Struct):
    """Makes the next `times` operations of this kind, on paths that contain `path_contains`, fail.

    `error`: "io" gives StorageFailedError, "full" StorageFullError, "cold" makes `read_cached` say that it would wait.
    """

    operation: Operation
    error: Literal["io", "full", "cold"] = "io"
    path_contains: str = ""
    times: int = 1_000_000_000


class _Content:
    """The content of one file, shared by all its handles and names."""

    __slots__ = ("data", "durable_size", "lost", "overwritten")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable_size = 0
        self.overwritten: dict[int, bytes] = {}
        self.lost: dict[int, bytes] = {}
        """Pages that a failed flush marked clean, with their bytes on the disk."""

    def keep_old_pages(self, start: int, end: int) -> None:
        """Call it before bytes [start, end) change: stores their bytes on the disk."""
        for page in range(start // PAGE_SIZE, (min(end, self.durable_size) + PAGE_SIZE - 1) // PAGE_SIZE):
            if page not in self.overwritten:
                begin = page * PAGE_SIZE
                self.overwritten[page] = bytes(self.data[begin : min(begin + PAGE_SIZE, self.durable_size)])

    def dirty(self, start: int, end: int) -> None:
        """Bytes [start, end) were written: the next flush writes all of each of their pages."""
        if self.lost:
            for page in range(start // PAGE_SIZE, (end + PAGE_SIZE - 1) // PAGE_SIZE):
                self.lost.pop(page, None)

    def flush(self) -> None:
        self.durable_size = len(self.data)
        self.overwritten.clear()
        for page, old in self.lost.items():
            # unwritten bytes read as zeros
            size = max(0, min(PAGE_SIZE, self.durable_size - page * PAGE_SIZE))
            self.lost[page] = self.overwritten[page] = old[:size].ljust(size, b"\0")

    def flush_failed(self) -> None:
        grown = range(self.durable_size // PAGE_SIZE, (len(self.data) + PAGE_SIZE - 1) // PAGE_SIZE)
        for page in (*self.overwritten, *(grown if len(self.data) > self.durable_size else ())):
            if page not in self.lost:
                begin = page * PAGE_SIZE
                old = self.data[begin : min(begin + PAGE_SIZE, self.durable_size)]
                self.lost[page] = self.overwritten.get(page, bytes(old))

    def durable_bytes(self) -> bytearray:
        """The bytes on the disk itself."""
        durable = self.data[: self.durable_size]
        durable.extend(bytes(self.durable_size - len(durable)))
        for page, old in sorted(self.overwritten.items()):
            durable[page * PAGE_SIZE : page * PAGE_SIZE + len(old)] = old
        return durable

    def after_machine_crash(self, random: Random) -> bytearray:
        """One of the possible contents after a crash of the machine."""
        old, new = self.durable_bytes(), self.data
        if old == new:
            return old
        size = _between(random, len(old), len(new))
        result = old[:size]
        result.extend(bytes(size - len(result)))
        torn = False
        for begin in range(0, size, PAGE_SIZE):
            end = min(begin + PAGE_SIZE, size)
            old_page, new_page = _page(old, begin, end), _page(new, begin, end)
            if begin // PAGE_SIZE in self.lost or old_page == new_page or random.random_below(2):
                continue
            if not torn and random.random_below(4) == 0:
                torn = True
                cut = random.random_below(end - begin)
                new_page = new_page[:cut] + old_page[cut:]
            result[begin:end] = new_page
        return result


def _between(random: Random, old_size: int, new_size: int) -> int:
    """The size after a crash: the old one, the new one or, for a file that grew, any in between."""
    choice = random.random_below(3)
    if choice == 0:
        return old_size
    if choice == 1 or new_size <= old_size:
        return new_size
    return old_size + random.random_below(new_size - old_size + 1)


def _page(data: bytearray, begin: int, end: int) -> bytearray:
    page = data[begin:end]
    page.extend(bytes(end - begin - len(page)))
    return page


class _Directory:
    """The names of one directory: the visible ones, the durable ones, and the changes in between, oldest first."""

    __slots__ = ("durable_names", "names", "unflushed")

    def __init__(self) -> None:
        self.names: dict[str, _Content | _Directory] = {}
        self.durable_names: dict[str, _Content | _Directory] = {}
        self.unflushed: list[_Change] = []

    def set(self, name: str, entry: _Content | _Directory | None) -> None:
        self.change(((name, entry),))

    def change(self, change: _Change) -> None:
        """Applies all of `change` as one step that a crash keeps or loses as a whole."""
        self.unflushed.append(change)
        _apply(self.names, change)

    def flush(self) -> None:
        self.durable_names = dict(self.names)
        self.unflushed.clear()


_Change = tuple[tuple[str, "_Content | _Directory | None"], ...]


def _apply(names: dict[str, _Content | _Directory], change: _Change) -> None:
    for name, entry in change:
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


class MemoryFile:
    """A handle of a MemoryDisk."""

    __slots__ = ("_content", "_disk", "_is_closed", "path")

    def __init__(self, disk: MemoryDisk, path: str, content: _Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._is_closed = False

    def size(self) -> int:
        return len(self._content.data)

    def append(self, data: Buffer) -> int:
        self._check("append", len(data))
        content = self._content.data
        position = len(content)
        content += data
        self._content.dirty(position, len(content))
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        content = self._content
        end = position + len(data)
        self._check("write", max(0, end - len(content.data)))
        content.keep_old_pages(position, end)
        if position > len(content.data):
            content.data.extend(bytes(position - len(content.data)))
        content.data[position:end] = data
        content.dirty(position, end)

    def read(self, position: int, length: int) -> bytes:
        self._check("read", 0)
        return self._slice(position, length)

    def read_cached(self, position: int, length: int) -> bytes | None:
        self._check("read_cached", 0)
        if self._disk.faults and self._disk.takes_fault("read_cached", self.path, "cold"):
            return None
        return self._slice(position, length)

    def _slice(self, position: int, length: int) -> bytes:
        with memoryview(self._content.data) as view:
            return bytes(view[position : position + length])

    def truncate(self, size: int) -> None:
        content = self._content
        self._check("truncate", max(0, size - len(content.data)))
        if size < len(content.data):
            content.keep_old_pages(size, len(content.data))
            del content.data[size:]
        else:
            content.data.extend(bytes(size - len(content.data)))

    def flush(self) -> None:
        try:
            self._check("flush", 0)
        except (StorageFailedError, StorageFullError) as error:
            self._content.flush_failed()
            self._disk.mark_failed_flush(self.path)
            raise StorageFailedError(str(error)) from error
        self._content.flush()

    def close(self) -> None:
        self._is_closed = True

    def _check(self, operation: Operation, growth: int) -> None:
        if self._is_closed:
            raise ValueError(f"closed file: {self.path}")
        disk = self._disk
        if disk.faults:
            disk.raise_fault(operation, self.path)
        if growth and disk.capacity_bytes is not None:
            disk.reserve(growth, self.path)


class MemoryDisk:
    """See the head of this module. `capacity_bytes` bounds the total size of all files (None: no bound)."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.faults: list[Fault] = []
        self._root = _Directory()

    # --- the Disk port ---

    @property
    def directory(self) -> None:
        return None

    def open(self, path: str, *, create: bool = True) -> MemoryFile:
        if self.faults:
            self.raise_fault("open", path)
        directory, name = self._parent(path)
        content = directory.names.get(name)
        if content is None:
            if not create:
                raise FileNotFoundError(path)
            content = _Content()
            directory.set(name, content)
        if not isinstance(content, _Content):
            raise StorageFailedError(f"open {path}: is a directory")
        return MemoryFile(self, path, content)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def list_directory(self, path: str) -> list[str]:
        directory = self._find(path)
        return sorted(directory.names) if isinstance(directory, _Directory) else []

    def make_directory(self, path: str) -> None:
        directory = self._root
        for part in _parts(path):
            child = directory.names.get(part)
            if child is None:
                child = _Directory()
                directory.set(part, child)
            if not isinstance(child, _Directory):
                raise StorageFailedError(f"make {path}: a file is in the way")
            directory = child

    def remove(self, path: str) -> None:
        if self.faults:
            self.raise_fault("remove", path)
        if isinstance(self._find(path), _Content):
            directory, name = self._parent(path)
            directory.set(name, None)

    def remove_tree(self, path: str) -> None:
        if self.faults:
            self.raise_fault("remove", path)
        if self._find(path) is not None:
            directory, name = self._parent(path)
            directory.set(name, None)

    def rename(self, old: str, new: str) -> None:
        if self.faults:
            self.raise_fault("rename", old)
        entry = self._find(old)
        if entry is None:
            raise FileNotFoundError(old)
        old_directory, old_name = self._parent(old)
        new_directory, new_name = self._parent(new)
        if old_directory is new_directory:
            new_directory.change(((new_name, entry), (old_name, None)))
        else:
            new_directory.set(new_name, entry)
            old_directory.set(old_name, None)

    def flush_directory(self, path: str) -> None:
        if self.faults:
            self.raise_fault("flush", path)
        directory = self._find(path)
        if not isinstance(directory, _Directory):
            raise FileNotFoundError(path)
        directory.flush()

    def read_file(self, path: str) -> bytes:
        if self.faults:
            self.raise_fault("read", path)
        content = self._find(path)
        if not isinstance(content, _Content):
            raise FileNotFoundError(path)
        return bytes(content.data)

    def replace_file(self, path: str, data: bytes) -> None:
        if self.faults:
            self.raise_fault("write", path)
            self.raise_fault("flush", path)
        if self.capacity_bytes is not None:
            self.reserve(len(data), path)
        directory, name = self._parent(path)
        content = _Content()
        content.data += data
        content.flush()
        directory.set(name, content)
        directory.flush()

    def mark_failed_flush(self, path: str) -> None:
        """See File.flush. Only in the page cache."""
        mark = _Content()
        mark.data += path.encode()
        self._root.set(FLUSH_FAILED_MARK, mark)

    # --- faults ---

    def fail(self, fault: Fault) -> None:
        """Adds a fault; `heal` removes them all."""
        self.faults.append(fault)

    def heal(self) -> None:
        """Ends all faults."""
        self.faults.clear()

    def takes_fault(self, operation: Operation, path: str, error: str) -> bool:
        """Uses up one occurrence of such a fault, if one is set."""
        for fault in self.faults:
            if fault.operation == operation and fault.error == error and fault.path_contains in path:
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                return True
        return False

    def raise_fault(self, operation: Operation, path: str) -> None:
        """Raises StorageFailedError or StorageFullError if a fault is set for this operation on this path."""
        if self.takes_fault(operation, path, "io"):
            raise StorageFailedError(f"{operation} {path}: injected input/output error")
        if self.takes_fault(operation, path, "full"):
            raise StorageFullError(f"{operation} {path}: injected: no space left")

    def reserve(self, growth: int, path: str) -> None:
        """Raises StorageFullError if `growth` more bytes would pass the capacity."""
        if self.capacity_bytes is not None and self.used_bytes() + growth > self.capacity_bytes:
            raise StorageFullError(f"write {path}: no space left")

    def used_bytes(self) -> int:
        """The bytes of all files."""
        return _used_bytes(self._root)

    def lock(self, path: str) -> Callable[[], None]:
        """Makes the file and excludes nobody: only this process sees this disk, and a crash must release the lock."""
        self.open(path).close()
        return lambda: None

    # --- crashes ---

    def crash_process(self) -> None:
        """kill -9: the page cache stays, every open handle is disconnected."""

        def detach(old: _Content) -> _Content:
            new = _Content()
            new.data, new.durable_size, new.overwritten = old.data, old.durable_size, old.overwritten
            new.lost = old.lost
            old.data, old.overwritten, old.lost = bytearray(old.data), {}, {}
            return new

        seen: dict[_Content, _Content] = {}
        self._root = _copy_directory(self._root, lambda content: _once(seen, content, detach), {})

    def crash_machine(self, random: Random) -> None:
        """Power off: unflushed pages and names survive in one legal way that `random` chooses; handles are
        disconnected."""

        def survive(old: _Content) -> _Content:
            new = _Content()
            new.data = old.after_machine_crash(random)
            new.flush()
            return new

        seen: dict[_Content, _Content] = {}
        self._root = _survivor(self._root, random, lambda content: _once(seen, content, survive), {})

    # --- paths ---

    def _find(self, path: str) -> _Content | _Directory | None:
        entry: _Content | _Directory | None = self._root
        for part in _parts(path):
            if not isinstance(entry, _Directory):
                return None
            entry = entry.names.get(part)
        return entry

    def _parent(self, path: str) -> tuple[_Directory, str]:
        """The directory of `path`; FileNotFoundError if it does not exist, as on the real disk."""
        parent, _, name = path.rpartition("/")
        if not _parts(name):
            raise ValueError(f"not a path under the log directory: {path!r}")
        directory = self._find(parent)
        if not isinstance(directory, _Directory):
            raise FileNotFoundError(path)
        return directory, name


def _parts(path: str) -> list[str]:
    if not path:
        return []
    parts = path.split("/")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise ValueError(f"not a path under the log directory: {path!r}")
    return parts


def _once(seen: dict[_Content, _Content], content: _Content, make: Callable[[_Content], _Content]) -> _Content:
    """Copies a file with two names (the visible and the durable one) only once."""
    if content not in seen:
        seen[content] = make(content)
    return seen[content]


def _used_bytes(directory: _Directory) -> int:
    return sum(
        _used_bytes(entry) if isinstance(entry, _Directory) else len(entry.data) for entry in directory.names.values()
    )


def _copy_directory(
    old: _Directory, content_of: Callable[[_Content], _Content], copies: dict[_Directory, _Directory]
) -> _Directory:
    """The same names, durable names and unflushed changes over new contents."""
    if old in copies:
        return copies[old]
    new = copies[old] = _Directory()

    def copy(entry: _Content | _Directory) -> _Content | _Directory:
        if isinstance(entry, _Directory):
            return _copy_directory(entry, content_of, copies)
        return content_of(entry)

    new.names = {name: copy(entry) for name, entry in old.names.items()}
    new.durable_names = {name: copy(entry) for name, entry in old.durable_names.items()}
    new.unflushed = [
        tuple((name, None if entry is None else copy(entry)) for name, entry in change) for change in old.unflushed
    ]
    return new


def _survivor(
    old: _Directory, random: Random, content_of: Callable[[_Content], _Content], copies: dict[_Directory, _Directory]
) -> _Directory:
    """The durable names and a prefix of the unflushed changes, in name order, which makes a seed repeatable."""
    if old in copies:
        return copies[old]
    new = copies[old] = _Directory()
    names = dict(old.durable_names)
    kept = random.random_below(len(old.unflushed) + 1)
    for change in old.unflushed[:kept]:
        _apply(names, change)
    for name, entry in sorted(names.items()):
        if isinstance(entry, _Directory):
            new.names[name] = _survivor(entry, random, content_of, copies)
        else:
            new.names[name] = content_of(entry)
    new.flush()
    return new
