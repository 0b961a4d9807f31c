"""Restarts a query that failed, and gives it up after several errors in a row.

While other queries of the pipeline run, it is tried again now and then, because its cause may be over.

The pause before each start doubles, from RETRY_FIRST_SECONDS; a finished batch counts the errors from the beginning.
Where a record can be at fault, the query is not started, nor given up, while that record is looked for: it would take
the search's cores, and fail by the same record.
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
"""For the batches that are being written at a stop, all together; what takes longer is cut short, and runs again."""
READING_WITHIN_SECONDS = 10.0
RETRY_FIRST_SECONDS = 1.0
MOST_RETRIES = 4
"""15 s in all: what lasts longer is tried by clients themselves, for the pipeline's `retry_timeout`."""
RETRY_GIVEN_UP_SECONDS = 60.0
"""After a query was given up, while another one runs."""

_ENDS_IT: tuple[type[Exception], ...] = (MoldauError, *spark_error())


class Supervised:
    """One query from its first start to its end. `error`: why it was given up, until it has finished a batch since."""

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        progress: QueryProgress,
        retry_first_seconds: float = RETRY_FIRST_SECONDS,
        retry_given_up_seconds: float = RETRY_GIVEN_UP_SECONDS,
    ) -> None:
        """`start`: starts the query, anew after each failure. What it raises now, the constructor raises; later that is
        a failure too."""
        self.error: str | None = None
        self._start = start
        self._progress = progress
        self._retry_first_seconds = retry_first_seconds
        self._retry_given_up_seconds = retry_given_up_seconds
        self._failures = 0
        self._batches = 0
        self._reason = ""
        self._report: str | None = None
        """Spark's, of the failure, until the record is found or not."""
        self._due = 0.0
        self._running: StreamingQuery | None = start()
        self.state = progress.state("starting")

    @property
    def is_over(self) -> bool:
        return self.state.state in ("failed", "finished", "stopped")

    @property
    def keeps_spec(self) -> bool:
        """Whether the pipeline goes on for it. Two that were given up do not keep each other alive by their tries."""
        return not self.is_over and self.error is None

    def wait_until_reading(self) -> None:
        """Returns when the query has looked at its sources, or after READING_WITHIN_SECONDS. Each source has a Python
        worker, which Spark gives 10 s to come up: on few cores many that come up at once are too slow for that."""
        query = self._running
        if query is not None:
            _wait_until(
                lambda: not query.isActive or bool(query.lastProgress) or query.status["isDataAvailable"],
                READING_WITHIN_SECONDS,
            )

    def supervise(self, *, also_given_up: bool = False) -> PipelineState:
        """Looks at the query, and starts it again where that is due. `also_given_up`: one that was given up, too."""
        is_due = also_given_up and self.is_over and self.error is not None and time.monotonic() >= self._due
        if is_due or not self.is_over:
            try:
                if is_due:
                    self._take_up_again()
                self.state = self._wait_to_start() if self._running is None else self._look(self._running)
            except _ENDS_IT as error:
                self.state = self._give_up(what_failed(str(error)))
                if self._running is not None:
                    with suppress(*_ENDS_IT):  # `end` tries it again; the other queries go on
                        self._running.stop()
        return self.state

    def stop(self, is_urgent: Callable[[], bool]) -> PipelineState:
        """Waits for the batch that is being written, unless that `is_urgent`; afterwards the query is over."""
        if not self.is_over:
            try:
                self.state = self._stop(is_urgent)
            except _ENDS_IT as error:
                self.state = self._give_up(what_failed(str(error)))
        return self.state

    def end_search(self) -> None:
        """Nobody waits for a record that is looked for."""
        self._progress.end_search()

    def end(self) -> None:
        """The query runs no more, whatever became of it. One that does not stop ends with the process: what the caller
        has to say of the pipeline is not lost for it."""
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
            except _ENDS_IT as error:  # such as a target that is still away
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
                # idle, or ended by itself at the next batch's begin; the caller's `is_urgent` is to come first
                _wait_until(
                    lambda: is_urgent() or not running.isActive or not running.status["isTriggerActive"],
                    2 * STOP_WITHIN_SECONDS,
                )
            self._running = None  # `end` would wait as long once more for one that does not stop
            running.stop()
            self._progress.count(running)
        return self._progress.look("stopped", is_last=True)

    def _take_up_again(self) -> None:
        """One failure more gives it up again; a finished batch makes it a query like any other. One that did not stop
        still runs, and is looked at."""
        if self._running is not None and not self._running.isActive:
            self._running = None
        self._failures = MOST_RETRIES

    def _give_up(self, reason: str) -> PipelineState:
        self.error, self._due = reason, time.monotonic() + self._retry_given_up_seconds
        return self._progress.state("failed", trouble=reason)


def _wait_until(is_so: Callable[[], bool], within_seconds: float) -> None:
    """Returns then, or after that time."""
    pause = threading.Event()
    for _ in range(int(within_seconds / LOOK_SECONDS)):
        if is_so():
            break
        pause.wait(LOOK_SECONDS)
