"""Runs a pipeline: checks the clusters, takes the lease, starts the queries in a Spark session, and ends cleanly.

A stop (SIGINT, SIGTERM) waits for the batches that are being written, up to two minutes, and begins no others. A second
signal interrupts them. Neither this nor a kill loses records, because an interrupted batch runs again. A lost broker is
retried for `retry_timeout`, with a line every 10 s on the terminal. All other output of Spark and the client goes to
the driver's log.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace
from rich.console import Console

from moldau.client.blocking.silence import ListeningDialer
from moldau.products.pipelines.checkpoints.checkpoint import claim_checkpoint
from moldau.products.pipelines.checkpoints.lease import Lease
from moldau.products.pipelines.core.commit_metadata import BoardPlace, pipeline_metadata
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.running.checkpoint_versions import (
    ChosenStarts,
    finish_reset,
    forget_unfinished_reset,
    starting_offsets,
)
from moldau.products.pipelines.running.flow import Run, load_sources, make_result, make_views, start_query
from moldau.products.pipelines.running.logs import logs_to
from moldau.products.pipelines.running.preflight import check_owner, check_spec, make_targets
from moldau.products.pipelines.running.progress import PipelineState, ProgressDisplay
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.running.refreshing import KeptTables
from moldau.products.pipelines.running.supervision import (
    LOOK_SECONDS,
    RETRY_FIRST_SECONDS,
    STOP_WITHIN_SECONDS,
    Supervised,
)
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec, describe
from moldau.transport.tcp import TCP

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession, StreamingQuery

DRIVER_LOG = "driver.log"
AS_ONE_SECONDS = 1.0


class Onlooker(Protocol):
    """Observes a run, besides the terminal."""

    def show(self, states: Sequence[PipelineState]) -> None:
        """Receives the state of the queries, several times a second."""


class StoppedOnPurpose(Exception):
    """Ends the query before a batch that must not begin."""


class StopRequest:
    """A request by signals. The handler runs in the main thread, between any two of its steps. There
    `threading.Event.set` would block forever if the main thread held the event's lock, so the handler sets plain flags.

    `is_urgent`: the request was repeated, or the time for the batches is over. Signals within AS_ONE_SECONDS count as
    one request, because one may come twice: from a service manager that signals each process, and from the parent
    process.
    """

    def __init__(self) -> None:
        self.is_asked = self.is_urgent = False
        self._first = 0.0
        self._never = threading.Event()

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """A signal handler."""
        now = time.monotonic()
        if not self.is_asked:
            self.is_asked, self._first = True, now
        elif now - self._first > AS_ONE_SECONDS:
            self.is_urgent = True

    def check(self) -> None:
        """Raises StoppedOnPurpose."""
        if self.is_asked:
            raise StoppedOnPurpose

    def wait(self, seconds: float) -> bool:
        """Waits for `seconds`; returns whether a stop was requested."""
        self._never.wait(seconds)
        return self.is_asked


def run_pipeline(
    spec: PipelineSpec,
    *,
    once: bool = False,
    console: Console | None = None,
    onlookers: Sequence[Onlooker] = (),
    board: BoardPlace | None = None,
    settings: Mapping[str, str] | None = None,
    retry_first_seconds: float = RETRY_FIRST_SECONDS,
    stop_within_seconds: float = STOP_WITHIN_SECONDS,
) -> list[PipelineState]:
    """Runs until a signal stops it, or with `once` until all current records are processed; returns the last state of
    each query. `onlookers`: also observe the run. `board`: its port if one of them serves it, for the commit metadata.
    `settings`: of Spark, as in `open_session`. `retry_first_seconds`: the first pause before a failed query is started
    again. `stop_within_seconds`: how long a stop waits for the batches that are being written.

    Raises PreflightError, LeaseError, CheckpointError, FlowError, and the errors of `open_session`, sources and
    targets. If a query was given up, raises PipelineFailedError when the others have ended. Call it from the main
    thread: it handles SIGINT and SIGTERM while it runs.
    """
    from moldau.spark import open_session
    from moldau.spark.session.connect import REMOTE
    from moldau.spark.session.task_secrets import check_secrets

    stop = StopRequest()
    on_server = REMOTE in (settings or {})
    finish_reset(spec.checkpoint)
    check_spec(spec, on_server=on_server)
    log = spec.checkpoint / DRIVER_LOG
    facts = {**describe(spec), "log": str(log)}
    lease = Lease(spec.checkpoint, beside_writers=on_server)
    with lease, logs_to(log), _signals(stop), ProgressDisplay(facts, console) as display:
        forget_unfinished_reset(spec.checkpoint)
        ids = [
            claim_checkpoint(query.checkpoint, query.step.facts(), pipeline=query.name, places=query.places)
            for query in spec.queries
        ]
        display.show([PipelineState(query.name, 0, 0, None, 0, "starting") for query in spec.queries], force=True)
        spark = open_session(spec.name, settings, log_path=log, keep_open=(lease.fileno(),))
        try:
            check_secrets(spark, spec.clusters)
            with ExitStack() as stack:
                results, views = _results(spark, spec, starting_offsets(spec))
                _claim_targets(spec)
                tables = stack.enter_context(closing(KeptTables(spec, views)))
                run = Run(once, lease, stop.check, lambda: stop.is_urgent)
                starts = list(_starts(spark, spec, run, results, ids, board, stack))
                queries = list(_start_all(starts, stack, retry_first_seconds))
                states = _until_the_end(
                    queries, tables, lease, stop, stop_within_seconds, display, onlookers, once=once
                )
        except ConnectionError as error:
            raise PipelineFailedError(f"the JVM of Spark ended before the pipeline did; {log} says why") from error
    _raise_failures(spec, queries)
    return states


def _claim_targets(spec: PipelineSpec) -> None:
    """Runs after every check: a rejected pipeline claims no target and creates no topic. Raises PreflightError if
    another pipeline claimed a target since `check_spec`."""
    for query in spec.queries:
        query.target.claim(spec.name)
        check_owner(spec, query)
    make_targets(spec)


def _results(
    spark: SparkSession, spec: PipelineSpec, chosen: ChosenStarts
) -> tuple[dict[str, DataFrame], Mapping[str, DataFrame]]:
    """The result of each query, by name, and the views of the pipeline. Raises FlowError, with the line of the pipeline
    file.

    A view reads its source from one start, so queries with a different start get separate views, which the views of the
    others then replace. Spark has already resolved the replaced views, but a Spark Connect server resolves views when a
    query starts. On a server, all queries of such a run therefore begin at the chosen start."""
    results: dict[str, DataFrame] = {}
    if chosen.others:
        own = make_views(spark, spec, load_sources(spark, spec, {}))
        results = {query.name: make_result(spec, query, own) for query in spec.queries if query.name in chosen.others}
    views = make_views(spark, spec, load_sources(spark, spec, chosen.sources))
    others = {query.name: make_result(spec, query, views) for query in spec.queries if query.name not in chosen.others}
    return {**results, **others}, views


class _Start(msgspec.Struct, frozen=True):
    """A function that starts a query, also after a failure, and the query's progress."""

    start: Callable[[], StreamingQuery]
    progress: QueryProgress


def _starts(
    spark: SparkSession,
    spec: PipelineSpec,
    run: Run,
    results: Mapping[str, DataFrame],
    ids: Sequence[str],
    board: BoardPlace | None,
    stack: ExitStack,
) -> Iterator[_Start]:
    """`ids`: of the queries' checkpoints. `stack` closes the progress of each query."""
    dialer = ListeningDialer(TCP)  # queries look one after another, and each would wait for a stalled broker
    for query, checkpoint_id in zip(spec.queries, ids, strict=True):
        metadata = _metadata(spec, query, board)
        start = partial(
            start_query, results[query.name], spec, query, run, checkpoint_id=checkpoint_id, metadata=metadata
        )
        progress = QueryProgress(spark, spec, query, metadata, dialer)
        stack.callback(progress.close)
        yield _Start(start, progress)


def _start_all(starts: Sequence[_Start], stack: ExitStack, retry_first_seconds: float) -> Iterator[Supervised]:
    """Starts the queries one after the other; `stack` ends them. Raises FlowError for a query that Spark rejects."""
    for one in starts:
        supervised = Supervised(one.start, one.progress, retry_first_seconds)
        stack.callback(supervised.end)
        yield supervised
        if one is not starts[-1]:
            supervised.wait_until_reading()


def _metadata(spec: PipelineSpec, query: PipelineQuery, board: BoardPlace | None) -> str:
    """The metadata of the query, for the console and for other runs."""
    sources = [source for source in query.sources.values() if isinstance(source, RecordSource)]
    topics = [source.dead_letters for source in sources if source.dead_letters is not None]
    return pipeline_metadata(spec.name, query.name, socket.gethostname(), board, topics).text()


def _until_the_end(
    queries: Sequence[Supervised],
    tables: KeptTables,
    lease: Lease,
    stop: StopRequest,
    stop_within_seconds: float,
    display: ProgressDisplay,
    onlookers: Sequence[Onlooker],
    *,
    once: bool,
) -> list[PipelineState]:
    """`once`: the queries end by themselves, and a query that was given up is not tried again."""

    def show(states: list[PipelineState], *, force: bool = False) -> list[PipelineState]:
        display.show(states, force=force)
        for onlooker in onlookers:
            onlooker.show(states)
        return states

    while any(query.keeps_spec for query in queries) and not stop.wait(LOOK_SECONDS):
        tables.refresh()
        states = [query.supervise(also_given_up=not once) for query in queries]
        if not stop.is_asked:  # otherwise a query that ended on purpose would look like a failure
            show(states)
    for query in queries:
        query.end_search()
    lease.withdraw()
    if stop.is_asked:
        show([one.state if one.is_over else replace(one.state, state="stopping") for one in queries], force=True)
    deadline = time.monotonic() + stop_within_seconds

    def is_urgent() -> bool:
        stop.is_urgent = stop.is_urgent or time.monotonic() > deadline
        return stop.is_urgent

    return show([query.stop(is_urgent) for query in queries], force=True)


def _raise_failures(spec: PipelineSpec, queries: Sequence[Supervised]) -> None:
    failed = [
        f"{spec.file_name}:{query.step.target.line}: `{query.step.target.place}`: {supervised.error}"
        for query, supervised in zip(spec.queries, queries, strict=True)
        if supervised.error is not None
    ]
    if failed:
        raise PipelineFailedError("\n".join(failed))


@contextmanager
def _signals(stop: StopRequest) -> Iterator[None]:
    """SIGINT and SIGTERM request the stop; restores the previous handlers."""
    before = {number: signal.signal(number, stop.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
