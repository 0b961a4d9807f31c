"""Makes Spark queries of a pipeline: a view for each source and flow, a query for each target."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.core.case import Row
from moldau.products.pipelines.core.failures import FlowError, what_failed
from moldau.products.pipelines.core.plan import FlowStep
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.core.times import SourceTimes
from moldau.products.pipelines.formats.json_text import json_of_row
from moldau.products.pipelines.running.batches import BatchWriter, ServedBatchWriter
from moldau.products.pipelines.sources.source import Source
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.products.pipelines.targets.target import TargetQuery
from moldau.spark import check_stream, is_connect, spark_error
from moldau.spark.session.settings_during import ROCKSDB, settings_during

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moldau.products.pipelines.checkpoints.lease import Lease
    from moldau.spark import DataFrame, SparkSession, StreamingQuery

_NO_LAST_ROW = "streaming aggregations without watermark"
"""Spark's error for an aggregate in append mode without a watermark that completes it."""

_REFUSALS: tuple[type[Exception], ...] = (FlowError, *spark_error())


def times_of(spec: PipelineSpec) -> SourceTimes:
    """Both timeouts are those of a lost broker, because the pipeline made the first contact before Spark started."""
    return SourceTimes(spec.retry_timeout_ms, spec.retry_timeout_ms)


def metric_of(source: str) -> str:
    """The metric for the number of a source's records in a batch that do not parse."""
    return f"dead_letters_of_{source}"


def load_sources(
    spark: SparkSession, spec: PipelineSpec, starts: Mapping[str, str], *, is_look: bool = False
) -> dict[str, DataFrame]:
    """Frames for the sources, by name; does not read yet. `starts`: topics' starting offsets that override the
    pipeline file. `is_look`: writes nothing to the pipeline's checkpoint. Raises FlowError, with the line of the
    pipeline file."""
    sources = spec.sources()
    loaded: dict[str, DataFrame] = {}
    for step in spec.plan.sources:
        source = sources[step.name].beginning_at(starts.get(step.name))
        if is_look:
            source = source.without_notes()
        try:
            load = source.load if step.is_stream else source.load_table
            loaded[step.name] = load(spark, times_of(spec))
        except _REFUSALS as error:
            raise _at(spec, step.line, step.place, error) from error
    return loaded


def make_views(spark: SparkSession, spec: PipelineSpec, loaded: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The rows of each source and flow by its name; does not run yet. `loaded`: the frames of the sources. Raises
    FlowError, with the line of the pipeline file."""
    views: dict[str, DataFrame] = {}
    sources = spec.sources()
    for step in spec.plan.sources:
        try:
            source = sources[step.name]
            rows = source.rows(loaded[step.name], metric_of(step.name))
            view = with_watermark(rows, source)
            view.createOrReplaceTempView(quoted(step.name))
            views[step.name] = view
        except _REFUSALS as error:
            raise _at(spec, step.line, step.place, error) from error
    for flow in spec.plan.flows:
        try:
            views[flow.name] = _rows_of_flow(spark, flow, spec.functions.get(flow.name))
            views[flow.name].createOrReplaceTempView(quoted(flow.name))
        except _REFUSALS as error:
            raise _at(spec, flow.line, flow.place, error) from error
    return views


def _rows_of_flow(spark: SparkSession, flow: FlowStep, function: Callable[[], DataFrame] | None) -> DataFrame:
    """Raises FlowError, and Spark's errors for SQL."""
    if function is None:
        return spark.sql(flow.text)
    from moldau.spark.definitions.definitions import DefinitionError, frame_of

    try:
        return frame_of(function, spark)
    except DefinitionError as error:
        raise FlowError(str(error)) from error


def make_result(spec: PipelineSpec, query: PipelineQuery, views: Mapping[str, DataFrame]) -> DataFrame:
    """The rows for the query's target. Raises FlowError, also for operations that a stream does not support."""
    step = query.step.target
    try:
        result = query.target.rows_of(query.target.newest(views[step.reads]))
        check_stream(result, step.mode)
        return result
    except _REFUSALS as error:
        if _NO_LAST_ROW in str(error) and step.mode == "append":
            error = FlowError(_how_groups_end(query))
        raise _at(spec, step.line, step.place, error) from error


def _how_groups_end(query: PipelineQuery) -> str:
    """Replaces Spark's error, which says only that the aggregate has no watermark, even if the source has one."""
    sources = [source for source in query.sources.values() if source.watermark is not None]
    times = [time for source in sources if (time := source.event_time or source.DEFAULT_EVENT_TIME) is not None]
    late = "" if times else "say with `watermark` of the source how late rows may be, and "
    return (
        "an aggregate in the mode append gives a row when no other row of its group can come any more: "
        f"{late}group by a window of that time (`group by window({(times or ['_timestamp'])[0]}, '1 minute')`), "
        "or write every change of a group with `mode: update`"
    )


class Run(msgspec.Struct, frozen=True):
    """Shared by the queries of one run. `once`: stop when all records that exist now are processed. `may_start_batch`
    is called before a batch writes its first record, and raises to stop the query; on a Spark Connect server, the lease
    stops it. `is_cut`: whether a batch stops waiting for its target."""

    once: bool
    may_start_batch: Callable[[], None]
    is_cut: Callable[[], bool] = lambda: False


class Claim(msgspec.Struct, frozen=True):
    """The right to run a query. `checkpoint_id`: of its checkpoint."""

    checkpoint_id: str
    lease: Lease


def start_query(
    result: DataFrame, spec: PipelineSpec, query: PipelineQuery, run: Run, claim: Claim, *, metadata: str
) -> StreamingQuery:
    """Starts one query. `metadata`: committed with the offsets of its group. Raises FlowError for operations that a
    stream does not support."""
    writer = result.writeStream.queryName(query.name).outputMode(query.target.mode)
    writer = writer.option("checkpointLocation", str(query.checkpoint))
    interval = f"{spec.batch_interval_ms} milliseconds"
    writer = writer.trigger(availableNow=True) if run.once else writer.trigger(processingTime=interval)
    written = TargetQuery(
        spec=spec.name,
        pipeline=query.name,
        checkpoint=query.checkpoint,
        checkpoint_id=claim.checkpoint_id,
        group=query.group,
        transactional_id=query.transactional_id,
        access=query.access,
        times=times_of(spec),
        metadata=metadata,
        source_topics=tuple(source.names for source in query.streams().values() if source.access == query.access),
    )
    write: Callable[[DataFrame, int], None]
    if is_connect(result.sparkSession):
        write = ServedBatchWriter(query.target, written, claim.lease.token)
    else:
        write = BatchWriter(query.target, written, run.may_start_batch, run.is_cut)
    try:
        with state_store_for(result.sparkSession, query.step.flows):
            return writer.foreachBatch(write).start()
    except spark_error() as error:
        step = query.step.target
        raise _at(spec, step.line, step.place, error) from error


def state_store_for(spark: SparkSession, flows: Iterable[FlowStep]) -> AbstractContextManager[None]:
    """Start a query over these flows in this context: Spark's transformWithState needs the RocksDB state store. A query
    keeps the state store that it started with."""
    return settings_during(spark, ROCKSDB if any(flow.is_stateful for flow in flows) else {})


def rows_of(frame: DataFrame, number: Callable[[str], object] = float) -> list[Row]:
    """All rows of a batch, with values as in JSON. `number`: converts numbers with a fraction."""
    texts = frame.selectExpr(f"{json_of_row(frame, with_nulls=True)} as row").collect()
    return [json.loads(row["row"], parse_float=number) for row in texts]


def with_watermark(rows: DataFrame, source: Source) -> DataFrame:
    """Raises FlowError if the event time is not a timestamp column."""
    event_time = source.event_time or source.DEFAULT_EVENT_TIME
    if event_time is None and source.watermark is None:
        return rows
    if event_time is None or dict(rows.dtypes).get(event_time) not in ("timestamp", "timestamp_ntz"):
        raise FlowError(
            f"event_time names {event_time!r}, which must be a column of the schema with the type timestamp; "
            f"the columns are {', '.join(f'{name} {kind}' for name, kind in rows.dtypes if name[:1] != '_')}"
        )
    return rows if source.watermark is None else rows.withWatermark(event_time, source.watermark)


def _at(spec: PipelineSpec, line: int, place: str, error: Exception) -> FlowError:
    return FlowError(f"{spec.file_name}:{line}: `{place}`: {what_failed(str(error))}")
