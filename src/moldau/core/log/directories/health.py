"""Whether a log directory may still be used, and what was found damaged in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.errors import StorageFailedError

MAX_FINDINGS = 1_000
"""Damaged files of one directory that are named; a directory with more of them has failed as a whole."""


class DirectoryHealth:
    """Shared by all logs of a directory. Once failed it stays failed until a restart: after a failed fsync the page
    cache says that pages are clean which the disk does not have, so that trying again would only hide the loss."""

    __slots__ = ("_findings", "_reporter", "failure", "is_full")

    def __init__(self) -> None:
        self.failure: str | None = None
        self.is_full = False
        """No records are taken until there is room: what is left is for the metadata. Reading goes on."""
        self._findings: dict[str, None] = {}
        self._reporter: Callable[[str], None] | None = None

    @property
    def is_offline(self) -> bool:
        """Whether the directory has failed since the start: nothing is read or written there any more."""
        return self.failure is not None

    def fail(self, error: StorageFailedError) -> None:
        """Takes the directory offline, and keeps the first reason."""
        if self.failure is None:
            self.failure = str(error)

    def fill(self) -> None:
        """There is no room: see `is_full`."""
        self.is_full = True

    def empty(self) -> None:
        """There is room again."""
        self.is_full = False

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

    # -- damaged files

    def found(self, path: str, sentence: str) -> None:
        """The file at `path` is damaged, or was built anew: reported once, however often it is found. Any thread."""
        finding = f"{path}: {sentence}"
        if finding in self._findings or len(self._findings) >= MAX_FINDINGS:
            return
        self._findings[finding] = None
        if self._reporter is not None:
            self._reporter(finding)

    def report_to(self, reporter: Callable[[str], None]) -> None:
        """Gives `reporter` each finding: those so far now, the others as they come."""
        self._reporter = reporter
        for finding in list(self._findings):
            reporter(finding)

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences on damaged or rebuilt files, oldest first; their number has a bound."""
        return tuple(self._findings)


def _closed() -> DirectoryHealth:
    health = DirectoryHealth()
    health.fail(StorageFailedError("the log is closed"))
    return health


CLOSED = _closed()
"""Of a log that was closed or deleted: it refuses everything, and its directory goes on."""
