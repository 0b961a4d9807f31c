"""Restarts a query that failed, and gives it up after several errors in a row.

A query that was given up is tried again from time to time while others run, because the cause may be gone.

The pause before each start doubles, from RETRY_FIRST_SECONDS. A finished batch resets the count of errors. If a record
may be the cause, the query waits until the search for that record ends: it would take cores from the search, and fail
again at the same record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from moldau.errors import MoldauError
from moldau.spark.queries.supervised_state import SupervisedState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("moldau.pipelines")

LOOK_SECONDS = 0.2
STOP_WITHIN_SECONDS = 120.0
"""For all batches that are being written at a stop. Batches that take longer are interrupted, and run again."""
READING_WITHIN_SECONDS = 10.0
RETRY_FIRST_SECONDS = 1.0
MOST_RETRIES = 4
"""15 s in total. Clients themselves retry longer outages, for their own timeouts."""
RETRY_GIVEN_UP_SECONDS = 60.0
"""The pause before a query that was given up is tried again, while another one runs."""

_ENDS_IT: tuple[type[Exception], ...] = (MoldauError, PySparkException, Py4JError)


_ASKS_SOURCES = "Getting offsets from"
"""Spark's message of a query that plans its next batch (MicroBatchExecution)."""


class Progress(Protocol):
    """What is known of a query across its restarts, and what is done with its finished batches."""

    @property
    def batches(self) -> int:
        """The number of finished batches with records."""

    @property
    def reaches_clusters(self) -> bool:
        """Whether the last look reached the clusters; while it is false, no batch ends."""

    def count(self, running: StreamingQuery) -> None:
        """Adds Spark's new reports."""

    def look(self, state: str, *, is_last: bool = False) -> SupervisedState:
        """Handles newly finished batches. Raises MoldauError if that fails for too long, and at the last look."""

    def state(self, state: str, *, behind: int | None = None, trouble: str | None = None) -> SupervisedState:
        """Looks at nothing."""

    def reason(self, error: Exception) -> str:
        """A sentence from an error of Spark or of ours."""

    def explain(self, text: str) -> str:
        """A sentence from Spark's report of the error that ended the query."""

    def begin_search(self, text: str) -> None:
        """Starts the search for the record that made the query fail. `text`: Spark's report."""

    def is_searching(self) -> bool: ...

    def end_search(self) -> None: ...

    def close(self) -> None: ...


class Supervised:
    """One query from its first start to its end. `error`: why it was given up; None again after a finished batch."""

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        progress: Progress,
        retry_first_seconds: float = RETRY_FIRST_SECONDS,
        retry_given_up_seconds: float = RETRY_GIVEN_UP_SECONDS,
    ) -> None:
        """`start`: starts the query, again after each failure. The constructor raises the errors of the first call;
        later errors count as failures."""
        self.error: str | None = None
        self._start = start
        self._progress = progress
        self._retry_first_seconds = retry_first_seconds
        self._retry_given_up_seconds = retry_given_up_seconds
        self._failures = 0
        self._batches = 0
        self._reason = ""
        self._report: str | None = None
        """Spark's report of the failure, until the search for the record ends."""
        self._due = 0.0
        self._turn = threading.Lock()
        self._is_leaving = self._is_stuck = False
        self._running: StreamingQuery | None = start()
        self.state = progress.state("starting")

    @property
    def is_over(self) -> bool:
        return self.state.is_over

    @property
    def is_kept(self) -> bool:
        """Whether it is neither over nor given up. Retries of a query that was given up do not count."""
        return not self.is_over and self.error is None

    def wait_until_reading(self) -> None:
        """Returns when the query has looked at its sources, or after READING_WITHIN_SECONDS. Each source has a Python
        worker, which Spark gives 10 s to start. On few cores, many workers that start together would take longer."""
        query = self._running
        if query is not None:
            _wait_until(
                lambda: not query.isActive or bool(query.lastProgress) or query.status["isDataAvailable"],
                READING_WITHIN_SECONDS,
            )

    def supervise(self, *, also_given_up: bool = False) -> SupervisedState:
        """Updates the state, and starts the query again when that is due. `also_given_up`: even if it was given up.
        Does nothing once `stop` or `end` was called, in any thread."""
        with self._turn:
            is_due = also_given_up and self.is_over and self.error is not None and time.monotonic() >= self._due
            if not self._is_leaving and (is_due or not self.is_over):
                self._supervise(is_due=is_due)
        return self.state

    def _supervise(self, *, is_due: bool) -> None:
        try:
            if is_due:
                self._take_up_again()
            self.state = self._wait_to_start() if self._running is None else self._look(self._running)
        except _ENDS_IT as error:
            self.state = self._give_up(self._progress.reason(error))
            if self._running is not None:
                with suppress(*_ENDS_IT):  # `end` tries it again; the other queries continue
                    self._running.stop()

    def stop(self, is_urgent: Callable[[], bool]) -> SupervisedState:
        """Waits for the batch that is being written, unless `is_urgent`; then stops the query."""
        self._leave()
        if not self.is_over:
            try:
                self.state = self._stop(is_urgent)
            except _ENDS_IT as error:
                self.state = self._give_up(self._progress.reason(error))
        return self.state

    def end_search(self) -> None:
        """Stops the search for the record."""
        self._progress.end_search()

    def end(self) -> bool:
        """Stops the query in any state, and closes its progress; returns whether it has ended. A query that cannot be
        stopped ends with the process, and its error is only logged, to keep the caller's own error."""
        self._leave()
        if self._running is not None:
            try:
                self._running.stop()
            except _ENDS_IT as error:
                self._is_stuck = True
                logger.warning("a query did not stop: %s", self._progress.reason(error))
        self._progress.close()
        return not self._is_stuck

    def _leave(self) -> None:
        with self._turn:
            self._is_leaving = True

    def _look(self, running: StreamingQuery) -> SupervisedState:
        is_active = running.isActive
        self._progress.count(running)
        if self._progress.batches > self._batches:
            self._batches, self._failures, self.error = self._progress.batches, 0, None
        if is_active:
            return self._progress.look("running")
        error = running.exception()
        if error is None:
            return self._progress.look("finished", is_last=True)
        self._report = str(error)
        self._progress.begin_search(self._report)
        return self._fail(self._progress.explain(self._report))

    def _fail(self, reason: str) -> SupervisedState:
        self._reason, self._running = reason, None
        self._due = time.monotonic() + self._retry_first_seconds * 2**self._failures
        self._failures += 1
        return self._wait_to_start()

    def _wait_to_start(self) -> SupervisedState:
        if self._report is not None:
            if self._progress.is_searching():
                trouble = f"{self._reason}; the record that fails is looked for"
                return self._progress.state("waiting", trouble=trouble)
            self._reason, self._report = self._progress.explain(self._report), None
        if self._failures > MOST_RETRIES:
            return self._give_up(self._reason)
        left = self._due - time.monotonic()
        if left <= 0:
            try:
                self._running = self._start()
            except _ENDS_IT as error:  # such as a target that is still unavailable
                return self._fail(self._progress.reason(error))
            return self._progress.state("starting")
        trouble = f"{self._reason}; started again in {left:.0f} s ({self._failures} of {MOST_RETRIES})"
        return self._progress.state("waiting", trouble=trouble)

    def _stop(self, is_urgent: Callable[[], bool]) -> SupervisedState:
        running = self._running
        if running is not None:
            self._progress.count(running)
            self._progress.look("stopping")
            if self._progress.reaches_clusters:
                # until it is idle or has ended at the start of a batch; the caller's `is_urgent` applies first
                _wait_until(lambda: is_urgent() or not _has_batch(running), 2 * STOP_WITHIN_SECONDS)
            self._running, self._is_stuck = None, True  # else `end` would wait again for a query that does not stop
            running.stop()
            self._is_stuck = False
            self._progress.count(running)
        return self._progress.look("stopped", is_last=True)

    def _take_up_again(self) -> None:
        """One more failure gives it up again; a finished batch makes it a normal query. If it could not be stopped, it
        still runs, and is checked again."""
        if self._running is not None and not self._running.isActive:
            self._running = None
        self._failures = MOST_RETRIES

    def _give_up(self, reason: str) -> SupervisedState:
        self.error, self._due = reason, time.monotonic() + self._retry_given_up_seconds
        return self._progress.state("failed", trouble=reason)


def _has_batch(running: StreamingQuery) -> bool:
    """Whether it may be in a batch. A query that waits for its sources asks them for offsets, within its trigger."""
    if not running.isActive:
        return False
    status = running.status
    return bool(status["isTriggerActive"]) and not status["message"].startswith(_ASKS_SOURCES)


def _wait_until(is_so: Callable[[], bool], within_seconds: float) -> None:
    """Returns when `is_so` is true, or after that time."""
    pause = threading.Event()
    for _ in range(int(within_seconds / LOOK_SECONDS)):
        if is_so():
            break
        pause.wait(LOOK_SECONDS)
