"""The persistent queries that the catalog says are running."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import changed_facts, newest_finished_batch, owes_batch
from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.running.progress import Rate
from moldau.products.pipelines.running.running_pipeline import RunningPipeline
from moldau.products.pipelines.running.stopping import StopRequest
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.sql.catalog.catalog import Catalog, PersistentQuery, QueryState, Relation
from moldau.products.sql.compiling.plan import kept_query
from moldau.products.sql.engine.answers import QueryStatus
from moldau.products.sql.engine.compiled import Compiled, Place
from moldau.products.sql.engine.running import spec_of, start_query
from moldau.spark import spark_error
from moldau.spark.queries.query_set import QuerySet
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.queries.supervision import STOP_WITHIN_SECONDS
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from moldau.spark import SparkSession

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Between two attempts to start a query that could not be started."""


class Maintained:
    """Owns the queries of a session. Only one thread at a time calls `follow` and `close`."""

    def __init__(self, spark: SparkSession, service: str, directory: Path, place: Place, *, once: bool) -> None:
        self._spark, self._service, self._directory, self._place, self._once = spark, service, directory, place, once
        self._set = QuerySet()
        self._kept: dict[str, _Kept] = {}
        """Replaced, never changed: other threads read it while queries start, which takes seconds."""
        self._stop = StopRequest()

    def follow(self, catalog: Catalog) -> None:
        """Stops and starts queries, so that those run that are to run. Raises nothing for a query that cannot be
        started: it is tried again."""
        for id, kept in self._kept.items():
            if catalog.queries.get(id) != kept.query:
                kept.end()
        still = {id: kept for id, kept in self._kept.items() if catalog.queries.get(id) == kept.query}
        wanted = (query for query in catalog.queries.values() if query.state is QueryState.RUNNING)
        new = {query.id: _Kept(query, self) for query in wanted if query.id not in still}
        self._kept = still | new
        self._catalog = catalog
        for kept in new.values():
            kept.start(catalog)

    def adopt(self, catalog: Catalog) -> None:
        """The queries of a catalog that was kept, which do not end by themselves. `supervise` starts them, one in each
        call: each takes a second, and statements are answered meanwhile."""
        running = (query for query in catalog.queries.values() if query.state is QueryState.RUNNING)
        self._kept = {query.id: _Kept(query, self) for query in running}
        self._catalog = catalog

    def changed_state(self, query: PersistentQuery, compiled: Compiled, sink: Relation) -> Path | None:
        """The checkpoint of the query if it holds the state of a query that differs. Raises CheckpointError."""
        (one,) = self._spec(query, compiled, sink).queries
        return one.checkpoint if changed_facts(one.checkpoint, one.step.facts()) else None

    def _spec(self, query: PersistentQuery, compiled: Compiled, sink: Relation) -> PipelineSpec:
        return spec_of(query, compiled, sink, self._place, service=self._service, directory=self._directory)

    def supervise(self) -> None:
        self._set.supervise(also_given_up=not self._once)
        due = next((kept for kept in self._kept.values() if kept.is_due), None)
        if due is not None:
            due.start(self._catalog)

    def statuses(self, catalog: Catalog) -> list[QueryStatus]:
        """Of all queries of the catalog."""
        kept = self._kept
        return [
            kept[id].status() if id in kept else QueryStatus(query=query, state=query.state.value)
            for id, query in catalog.queries.items()
        ]

    @property
    def is_kept(self) -> bool:
        return any(one.is_kept for one in self._kept.values())

    def have_processed(self, ends: Mapping[str, Sequence[int]]) -> bool:
        """Whether each query has finished a batch up to these ends of its topics."""
        return all(one.has_processed(ends) for one in self._kept.values())

    def states(self) -> list[SupervisedState]:
        """For a table of progress."""
        return self._set.states()

    def failures(self) -> list[str]:
        return [f"{id}: {one.error}" for id, one in self._kept.items() if one.error is not None and not one.is_kept]

    def close(self) -> None:
        self._stop.ask()
        for kept in self._kept.values():
            kept.withdraw()
        for kept in self._kept.values():
            kept.end()
        self._kept = {}
        self._set.close()


class _Kept:
    """One query that is to run."""

    def __init__(self, query: PersistentQuery, owner: Maintained) -> None:
        self.query = query
        self._owner = owner
        self._running: RunningPipeline | None = None
        self._spec: PipelineSpec | None = None
        self._error: str | None = None
        self._due = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._rate = Rate()
        self._starting = threading.Lock()
        self._has_ended = False

    @property
    def is_kept(self) -> bool:
        if self._running is not None:
            return self._running.is_kept
        return not self._owner._once

    @property
    def error(self) -> str | None:
        if self._running is None:
            return self._error
        failed = self._owner._set.errors([self._name])
        return failed[0] if failed and failed[0] is not None else None

    def start(self, catalog: Catalog) -> None:
        """Also a retry, in the thread that supervises: does nothing while another thread starts it, or has ended it."""
        if not self._starting.acquire(blocking=False):
            return
        try:
            if self._running is None and not self._has_ended:
                self._begin(catalog)
        finally:
            self._starting.release()

    def _begin(self, catalog: Catalog) -> None:
        owner = self._owner
        try:
            compiled = Compiled(catalog, kept_query(self.query), is_live=True)
            sink: Relation = catalog.relations[self.query.sink]
            self._spec = spec = owner._spec(self.query, compiled, sink)
            stop = StopRequest(owner._stop)
            self._running = start_query(spec, owner._spark, owner._set, stop, once=owner._once)
            self._error, self._pause_s = None, FIRST_PAUSE_S
        except (MoldauError, *spark_error()) as error:  # type: ignore[misc]
            self._error = what_failed(str(error))
            self._due = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    @property
    def is_due(self) -> bool:
        """Whether it is to be started now."""
        return self._running is None and not self._owner._once and time.monotonic() >= self._due

    def status(self) -> QueryStatus:
        if self._running is None:
            waiting = "starting" if self._error is None else "retrying"
            return QueryStatus(query=self.query, state=waiting, error=self._error)
        states = self._running.states
        if not states:
            return QueryStatus(query=self.query, state="starting")
        state = states[0]
        return QueryStatus(
            query=self.query,
            state=state.state,
            records_read=state.records_read,
            batches=state.batches,
            lag=state.lag,
            batch_ms=state.batch_ms,
            records_per_second=self._rate.per_second(time.monotonic(), state.records_read),
            dead_letters=state.dead_letters,
            state_rows=state.report.state_rows if state.report is not None else None,
            error=self.error or state.trouble,
        )

    def has_processed(self, ends: Mapping[str, Sequence[int]]) -> bool:
        if self._spec is None:
            return False
        (query,) = self._spec.queries
        done = newest_finished_batch(query.checkpoint)
        if done is not None and self._closes_windows and owes_batch(query.checkpoint, done.batch_id):
            return False
        offsets = {} if done is None else done.offsets
        return all(
            offsets.get(TopicPartition(topic, number), 0) >= end
            for topic in dict.fromkeys(str(source.topic) for source in query.topics())
            for number, end in enumerate(ends.get(topic, ()))
        )

    @property
    def _closes_windows(self) -> bool:
        return self._spec is not None and any(flow.has_watermark for flow in self._spec.queries[0].step.flows)

    def withdraw(self) -> None:
        if self._running is not None:
            self._running.stop_request.ask()
            self._running.withdraw()

    def end(self) -> None:
        """After the batch that is being written."""
        with self._starting:
            self._has_ended = True
            running, self._running = self._running, None
        if running is not None:
            running.stop_request.ask()
            running.withdraw()
            running.stop(STOP_WITHIN_SECONDS)
            running.close()

    @property
    def _name(self) -> str:
        return f"{self._owner._service}.{self.query.id}"
