"""A file for appended lines that is renamed with a number when it is full: NAME, NAME.1 (newer), NAME.2, and so on, up
to a maximum number."""

from __future__ import annotations

import os
import stat


class RotatedFile:
    """Used by one thread at a time; every call may wait for the disk, and raises OSError."""

    def __init__(self, path: str, max_bytes: int, max_files: int) -> None:
        """`max_files`: including the current one."""
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._file: int | None = None
        self._size = 0

    def append(self, lines: list[bytes]) -> None:
        """Writes all lines, each of them whole in one file. After an error some of them may be written, and the next
        call starts on a new line."""
        self._opened()
        at = 0
        while at < len(lines):
            file = self._opened()
            end, size = at, self._size
            while end < len(lines) and (not size or size + len(lines[end]) <= self._max_bytes):
                size += len(lines[end])
                end += 1
            if end > at:
                self._write(file, b"".join(lines[at:end]))
                at = end
            else:
                self._put_aside()

    def close(self) -> None:
        """The next `append` opens the file again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _opened(self) -> int:
        if self._file is None:
            # readable by its owner only: it names users and addresses
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                os.close(file)
                raise OSError(f"{self._path} is no regular file")
            self._file, self._size = file, found.st_size
            if self._size and os.pread(file, 1, self._size - 1) != b"\n":
                self._write(file, b"\n")
        return self._file

    def _write(self, file: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                count = os.write(file, view)
                self._size += count
                view = view[count:]
        except OSError:
            self.close()
            raise

    def _put_aside(self) -> None:
        self.close()
        if self._max_files == 1:
            os.remove(self._path)
            return
        for number in range(self._max_files - 1, 1, -1):
            if os.path.exists(f"{self._path}.{number - 1}"):
                os.replace(f"{self._path}.{number - 1}", f"{self._path}.{number}")
        os.replace(self._path, f"{self._path}.1")
