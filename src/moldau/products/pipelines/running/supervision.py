"""Restarts a query that failed, and gives it up after several errors in a row.

While other queries of the pipeline run, it is tried again from time to time, because the cause may be gone.

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
from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.running.progress import PipelineState
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.spark import spark_error

if TYPE_CHECKING:
    from moldau.spark import StreamingQuery

logger = logging.getLogger("moldau.pipelines")

LOOK_SECONDS = 0.2
STOP_WITHIN_SECONDS = 120.0
"""For all batches that are being written at a stop. Batches that take longer are interrupted, and run again."""
READING_WITHIN_SECONDS = 10.0
RETRY_FIRST_SECONDS = 1.0
MOST_RETRIES = 4
"""15 s in total. Clients themselves retry longer outages, for the pipeline's `retry_timeout`."""
RETRY_GIVEN_UP_SECONDS = 60.0
"""The pause before a query that was given up is tried again, while another one runs."""

_ENDS_IT: tuple[type[Exception], ...] = (MoldauError, *spark_error())


class Supervised:
    """One query from its first start to its end. `error`: why it was given up; None again after a finished batch."""

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        progress: QueryProgress,
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
        self._running: StreamingQuery | None = start()
        self.state = progress.state("starting")

    @property
    def is_over(self) -> bool:
        return self.state.state in ("failed", "finished", "stopped")

    @property
    def keeps_spec(self) -> bool:
        """Whether the pipeline continues because of this query. Retries of queries that were given up do not keep a
        pipeline running."""
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

    def supervise(self, *, also_given_up: bool = False) -> PipelineState:
        """Updates the state, and starts the query again when that is due. `also_given_up`: even if it was given up."""
        is_due = also_given_up and self.is_over and self.error is not None and time.monotonic() >= self._due
        if is_due or not self.is_over:
            try:
                if is_due:
                    self._take_up_again()
                self.state = self._wait_to_start() if self._running is None else self._look(self._running)
            except _ENDS_IT as error:
                self.state = self._give_up(what_failed(str(error)))
                if self._running is not None:
                    with suppress(*_ENDS_IT):  # `end` tries it again; the other queries continue
                        self._running.stop()
        return self.state

    def stop(self, is_urgent: Callable[[], bool]) -> PipelineState:
        """Waits for the batch that is being written, unless `is_urgent`; then stops the query."""
        if not self.is_over:
            try:
                self.state = self._stop(is_urgent)
            except _ENDS_IT as error:
                self.state = self._give_up(what_failed(str(error)))
        return self.state

    def end_search(self) -> None:
        """Stops the search for the record."""
        self._progress.end_search()

    def end(self) -> None:
        """Stops the query in any state. A query that cannot be stopped ends with the process, and its error is only
        logged, to keep the caller's own error."""
        if self._running is not None:
            try:
                self._running.stop()
            except _ENDS_IT as error:
                logger.warning("a query did not stop: %s", what_failed(str(error)))

    def _look(self, running: StreamingQuery) -> PipelineState:
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

    def _fail(self, reason: str) -> PipelineState:
        self._reason, self._running = reason, None
        self._due = time.monotonic() + self._retry_first_seconds * 2**self._failures
        self._failures += 1
        return self._wait_to_start()

    def _wait_to_start(self) -> PipelineState:
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
                return self._fail(what_failed(str(error)))
            return self._progress.state("starting")
        trouble = f"{self._reason}; started again in {left:.0f} s ({self._failures} of {MOST_RETRIES})"
        return self._progress.state("waiting", trouble=trouble)

    def _stop(self, is_urgent: Callable[[], bool]) -> PipelineState:
        running = self._running
        if running is not None:
            self._progress.count(running)
            self._progress.look("stopping")
            if self._progress.reaches_clusters:
                # until it is idle or has ended at the start of a batch; the caller's `is_urgent` applies first
                _wait_until(
                    lambda: is_urgent() or not running.isActive or not running.status["isTriggerActive"],
                    2 * STOP_WITHIN_SECONDS,
                )
            self._running = None  # else `end` would wait again for a query that does not stop
            running.stop()
            self._progress.count(running)
        return self._progress.look("stopped", is_last=True)

    def _take_up_again(self) -> None:
        """One more failure gives it up again; a finished batch makes it a normal query. If it could not be stopped, it
        still runs, and is checked again."""
        if self._running is not None and not self._running.isActive:
            self._running = None
        self._failures = MOST_RETRIES

    def _give_up(self, reason: str) -> PipelineState:
        self.error, self._due = reason, time.monotonic() + self._retry_given_up_seconds
        return self._progress.state("failed", trouble=reason)


def _wait_until(is_so: Callable[[], bool], within_seconds: float) -> None:
    """Returns when `is_so` is true, or after that time."""
    pause = threading.Event()
    for _ in range(int(within_seconds / LOOK_SECONDS)):
        if is_so():
            break
        pause.wait(LOOK_SECONDS)
