"""One pipeline in a Spark session: takes the leases of its queries, starts them in a QuerySet, and stops them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from moldau.client.blocking.silence import ListeningDialer
from moldau.products.pipelines.checkpoints.checkpoint import claim_checkpoint, forget_unfinished_write
from moldau.products.pipelines.checkpoints.lease import Lease
from moldau.products.pipelines.core.commit_metadata import BoardPlace, pipeline_metadata
from moldau.products.pipelines.running.checkpoint_versions import (
    ChosenStarts,
    finish_reset,
    forget_unfinished_reset,
    starting_offsets,
)
from moldau.products.pipelines.running.flow import Claim, Run, load_sources, make_result, make_views, start_query
from moldau.products.pipelines.running.preflight import check_owner, check_spec, make_targets
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.running.refreshing import KeptTables
from moldau.products.pipelines.running.stopping import StopRequest
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.spark import is_connect
from moldau.spark.queries.namespace import as_active, open_namespace
from moldau.spark.queries.query_set import QuerySet, QueryStart
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.task_secrets import check_secrets
from moldau.transport.tcp import TCP

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession


class ClaimedPipeline(msgspec.Struct, frozen=True):
    """A pipeline whose clusters and places were checked and whose leases are held. `claims`: by query, in order."""

    spec: PipelineSpec
    claims: tuple[Claim, ...]

    @property
    def starting(self) -> list[SupervisedState]:
        """The states of its queries before their start."""
        return [SupervisedState(query.name, 0, 0, None, 0, "starting") for query in self.spec.queries]

    def release(self) -> None:
        for claim in self.claims:
            claim.lease.release()


def claim_pipeline(spec: PipelineSpec, *, on_server: bool = False, is_shared: bool = False) -> ClaimedPipeline:
    """Needs no Spark, whose start takes seconds. `on_server`: on Spark Connect. `is_shared`: this process runs other
    pipelines too. Raises PreflightError, LeaseError, CheckpointError, and the errors of sources and targets."""
    finish_reset(spec.checkpoint)
    check_spec(spec, on_server=on_server)
    with ExitStack() as stack:
        leases = [
            stack.enter_context(Lease(query.checkpoint, is_shared=is_shared, beside_writers=on_server))
            for query in spec.queries
        ]
        forget_unfinished_reset(spec.checkpoint)
        for query in () if on_server else spec.queries:
            forget_unfinished_write(query.checkpoint)
        claims = [
            Claim(
                claim_checkpoint(query.checkpoint, query.step.facts(), pipeline=query.name, places=query.places), lease
            )
            for query, lease in zip(spec.queries, leases, strict=True)
        ]
        stack.pop_all()
    return ClaimedPipeline(spec, tuple(claims))


class RunningPipeline:
    """The queries of a pipeline in `queries`, from the constructor to `close`. `stop`: a request that no batch begins.

    Its views have a namespace of their own, so pipelines in one session may name them alike."""

    def __init__(
        self,
        claimed: ClaimedPipeline,
        spark: SparkSession,
        queries: QuerySet,
        *,
        stop: StopRequest,
        once: bool = False,
        board: BoardPlace | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the queries one after the other. `once`: until all current records are processed. `board`: its port if
        one serves it, for the commit metadata. `settings`: of Spark. Releases the claims if that fails. Raises
        FlowError, PreflightError, CheckpointError, and the errors of sources and targets."""
        self.spec = claimed.spec
        self.stop_request = stop
        self._claims = {query.name: claim for query, claim in zip(claimed.spec.queries, claimed.claims, strict=True)}
        self._queries = queries
        self._names = tuple(self._claims)
        self._stack = ExitStack()
        try:
            own = open_namespace(spark, settings)
            with as_active(own):
                self._start(own, once=once, board=board)
        except BaseException:
            self.close()
            raise

    @property
    def states(self) -> list[SupervisedState]:
        return self._queries.states(self._names)

    @property
    def is_kept(self) -> bool:
        """Whether one of its queries is neither over nor given up."""
        return self._queries.has_kept(self._names)

    def failures(self) -> list[str]:
        """A sentence for each query that was given up, with the line of the pipeline file."""
        return [
            f"{self.spec.file_name}:{query.step.target.line}: `{query.step.target.place}`: {error}"
            for query, error in zip(self.spec.queries, self._queries.errors(self._names), strict=True)
            if error is not None
        ]

    def refresh_tables(self) -> None:
        """Call it repeatedly: drops cached tables that are too old."""
        self._tables.refresh()

    def withdraw(self) -> None:
        """Before `stop`, so that the searches for failing records and the writers on a Spark Connect server end."""
        self._queries.end_searches(self._names)
        for claim in self._claims.values():
            claim.lease.withdraw()

    def stop(self, within_seconds: float) -> list[SupervisedState]:
        """Waits for the batches that are being written, at most so long, or until the request is urgent; returns the
        last states."""
        deadline = time.monotonic() + within_seconds
        return self._queries.stop(self._names, lambda: self.stop_request.is_urgent_after(deadline))

    def close(self) -> None:
        """Ends the queries in any state and releases their leases."""
        for name, claim in reversed(self._claims.items()):
            has_ended = self._queries.remove(name)
            claim.lease.release(still_writes=not has_ended)
        self._stack.close()

    def _start(self, spark: SparkSession, *, once: bool, board: BoardPlace | None) -> None:
        spec, stop = self.spec, self.stop_request
        check_secrets(spark, spec.clusters)
        results, views = _results(spark, spec, starting_offsets(spec))
        _claim_targets(spec)
        self._tables = KeptTables(spec, views)
        self._stack.callback(self._tables.close)
        if not is_connect(spark):
            for claim in self._claims.values():
                claim.lease.hold_in(spark)
        run = Run(once, stop.check, lambda: stop.is_urgent)
        for start in list(self._starts(spark, run, results, board)):
            self._queries.start(start)
            if start.name != self._names[-1]:
                self._queries.wait_until_reading(start.name)

    def _starts(
        self, spark: SparkSession, run: Run, results: Mapping[str, DataFrame], board: BoardPlace | None
    ) -> Iterator[QueryStart]:
        """Raises CheckpointError before any of them starts."""
        dialer = ListeningDialer(TCP)  # queries look one after another, and each would wait for a stalled broker
        for query in self.spec.queries:
            metadata = _metadata(self.spec, query, board)
            claim = self._claims[query.name]
            start = partial(start_query, results[query.name], self.spec, query, run, claim, metadata=metadata)
            yield QueryStart(query.name, start, QueryProgress(spark, self.spec, query, metadata, dialer))


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


def _metadata(spec: PipelineSpec, query: PipelineQuery, board: BoardPlace | None) -> str:
    """The metadata of the query, for the console and for other runs."""
    sources = [source for source in query.sources.values() if isinstance(source, RecordSource)]
    topics = [source.dead_letters for source in sources if source.dead_letters is not None]
    return pipeline_metadata(spec.name, query.name, socket.gethostname(), board, topics).text()
