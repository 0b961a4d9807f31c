"""Forwards reads to another disk: the base of disks that wrap one."""

from __future__ import annotations

from moldau.ports import Disk


class ForwardedReads:
    """Forwards reads to `disk`. Each subclass must implement every changing call, so none reaches `disk` by
    accident."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    @property
    def directory(self) -> None:
        """None: another process would change `disk` itself."""

    def exists(self, path: str) -> bool:
        """See Disk."""
        return self.disk.exists(path)

    def is_directory(self, path: str) -> bool:
        """See Disk."""
        return self.disk.is_directory(path)

    def list_directory(self, path: str) -> list[str]:
        """See Disk."""
        return self.disk.list_directory(path)

    def read_file(self, path: str) -> bytes:
        """See Disk."""
        return self.disk.read_file(path)
