"""Finds the record that made a batch fail. Spark reports the error and its line, but not the record.

The batch's offsets are read again, as a batch query over the same views, and halved until one record is left that fails
with the same error (`core.failures.first_failing`). The rows are not written, and the checkpoint is only read. Only the
part of the query that makes one row from each record is run: for groups, and for joins of two streams, the part below
them. An error there depends on one record, not on the rest of the batch or on state. For an error above that part, no
record is named.

A search has a separate thread, session and job group, so it does not stop the other queries of the pipeline. It ends
after WITHIN_SECONDS. If the search fails, it writes a line to the driver's log, and the query's error is reported
without a record.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
from moldau.products.pipelines.core.failures import Offsets, first_failing, what_failed
from moldau.products.pipelines.core.times import SourceTimes
from moldau.products.pipelines.running.flow import load_sources, make_views
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.spark import spark_error
from moldau.spark.frames.by_record import is_by_record
from moldau.spark.queries.namespace import copy_namespace
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.spark import DataFrame, SparkSession

logger = logging.getLogger("moldau.pipelines")

WITHIN_SECONDS = 120.0
"""The longest time that a search delays the query's restart; other queries do not wait."""
RETRY_TIMEOUT_MS = 5_000
"""For brokers that are unavailable during the search."""
LONGEST_KEY = 40
"""The most characters of a key that is shown."""


class FailingRecord(msgspec.Struct, frozen=True):
    """`key`: None if the record has no key, or one that is not readable text."""

    partition: TopicPartition
    offset: int
    key: str | None

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset}" + (f", key `{self.key}`" if self.key is not None else "")


class _SearchEndedError(Exception):
    """The search was stopped."""


class RecordSearch:
    """One search, which starts at once. `found`: the result so far."""

    def __init__(
        self,
        spark: SparkSession,
        spec: PipelineSpec,
        query: PipelineQuery,
        batch: BatchSpan,
        is_alike: Callable[[str], bool],
        within_seconds: float = WITHIN_SECONDS,
    ) -> None:
        """`spark`: a session of this process, not of a Spark Connect server. `is_alike`: whether another report of
        Spark is of the same failure."""
        self.found: FailingRecord | None = None
        self._context = spark.sparkContext
        self._group = f"failing-record-{secrets.token_hex(4)}"
        self._ends_at = time.monotonic() + within_seconds
        self._thread = threading.Thread(
            target=self._run, args=(spark, spec, query, batch, is_alike), name="failing-record", daemon=True
        )
        self._thread.start()

    def is_running(self) -> bool:
        """Call it repeatedly: it ends a search that takes too long."""
        if not self._thread.is_alive():
            return False
        if time.monotonic() < self._ends_at:
            return True
        self.end()
        return False

    def end(self) -> None:
        """Stops the search, and its jobs in Spark."""
        self._ends_at = 0.0
        if self._thread.is_alive():
            with suppress(*spark_error(), OSError):  # a JVM that has ended, which is reported elsewhere
                self._context.cancelJobGroup(self._group)

    def _run(
        self,
        spark: SparkSession,
        spec: PipelineSpec,
        query: PipelineQuery,
        batch: BatchSpan,
        is_alike: Callable[[str], bool],
    ) -> None:
        try:
            # only for this thread
            self._context.setJobGroup(self._group, f"the record that fails in {query.name}", interruptOnCancel=True)
            logger.warning("the record that fails in %s is looked for: Spark's next errors are of that", query.name)
            slices = _Slices(copy_namespace(spark), spec, query)

            def fails(offsets: Offsets) -> bool:
                return any(self._reports(slices, offsets, is_alike))

            place = first_failing(slices.offsets_of(batch), fails)
            if place is None:
                logger.warning("no single record of batch %d of %s fails alike", batch.last, query.name)
            else:
                self.found = FailingRecord(*place, key=None)  # the result if reading the key fails
                self.found = FailingRecord(*place, slices.key_of(*place))
                logger.warning("the record that fails in %s is %s", query.name, self.found)
        except _SearchEndedError:
            logger.warning("the search for the record that fails in %s took too long, or was stopped", query.name)
        except Exception as error:  # a flow may raise any error; then the failure is reported without the record
            logger.warning("the record that fails in %s was not found: %s", query.name, what_failed(str(error)))

    def _reports(self, slices: _Slices, offsets: Offsets, is_alike: Callable[[str], bool]) -> Iterator[bool]:
        for rows in slices.rows_of(offsets):
            if time.monotonic() >= self._ends_at:
                raise _SearchEndedError
            try:
                rows.write.format("noop").mode("overwrite").save()
            except spark_error() as error:
                if time.monotonic() >= self._ends_at:
                    raise _SearchEndedError from error
                yield is_alike(str(error))


class _Slices:
    """The query over some of its records, as the parts that make one row from each record."""

    def __init__(self, spark: SparkSession, spec: PipelineSpec, query: PipelineQuery) -> None:
        """`spark`: a session whose views nothing else uses."""
        self._spark = spark
        self._query = query
        timeout_ms = min(spec.retry_timeout_ms, RETRY_TIMEOUT_MS)
        self._times = SourceTimes(timeout_ms, timeout_ms)
        plan = msgspec.structs.replace(spec.plan, sources=query.step.sources, flows=query.step.flows)
        self._spec = msgspec.structs.replace(spec, plan=plan)
        loaded = load_sources(spark, self._spec, {})
        streams = make_views(spark, self._spec, loaded)
        self._has_result = self._is_by_record(query.step.target.reads, self._result(streams))
        parts = [name for name, rows in streams.items() if self._is_by_record(name, rows)]
        read = {name for flow in query.step.flows if flow.name in parts for name in flow.reads}
        self._parts = [query.step.target.reads] if self._has_result else [name for name in parts if name not in read]
        needed = {name for part in self._parts for name in self._upstream(part)}
        plan = msgspec.structs.replace(
            plan,
            sources=tuple(source for source in plan.sources if source.name in needed),
            flows=tuple(flow for flow in plan.flows if flow.name in needed),
        )
        self._spec = msgspec.structs.replace(spec, plan=plan)
        self._topics = {name: source for name, source in query.streams().items() if name in needed}
        self._tables = {one.name: loaded[one.name] for one in plan.sources if not one.is_stream}

    def offsets_of(self, batch: BatchSpan) -> Offsets:
        """The batch's offsets in the searched topics."""
        return {one: span for source in self._topics.values() for one, span in source.offsets_of(batch).items()}

    def rows_of(self, offsets: Offsets) -> Iterator[DataFrame]:
        loaded = {name: self._records(source, offsets) for name, source in self._topics.items()}
        views = make_views(self._spark, self._spec, {**self._tables, **loaded})
        for part in self._parts:
            yield self._result(views) if self._has_result else views[part]

    def key_of(self, partition: TopicPartition, offset: int) -> str | None:
        """As text, if it is short and printable."""
        source = next(one for one in self._topics.values() if one.reads(partition.topic))
        rows = self._records(source, {partition: (offset, offset + 1)}).select("key").collect()
        try:
            key = bytes(rows[0]["key"]).decode() if rows and rows[0]["key"] is not None else ""
        except UnicodeDecodeError:
            return None
        return key if 0 < len(key) <= LONGEST_KEY and key.isprintable() else None

    def _records(self, source: TopicSource, offsets: Offsets) -> DataFrame:
        own = {one: span for one, span in offsets.items() if source.reads(one.topic)}
        if not own:
            return self._spark.createDataFrame([], source.GIVEN_COLUMNS)
        return source.read_offsets(self._spark, own, self._times)

    def _result(self, views: Mapping[str, DataFrame]) -> DataFrame:
        target = self._query.target
        return target.rows_of(target.newest(views[self._query.step.target.reads]))

    def _is_by_record(self, name: str, rows: DataFrame) -> bool:
        """Whether each row of this flow or source comes from one record of a topic."""
        needed, topics = self._upstream(name), self._query.streams()
        streams = [source.name for source in self._query.step.sources if source.is_stream and source.name in needed]
        return bool(streams) and all(source in topics for source in streams) and is_by_record(rows)

    def _upstream(self, name: str) -> set[str]:
        """The steps that these rows come from."""
        flows = self._spec.plan.upstream(name)
        return {name, *(read for flow in flows for read in flow.reads)}
