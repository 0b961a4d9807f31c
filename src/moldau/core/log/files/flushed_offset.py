"""How far the metadata log is on the disk, noted behind each of its flushes.

A crash tears only what was not flushed yet. So a start that knows how far the flushes had come can distinguish a torn
tail, which it cuts, from damage, which it refuses. Topics and partitions hang on this log, so a note of last minute, as
the checkpoint of the other logs is, would be too old. An fsync of its own would double the time of every change.

The note is therefore written behind the fsync of the log, into the page cache only. A crash of the process keeps it. A
crash of the machine leaves this note or an older one: too small, never too large. It may tear the write, so there are
two places, written alternately, each with a checksum; the larger valid one counts. Neither is Kafka's: Apache Kafka
leaves the file alone, and what it appends lies behind the note. A clean stop writes both and flushes them before it
leaves its mark: the next start appends while that mark is still there, and the note says what lies behind the mark.
"""

from __future__ import annotations

import zlib

from moldau.errors import StorageFullError
from moldau.ports import Disk, File

FLUSHED_OFFSET = "flushed-offset"
_LINE_BYTES = 30


class FlushedOffset:
    """The note in the file `path`; one writer at a time."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._writes = 0
        self._is_closed = False

    def read(self) -> int:
        """Everything below was on the disk; 0 if nobody knows. Waits for the disk."""
        try:
            data = self._disk.read_file(self._path)
        except FileNotFoundError:
            return 0
        return max((_decode(data[place : place + _LINE_BYTES]) for place in (0, _LINE_BYTES)), default=0)

    def write(self, offset: int) -> None:
        """Only after a flush up to `offset` has returned. Raises StorageFailedError; without room the old one stays."""
        if self._is_closed:
            return
        if self._file is None:
            self._file = self._disk.open(self._path)
        self._writes += 1
        try:
            self._file.write_at(self._writes % 2 * _LINE_BYTES, _encode(offset))
        except StorageFullError:
            return

    def save(self, offset: int) -> None:
        """As `write`, in both places and on the disk when it returns. Waits."""
        self.write(offset)
        self.write(offset)
        if self._file is not None:
            self._file.flush()
        self._disk.flush_directory(self._path.rpartition("/")[0])

    def close(self) -> None:
        """Closes the file; the offset that was noted last stays in it. A flush in another thread notes nothing more:
        where the log was closed under it, nothing was flushed."""
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None


def _encode(offset: int) -> bytes:
    digits = b"%020d" % offset
    return b"%s %08x\n" % (digits, zlib.crc32(digits))


def _decode(line: bytes) -> int:
    digits = line[:20]
    return int(digits) if digits.isdigit() and line == _encode(int(digits)) else 0
