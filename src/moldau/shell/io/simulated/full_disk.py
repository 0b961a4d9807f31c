"""A Disk port that a test can fill, in front of a real directory. (MemoryDisk has separate faults.)"""

from __future__ import annotations

from collections.abc import Callable

from moldau.errors import StorageFullError
from moldau.ports import Disk, File
from moldau.shell.io.forwarded_reads import ForwardedReads
from moldau.types import Buffer


class FillableDisk(ForwardedReads):
    """Forwards everything to `disk`, but nothing grows while it is full."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self._on_refused: Callable[[str], None] | None = None

    def fill(self, on_refused: Callable[[str], None] | None) -> None:
        """`on_refused` gets the path of each write without space, in any thread; None: space is free again."""
        self._on_refused = on_refused

    def check(self, path: str) -> None:
        """Raises StorageFullError while the disk is full."""
        if (on_refused := self._on_refused) is not None:
            on_refused(path)
            raise StorageFullError(f"write {path}: no space left (a fault of the test)")

    def open(self, path: str, *, create: bool = True) -> _FillableFile:
        if create and self._on_refused is not None and not self.disk.exists(path):
            self.check(path)
        return _FillableFile(self, self.disk.open(path, create=create))

    def make_directory(self, path: str) -> None:
        self.disk.make_directory(path)

    def remove(self, path: str) -> None:
        self.disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.disk.remove_tree(path)

    def rename(self, old: str, new: str) -> None:
        self.disk.rename(old, new)

    def flush_directory(self, path: str) -> None:
        self.disk.flush_directory(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self.check(path)
        self.disk.replace_file(path, data)

    def lock(self, path: str) -> Callable[[], None]:
        return self.disk.lock(path)


class _FillableFile:
    __slots__ = ("_disk", "_file", "path")

    def __init__(self, disk: FillableDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path

    def size(self) -> int:
        return self._file.size()

    def append(self, data: Buffer) -> int:
        self._disk.check(self.path)
        return self._file.append(data)

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.check(self.path)
        self._file.write_at(position, data)

    def read(self, position: int, length: int) -> bytes:
        return self._file.read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        return self._file.read_cached(position, length)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
