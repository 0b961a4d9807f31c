"""Whether a log directory may still be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moldau.errors import StorageFailedError


class DirectoryHealth:
    """Shared by all logs of a directory. Once failed it stays failed until a restart: after a failed fsync the page
    cache says that pages are clean which the disk does not have, so that trying again would only hide the loss."""

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: str | None = None

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def fail(self, error: StorageFailedError) -> None:
        """Keeps the first reason."""
        if self.failure is None:
            self.failure = str(error)

    def check(self) -> None:
        """Raises StorageFailedError while offline."""
        if self.failure is not None:
            raise StorageFailedError(f"the log directory is offline: {self.failure}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A StorageFailedError inside takes the directory offline."""
        try:
            yield
        except StorageFailedError as error:
            self.fail(error)
            raise


def _closed() -> DirectoryHealth:
    health = DirectoryHealth()
    health.fail(StorageFailedError("the log is closed"))
    return health


CLOSED = _closed()
"""Of a log that was closed or deleted: it refuses everything, and its directory goes on."""
