"""The state of a log directory (online, full, offline), and the damage found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.errors import StorageFailedError

MAX_FINDINGS = 1_000
"""The most damaged files of one directory that are reported. A directory with more has failed as a whole."""


class DirectoryHealth:
    """Shared by all logs of a directory. A failed directory stays offline until a restart. After a failed fsync the
    page cache marks pages as clean that are not on the disk, so a retry would only hide the loss."""

    __slots__ = ("_findings", "_reporter", "failure", "is_full")

    def __init__(self) -> None:
        self.failure: str | None = None
        self.is_full = False
        """The directory accepts no records until it has room, because the rest is for metadata. Reads continue."""
        self._findings: dict[str, None] = {}
        self._reporter: Callable[[str], None] | None = None

    @property
    def is_offline(self) -> bool:
        """Whether the directory has failed. It is not read or written any more."""
        return self.failure is not None

    def fail(self, error: StorageFailedError) -> None:
        """Takes the directory offline and keeps the first reason."""
        if self.failure is None:
            self.failure = str(error)

    def fill(self) -> None:
        """The disk is full, see `is_full`."""
        self.is_full = True

    def empty(self) -> None:
        """The disk has room again."""
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
        """The file at `path` is damaged or was rebuilt. Reported once. For any thread."""
        finding = f"{path}: {sentence}"
        if finding in self._findings or len(self._findings) >= MAX_FINDINGS:
            return
        self._findings[finding] = None
        if self._reporter is not None:
            self._reporter(finding)

    def report_to(self, reporter: Callable[[str], None]) -> None:
        """Calls `reporter` with each finding, past and future."""
        self._reporter = reporter
        for finding in list(self._findings):
            reporter(finding)

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences about damaged and rebuilt files, oldest first, of bounded number."""
        return tuple(self._findings)


def _closed() -> DirectoryHealth:
    health = DirectoryHealth()
    health.fail(StorageFailedError("the log is closed"))
    return health


CLOSED = _closed()
"""The health of a closed or deleted log: it rejects everything, and its directory is unaffected."""
