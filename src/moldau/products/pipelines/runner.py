"""Runs one pipeline: asks the cluster, holds the lease, starts the Spark query, publishes and shows how far it is, and
ends cleanly.

Every turn reads in Spark's checkpoint which batch is finished, keeps its dead letters, and commits its source offsets
to the pipeline's group, unless the sink has done so in the batch's transaction. The group is therefore never ahead of
the sink, and a killed driver's last batch is published by the next one.

A stop (SIGINT, SIGTERM) waits for the batch that is being written and begins no other: nothing is cut in two. A kill
loses nothing either: the batch that was running is run again. A broker that is lost is tried for `retry_timeout`; the
terminal gets one line every 10 s of that, and everything else that Spark and the client say goes to the driver's log.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoint import FinishedBatch, claim_checkpoint, newest_finished_batch
from moldau.products.pipelines.dead_letters import DeadLetters
from moldau.products.pipelines.flow import DEAD_LETTERS_METRIC, make_result, query_facts, start_query
from moldau.products.pipelines.group import GroupError, GroupOffsets, lag
from moldau.products.pipelines.lease import Lease
from moldau.products.pipelines.logs import logs_to
from moldau.products.pipelines.page import PipelinePage, describe
from moldau.products.pipelines.preflight import check_cluster
from moldau.products.pipelines.progress import BatchCounter, PipelineState, ProgressDisplay

if TYPE_CHECKING:
    from moldau.spark import SparkSession, StreamingQuery

TURN_SECONDS = 0.2
STOP_WITHIN_SECONDS = 30.0
DRIVER_LOG = "driver.log"
MOST_LINES_OF_AN_ERROR = 12


class PipelineFailedError(MoldauError):
    """The query ended by an error; the message is its first lines, the rest stands in the driver's log."""


class StoppedOnPurpose(Exception):
    """Ends the query before a batch that shall not begin any more."""


class StopRequest:
    """What a signal asks for. The handler runs in the main thread, between any two of its steps: `threading.Event.set`
    would wait for ever there, if the main thread holds the event's lock just then. So the handler sets a plain flag."""

    def __init__(self) -> None:
        self.is_asked = False
        self._never = threading.Event()

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """A handler of signals."""
        self.is_asked = True

    def wait(self, seconds: float) -> bool:
        """Whether a stop was asked for, after `seconds`."""
        self._never.wait(seconds)
        return self.is_asked


def run_pipeline(
    page: PipelinePage, *, once: bool = False, console: Console | None = None, metrics_port: int | None = None
) -> PipelineState:
    """Runs until a signal stops it, or with `once` until what is there now is processed; gives the last state.
    `metrics_port`: where `/metrics` of 127.0.0.1 is served meanwhile.

    Raises PreflightError, LeaseError, CheckpointError, ParquetTargetError, FlowError, GroupError, SparkStartError,
    PipelineFailedError. Call it from the main thread: it takes SIGINT and SIGTERM while it runs.
    """
    from moldau.spark import open_session, spark_error

    stop = StopRequest()
    page.sink.check()
    check_cluster(page)
    log = page.checkpoint / DRIVER_LOG
    facts = {**describe(page), "log": str(log)}
    with Lease(page.checkpoint) as lease, logs_to(log), _signals(stop), ProgressDisplay(facts, console) as display:
        checkpoint_id = claim_checkpoint(page.checkpoint, query_facts(page), pipeline=page.name)
        display.show(PipelineState(0, 0, None, 0, "starting"), force=True)
        spark = open_session(page.name, log_path=log, keep_open=(lease.fileno(),))
        group = GroupOffsets(page.bootstrap_servers, page.group, first_contact_timeout_ms=page.first_contact_timeout_ms)
        try:

            def may_start_batch() -> None:
                if stop.is_asked:
                    raise StoppedOnPurpose

            try:
                result = make_result(spark, page)
                with _metrics(spark, metrics_port):
                    query = start_query(
                        result, page, once=once, checkpoint_id=checkpoint_id, may_start_batch=may_start_batch
                    )
                    watch = _Watch(spark, page, query, group)
                    return _until_the_end(watch, stop, display)
            except spark_error() as error:
                raise PipelineFailedError(what_failed(str(error))) from error
            except ConnectionError as error:
                raise PipelineFailedError(f"the JVM of Spark ended before the pipeline did; {log} says why") from error
        finally:
            group.close()


def _until_the_end(watch: _Watch, stop: StopRequest, display: ProgressDisplay) -> PipelineState:
    try:
        while watch.query.isActive and not stop.wait(TURN_SECONDS):
            display.show(watch.look("running"))
    except GroupError:
        # the caller may run the pipeline again after the error, and the lease ends with this run
        watch.query.stop()
        raise
    if stop.is_asked:
        state = watch.look("stopping")
        display.show(state, force=True)
        if state.trouble is None:
            _wait_for_the_batch(watch.query)
        watch.query.stop()
    error = watch.query.exception()
    if error is not None and not stop.is_asked:
        raise PipelineFailedError(what_failed(str(error)))
    state = watch.look("stopped" if stop.is_asked else "finished", is_last=True)
    display.show(state, force=True)
    return state


def _wait_for_the_batch(query: StreamingQuery) -> None:
    """Waits until the query is idle, or has ended itself at the next batch's begin (see may_start_batch)."""
    idle = threading.Event()
    for _ in range(int(STOP_WITHIN_SECONDS / TURN_SECONDS)):
        if not query.isActive or not query.status["isTriggerActive"]:
            break
        idle.wait(TURN_SECONDS)


class _Watch:
    """Looks at the checkpoint and at the cluster, publishes what is new, and makes the state that is shown."""

    def __init__(self, spark: SparkSession, page: PipelinePage, query: StreamingQuery, group: GroupOffsets) -> None:
        self.query = query
        self._page = page
        self._group = group
        self._published: FinishedBatch | None = None
        has_dead_letters = page.source.dead_letters is not None
        self._counter = BatchCounter(DEAD_LETTERS_METRIC if has_dead_letters else None)
        self._dead_letters = DeadLetters(spark, page) if has_dead_letters else None
        self._trouble_since: float | None = None

    def look(self, state: str, *, is_last: bool = False) -> PipelineState:
        """A cluster that cannot be reached is shown and asked again. Raises GroupError where that lasts longer than the
        page's `retry_timeout`, and at the last look: what the group shows then stays."""
        behind: int | None = None
        trouble: str | None = None
        self._counter.look(self.query)
        try:
            behind = self._publish(is_last=is_last)
            self._trouble_since = None
        except GroupError as error:
            now = time.monotonic()
            self._trouble_since = self._trouble_since or now
            lasted = now - self._trouble_since
            if is_last or lasted * 1_000 > self._page.retry_timeout_ms:
                raise
            left = self._page.retry_timeout_ms / 1_000 - lasted
            trouble = f"{error}; trying for another {left:.0f} s"
        return PipelineState(
            batches=self._counter.batches,
            records_read=self._counter.records,
            lag=behind,
            batch_ms=self._counter.batch_ms,
            state=state,
            dead_letters=self._dead_letters.count if self._dead_letters is not None else None,
            trouble=trouble,
        )

    def _publish(self, *, is_last: bool) -> int:
        """The lag, after keeping and committing what is newly finished."""
        bounds = self._group.bounds(self._page.source.topic)
        done = newest_finished_batch(self._page.checkpoint)
        if done is not None and self._dead_letters is not None:
            done = self._dead_letters.catch_up(done, self._counter, is_last=is_last)
        if done is not None and (self._published is None or done.batch_id != self._published.batch_id):
            if not self._page.sink.commits_offsets:
                self._group.commit(done.offsets)
            self._published = done
        return lag(bounds, done.offsets if done else {})


@contextmanager
def _metrics(spark: SparkSession, port: int | None) -> Iterator[None]:
    """Serves `/metrics` of the session's queries, if a port is given. Raises PipelineFailedError for one that is
    taken."""
    if port is None:
        yield
        return
    from moldau.spark import watch

    try:
        watching = watch(spark, metrics_port=port)
    except (OSError, OverflowError) as error:
        raise PipelineFailedError(f"127.0.0.1:{port} cannot serve /metrics: {error}") from error
    with watching:
        yield


@contextmanager
def _signals(stop: StopRequest) -> Iterator[None]:
    """SIGINT and SIGTERM ask for the stop; what they did before is put back."""
    before = {number: signal.signal(number, stop.handle) for number in (signal.SIGINT, signal.SIGTERM)}
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
