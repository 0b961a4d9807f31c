"""Which parts of a file the event loop may read directly, after a read missed the page cache.

A read with RWF_NOWAIT that meets a missing page, or the mark where read-ahead continues, starts the next read-ahead
itself: it allocates up to megabytes of pages and passes them to the device, and waits while the device is busy
(measured during a cold replay on Linux 6.18: up to 114 ms, half of the loop's time). So after a miss, the loop reads
only the ranges that a worker thread has just read; read-ahead is then started, and waited for, in that thread. Bytes
appended after the miss are in the page cache and are read directly.
"""

from __future__ import annotations

MAX_RANGES = 16
"""Maximum number of readers at different places of one file; above it, the range that was unused longest is read
through a worker again."""


class Residency:
    """The ranges of one file that the event loop may read directly. Positions in bytes, *end* exclusive. Called under
    the file's lock."""

    __slots__ = ("_ranges", "cold_end")

    def __init__(self) -> None:
        self.cold_end = 0
        """Bytes from here on were appended since the last miss."""
        self._ranges: list[tuple[int, int]] = []

    def is_readable(self, position: int, end: int) -> bool:
        """Whether the whole range was read by a worker, or appended, since the last miss."""
        end = min(end, self.cold_end)
        return position >= end or any(first <= position and end <= last for first, last in self._ranges)

    def missed(self, position: int, end: int, size: int) -> None:
        """The page cache lacks some of this range, in a file of `size` bytes."""
        self.cold_end = size
        self._ranges = [(first, last) for first, last in self._ranges if last <= position or end <= first]

    def was_read(self, position: int, end: int) -> None:
        """A worker has read this range. Merges it with the ranges that it touches."""
        others = []
        for first, last in self._ranges:
            if last < position or end < first:
                others.append((first, last))
            else:
                position, end = min(position, first), max(end, last)
        self._ranges = [*others[-(MAX_RANGES - 1) :], (position, end)]
