"""How far the metadata log is on the disk, recorded after each of its flushes.

A crash damages only unflushed bytes. So a start that knows the flushed offset can distinguish a torn tail, which it
cuts, from damage, which it reports. Topics and partitions depend on this log, so an offset that is a minute old, as in
the checkpoint of the other logs, would not do. Its own fsync would double the time of every change.

The offset is therefore written after the fsync of the log, into the page cache only. A crash of the process keeps it. A
crash of the machine leaves this offset or an older one: too small, never too large. The write may be torn, so two
places are written alternately, each with a checksum, and the larger valid one counts. This file is not Kafka's: Apache
Kafka ignores it, and appends after the recorded offset. A clean stop writes and flushes both places before its mark.
The next start appends while that mark still exists, and the recorded offset covers those appends.
"""

from __future__ import annotations

import zlib

from moldau.errors import StorageFullError
from moldau.ports import Disk, File

FLUSHED_OFFSET = "flushed-offset"
_LINE_BYTES = 30


class FlushedOffset:
    """The offset in the file `path`. One writer at a time."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._writes = 0
        self._is_closed = False

    def read(self) -> int:
        """Everything below was on the disk; 0: unknown. Waits for the disk."""
        try:
            data = self._disk.read_file(self._path)
        except FileNotFoundError:
            return 0
        return max((_decode(data[place : place + _LINE_BYTES]) for place in (0, _LINE_BYTES)), default=0)

    def write(self, offset: int) -> None:
        """Call it only after a flush up to `offset`. Raises StorageFailedError. Without room the old offset stays."""
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
        """As `write`, in both places and flushed. Waits."""
        self.write(offset)
        self.write(offset)
        if self._file is not None:
            self._file.flush()
        self._disk.flush_directory(self._path.rpartition("/")[0])

    def close(self) -> None:
        """Closes the file, which keeps the last offset. A flush in another thread records nothing any more, because its
        log is closed too."""
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
