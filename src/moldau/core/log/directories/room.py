"""A full log directory: when to check for room again, and a spare file for metadata.

Partitions must not move to and fro because of short-lived room. A directory therefore has room again only when a good
part of its volume is free. If appends fail again soon after, as with a quota that the volume does not show, the next
check comes after twice the time.
"""

from __future__ import annotations

from moldau.errors import MoldauError
from moldau.ports import Disk

FIRST_WAIT_MS = 1_000
LAST_WAIT_MS = 600_000
MOST_NEEDED_BYTES = 1 << 28
SPARE_FILE = "moldau.spare"
SPARE_BYTES = 4 << 20
"""Enough for tens of thousands of metadata changes."""


class Room:
    """The state of one log directory. Times are steady."""

    def __init__(self) -> None:
        self.is_full = False
        self.looks = 0
        """The number of checks since the directory became full."""
        self._wait_ms = FIRST_WAIT_MS
        self._look_ms = 0
        self._trusted_ms = 0

    def refused(self, now_ms: int) -> bool:
        """An append found no room. Returns whether the directory was not full before."""
        if self.is_full:
            return False
        self._wait_ms = min(2 * self._wait_ms, LAST_WAIT_MS) if now_ms < self._trusted_ms else FIRST_WAIT_MS
        self.is_full, self.looks, self._look_ms = True, 0, now_ms + self._wait_ms
        return True

    def is_look_due(self, now_ms: int) -> bool:
        """Whether to ask the file system and call `looked`."""
        return self.is_full and now_ms >= self._look_ms

    def looked(self, total_bytes: int, usable_bytes: int, now_ms: int) -> bool:
        """The free bytes of the file system, -1 if unknown. Returns whether the directory has room again."""
        self.looks += 1
        if usable_bytes < needed_bytes(total_bytes):
            self._look_ms = now_ms + FIRST_WAIT_MS
            return False
        self.is_full, self._trusted_ms = False, now_ms + 2 * self._wait_ms
        return True


def needed_bytes(total_bytes: int) -> int:
    """The free bytes that a volume of this size needs before a full directory is used again: a twentieth, at most 256
    MiB, plus the spare file, which is gone then."""
    return min(total_bytes // 20, MOST_NEEDED_BYTES) + SPARE_BYTES if total_bytes >= 0 else -1


def keep_spare(disk: Disk) -> None:
    """Writes the spare file if it is missing and fits. Waits."""
    if disk.exists(SPARE_FILE):
        return
    try:
        disk.replace_file(SPARE_FILE, bytes(SPARE_BYTES))
    except MoldauError:
        release_spare(disk)


def release_spare(disk: Disk) -> bool:
    """Removes the spare file to make room. False: it does not exist. Raises StorageFailedError."""
    if not disk.exists(SPARE_FILE):
        return False
    disk.remove(SPARE_FILE)
    return True
