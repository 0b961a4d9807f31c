"""A request to stop: by a signal to the process, or by the owner of a pipeline."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AS_ONE_SECONDS = 1.0


class StoppedOnPurpose(Exception):
    """Ends the query before a batch that must not begin."""


class StopRequest:
    """`is_urgent`: the request was repeated, or the time for the batches is over. `parent`: a request that counts as
    this one too.

    The handler of a signal runs in the main thread, between any two of its steps. There `threading.Event.set` would
    block forever if the main thread held the event's lock, so these are plain flags.
    """

    def __init__(self, parent: StopRequest | None = None) -> None:
        self._parent = parent
        self._is_asked = self._is_urgent = False
        self._first = 0.0
        self._never = threading.Event()

    @property
    def is_asked(self) -> bool:
        return self._is_asked or (self._parent is not None and self._parent.is_asked)

    @property
    def is_urgent(self) -> bool:
        return self._is_urgent or (self._parent is not None and self._parent.is_urgent)

    def ask(self) -> None:
        self._is_asked = True

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """A signal handler. Signals within AS_ONE_SECONDS count as one request, because one may come twice: from a
        service manager that signals each process, and from the parent process."""
        now = time.monotonic()
        if not self._is_asked:
            self._is_asked, self._first = True, now
        elif now - self._first > AS_ONE_SECONDS:
            self._is_urgent = True

    def check(self) -> None:
        """Raises StoppedOnPurpose."""
        if self.is_asked:
            raise StoppedOnPurpose

    def wait(self, seconds: float) -> bool:
        """Waits for `seconds`; returns whether a stop was requested."""
        self._never.wait(seconds)
        return self.is_asked

    def is_urgent_after(self, deadline: float) -> bool:
        """Whether it is urgent, as it becomes at `deadline`, in seconds of the monotonic clock."""
        self._is_urgent = self._is_urgent or time.monotonic() > deadline
        return self.is_urgent


@contextmanager
def signals(stop: StopRequest) -> Iterator[None]:
    """SIGINT and SIGTERM request the stop; restores the previous handlers. Only in the main thread."""
    before = {number: signal.signal(number, stop.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
