"""Runs a pipeline: checks the clusters, takes the lease, starts the queries in a Spark session, and ends cleanly.

A stop (SIGINT, SIGTERM) waits for the batches that are being written, up to two minutes, and begins no other: nothing
is cut in two. A second signal cuts them short. That loses nothing, nor does a kill: a batch that was running is run
again. A broker that is lost is tried for `retry_timeout`; the
terminal gets one line every 10 s of that, and everything else that Spark and the client say goes to the driver's log.
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
    """Who sees a run beside the terminal."""

    def show(self, states: Sequence[PipelineState]) -> None:
        """What the queries do now; comes several times a second."""


class StoppedOnPurpose(Exception):
    """Ends the query before a batch that shall not begin any more."""


class StopRequest:
    """What a signal asks for. The handler runs in the main thread, between any two of its steps: `threading.Event.set`
    would wait for ever there, if the main thread holds the event's lock just then. So the handler sets plain flags.

    `is_urgent`: asked for again, or the time for the batches is over. One request may come as two signals, such as from
    a service manager that sends one to each process, and from the process above this one: those of AS_ONE_SECONDS count
    as one.
    """

    def __init__(self) -> None:
        self.is_asked = self.is_urgent = False
        self._first = 0.0
        self._never = threading.Event()

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """A handler of signals."""
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
        """Whether a stop was asked for, after `seconds`."""
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
    """Runs until a signal stops it, or with `once` until what is there now is processed; gives the last state of each
    query. `onlookers`: see the run too. `board`: where one of them serves it, for those who look at the cluster.
    `settings`: of Spark, as in `open_session`. `retry_first_seconds`: how soon a query that failed is started again, at
    first. `stop_within_seconds`: how long a stop waits for the batches that are being written.

    Raises PreflightError, LeaseError, CheckpointError, FlowError, what `open_session`, a source or a target refuses;
    and PipelineFailedError where a query was given up, when the others have ended.
    Call it from the main thread: it takes SIGINT and SIGTERM while it runs.
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
    """Runs after every check: a pipeline that is refused owns nothing and makes no topic. Raises PreflightError where
    another pipeline was first since `check_spec`."""
    for query in spec.queries:
        query.target.claim(spec.name)
        check_owner(spec, query)
    make_targets(spec)


def _results(
    spark: SparkSession, spec: PipelineSpec, chosen: ChosenStarts
) -> tuple[dict[str, DataFrame], Mapping[str, DataFrame]]:
    """What each query writes, by its name, and the views of the pipeline. Raises FlowError, with the line of the
    pipeline file.

    A source begins at one place in a view: queries that begin elsewhere get views of their own. The views of the
    others replace these: Spark has looked into the views already, but a Spark Connect server does so when a query
    starts. There all queries begin at what was chosen, in such a run."""
    results: dict[str, DataFrame] = {}
    if chosen.others:
        own = make_views(spark, spec, load_sources(spark, spec, {}))
        results = {query.name: make_result(spec, query, own) for query in spec.queries if query.name in chosen.others}
    views = make_views(spark, spec, load_sources(spark, spec, chosen.sources))
    others = {query.name: make_result(spec, query, views) for query in spec.queries if query.name not in chosen.others}
    return {**results, **others}, views


class _Start(msgspec.Struct, frozen=True):
    """How a query starts, also after a failure, and its progress."""

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
    """`ids`: of the checkpoints of the queries. `stack` closes their progress."""
    dialer = ListeningDialer(TCP)  # queries look in turn: each would wait for a broker that stands still
    for query, checkpoint_id in zip(spec.queries, ids, strict=True):
        metadata = _metadata(spec, query, board)
        start = partial(
            start_query, results[query.name], spec, query, run, checkpoint_id=checkpoint_id, metadata=metadata
        )
        progress = QueryProgress(spark, spec, query, metadata, dialer)
        stack.callback(progress.close)
        yield _Start(start, progress)


def _start_all(starts: Sequence[_Start], stack: ExitStack, retry_first_seconds: float) -> Iterator[Supervised]:
    """Starts the queries one after the other; `stack` ends them. Raises FlowError for what Spark refuses."""
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
    """`once`: the queries end by themselves, and one that was given up before is not waited for."""

    def show(states: list[PipelineState], *, force: bool = False) -> list[PipelineState]:
        display.show(states, force=force)
        for onlooker in onlookers:
            onlooker.show(states)
        return states

    while any(query.keeps_spec for query in queries) and not stop.wait(LOOK_SECONDS):
        tables.refresh()
        states = [query.supervise(also_given_up=not once) for query in queries]
        if not stop.is_asked:  # else a query may have ended on purpose, which looks like a failure here
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
    """SIGINT and SIGTERM ask for the stop; what they did before is put back."""
    before = {number: signal.signal(number, stop.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
