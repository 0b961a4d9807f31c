"""Runs one pipeline: holds the lease, starts the Spark query, publishes and shows how far it is, and ends cleanly.

Every turn reads in Spark's checkpoint which batch is finished and commits its source offsets to the pipeline's group.
The group is therefore never ahead of the sink, and a killed driver's last batch is published by the next one.

A stop (SIGINT, SIGTERM) waits for the batch that is being written and begins no other: nothing is cut in two. A kill
loses nothing either: the batch that was running is run again, and may be there twice.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoint import FinishedBatch, newest_finished_batch
from moldau.products.pipelines.flow import start_query
from moldau.products.pipelines.group import GroupError, GroupOffsets, lag
from moldau.products.pipelines.lease import Lease
from moldau.products.pipelines.page import PipelinePage, describe
from moldau.products.pipelines.progress import BatchCounter, PipelineState, ProgressDisplay

if TYPE_CHECKING:
    from moldau.spark import StreamingQuery

TURN_SECONDS = 0.2
STOP_WITHIN_SECONDS = 30.0
DRIVER_LOG = "driver.log"
MOST_LINES_OF_AN_ERROR = 12


class PipelineFailedError(MoldauError):
    """The query ended by an error; the message is its first lines, the rest stands in the driver's log."""


class StoppedOnPurpose(Exception):
    """Ends the query before a batch that shall not begin any more."""


def run_pipeline(page: PipelinePage, *, once: bool = False, console: Console | None = None) -> PipelineState:
    """Runs until a signal stops it, or with `once` until what is there now is processed; gives the last state.

    Raises LeaseError, FlowError, GroupError, SparkStartError, PipelineFailedError. Call it from the main thread: it
    takes SIGINT and SIGTERM while it runs.
    """
    from moldau.spark import open_session, spark_error

    stop = threading.Event()
    with Lease(page.checkpoint) as lease, _signals(stop), ProgressDisplay(describe(page), console) as display:
        display.show(PipelineState(0, 0, None, 0, "starting"), force=True)
        spark = open_session(page.name, log_path=page.checkpoint / DRIVER_LOG, keep_open=(lease.fileno(),))
        group = GroupOffsets(page.bootstrap_servers, page.group)
        try:

            def may_start_batch() -> None:
                if stop.is_set():
                    raise StoppedOnPurpose

            try:
                query = start_query(spark, page, once=once, may_start_batch=may_start_batch)
            except spark_error() as error:
                raise PipelineFailedError(what_failed(str(error))) from error
            watch = _Watch(page, query, group)
            return _until_the_end(watch, stop, display)
        finally:
            group.close()


def _until_the_end(watch: _Watch, stop: threading.Event, display: ProgressDisplay) -> PipelineState:
    while watch.query.isActive and not stop.wait(TURN_SECONDS):
        display.show(watch.look("running"))
    if stop.is_set():
        display.show(watch.look("stopping"), force=True)
        _end_between_batches(watch.query)
    error = watch.query.exception()
    if error is not None and not stop.is_set():
        raise PipelineFailedError(what_failed(str(error)))
    state = watch.look("stopped" if stop.is_set() else "finished", is_last=True)
    display.show(state, force=True)
    return state


def _end_between_batches(query: StreamingQuery) -> None:
    """Waits until the query is idle, or has ended itself at the next batch's begin (see may_start_batch)."""
    idle = threading.Event()
    for _ in range(int(STOP_WITHIN_SECONDS / TURN_SECONDS)):
        if not query.isActive or not query.status["isTriggerActive"]:
            break
        idle.wait(TURN_SECONDS)
    query.stop()


class _Watch:
    """Looks at the checkpoint and at the cluster, publishes what is new, and makes the state that is shown."""

    def __init__(self, page: PipelinePage, query: StreamingQuery, group: GroupOffsets) -> None:
        self.query = query
        self._page = page
        self._group = group
        self._published: FinishedBatch | None = None
        self._counter = BatchCounter()

    def look(self, state: str, *, is_last: bool = False) -> PipelineState:
        """While the query runs, a group that cannot be reached is shown and tried again; the last look raises
        GroupError: what the group shows then stays."""
        behind: int | None = None
        try:
            behind = self._publish()
        except GroupError as error:
            if is_last:
                raise
            state = f"{state}, but {error}"
        self._counter.look(self.query)
        return PipelineState(
            batches=self._counter.batches,
            records_read=self._counter.records,
            lag=behind,
            batch_ms=self._counter.batch_ms,
            state=state,
        )

    def _publish(self) -> int:
        """The lag, after committing what is newly finished."""
        done = newest_finished_batch(self._page.checkpoint)
        if done is not None and (self._published is None or done.batch_id != self._published.batch_id):
            self._group.commit(done.offsets)
            self._published = done
        return lag(self._group.bounds(self._page.source.topic), done.offsets if done else {})


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop`; what they did before is put back."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def what_failed(text: str) -> str:
    """The sentence of our own error inside Spark's report of it; else the report's first lines."""
    ours = re.findall(r"^moldau(?:\.\w+)+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("JVM stacktrace")]
    return "\n".join(lines[:MOST_LINES_OF_AN_ERROR])
