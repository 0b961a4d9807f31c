"""A disk that is read but never changed: shows what an operation would do to a directory."""

from __future__ import annotations

from collections.abc import Callable

from moldau.ports import File
from moldau.shell.io.forwarded_reads import ForwardedReads
from moldau.types import Buffer


class DryRunFile:
    """A file of a DryRunDisk: `size` follows the operations, the content does not change."""

    def __init__(self, path: str, file: File | None) -> None:
        self.path = path
        self._file = file
        self._size = file.size() if file is not None else 0

    def size(self) -> int:
        return self._size

    def append(self, data: Buffer) -> int:
        position = self._size
        self._size += len(data)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._size = max(self._size, position + len(data))

    def read(self, position: int, length: int) -> bytes:
        length = max(0, min(length, self._size - position))
        return self._file.read(position, length) if self._file is not None else b""

    def read_cached(self, position: int, length: int) -> bytes:
        return self.read(position, length)

    def truncate(self, size: int) -> None:
        self._size = size

    def flush(self) -> None:
        """Does nothing, because nothing was written."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class DryRunDisk(ForwardedReads):
    """The directory of `disk`, unchanged: created, renamed and removed names still look as before."""

    def open(self, path: str, *, create: bool = True) -> DryRunFile:
        if create and not self.disk.exists(path):
            return DryRunFile(path, None)
        return DryRunFile(path, self.disk.open(path, create=False))

    def make_directory(self, path: str) -> None:
        """Does nothing, as all methods below."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def flush_directory(self, path: str) -> None: ...

    def replace_file(self, path: str, data: bytes) -> None: ...

    def lock(self, path: str) -> Callable[[], None]:
        return lambda: None
