"""Which parts of a file the event loop may read at once, after the page cache was found not to hold all of it.

A read with RWF_NOWAIT that meets a missing page, or the mark where read-ahead goes on, begins the next read-ahead
itself: it allocates up to megabytes of pages and hands them to the device, and that waits while the device is busy
(measured beside a cold replay on Linux 6.18: up to 114 ms, half of the loop's time). So once a file was found cold, the
loop reads only what a worker thread has just read; read-ahead is then begun, and waited for, in that thread. What was
appended after the miss is in the page cache, and is read as ever.
"""

from __future__ import annotations

MAX_RANGES = 16
"""Readers at different places of one file; with more of them the longest unused is read through a worker again."""


class Residency:
    """What the event loop may read at once of one file. Positions in bytes, *end* exclusive. Called under the file's
    lock."""

    __slots__ = ("_ranges", "cold_end")

    def __init__(self) -> None:
        self.cold_end = 0
        """From here on everything was appended since the last miss."""
        self._ranges: list[tuple[int, int]] = []

    def is_readable(self, position: int, end: int) -> bool:
        """Whether all of it was read by a worker, or appended, since the last miss."""
        end = min(end, self.cold_end)
        return position >= end or any(first <= position and end <= last for first, last in self._ranges)

    def missed(self, position: int, end: int, size: int) -> None:
        """The page cache lacks some of this range, in a file of `size` bytes."""
        self.cold_end = size
        self._ranges = [(first, last) for first, last in self._ranges if last <= position or end <= first]

    def was_read(self, position: int, end: int) -> None:
        """A worker has read this range. Joined with those that it touches."""
        others = []
        for first, last in self._ranges:
            if last < position or end < first:
                others.append((first, last))
            else:
                position, end = min(position, first), max(end, last)
        self._ranges = [*others[-(MAX_RANGES - 1) :], (position, end)]
