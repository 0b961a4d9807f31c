"""From a page to a Spark query: the source as a view named `source`, the page's SQL over it, its result into the sink.

Columns of `source`: those of the schema (format json), or `value` (string, binary); and of every record, with a leading
underscore, `_key` (string), `_topic`, `_partition`, `_offset`, `_timestamp`. A JSON record that does not parse is no
row of `source`: the query counts it for each batch, and `dead_letters` keeps it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from moldau.products.pipelines.page import PipelinePage, PipelineSource
from moldau.products.pipelines.target import DEFAULT_TIMES, FlowError, SourceTimes, TargetQuery
from moldau.products.pipelines.targets.topic import quoted
from moldau.spark import expression, spark_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.spark import DataFrame, SparkSession, StreamingQuery

logger = logging.getLogger("moldau.pipelines")

MAX_OFFSETS_PER_TRIGGER = 1_000_000
"""So that the first run over a full topic shows progress, and a killed driver repeats at most this much."""

WRITE_ATTEMPTS = 3
"""Of one batch, where a task or an executor was lost; after that the pipeline ends with the reason."""

_MAY_PASS = ("BatchAbortedError", "ExecutorLostFailure", "FetchFailed", "Python worker exited unexpectedly")
"""What the report of such a loss has in it."""

SOURCE_VIEW = "source"

DEAD_LETTERS_METRIC = "dead_letters"
CORRUPT_COLUMN = "_moldau_corrupt"
DOES_NOT_PARSE = f"_value is null or _value.{CORRUPT_COLUMN} is not null"
"""No value, no JSON object, or a field that does not fit the schema."""

_RECORD_COLUMNS = (
    "cast(key as string) as _key",
    "topic as _topic",
    "partition as _partition",
    "offset as _offset",
    "timestamp as _timestamp",
)
_RECORD_NAMES = ("_key", "_topic", "_partition", "_offset", "_timestamp")


def times_of(page: PipelinePage) -> SourceTimes:
    """The pipeline itself made the first contact, before Spark started: a broker that does not answer the new client of
    a task is a lost one."""
    return SourceTimes(page.retry_timeout_ms, page.retry_timeout_ms)


def query_facts(page: PipelinePage) -> dict[str, str | None]:
    """What a checkpoint belongs to: with any of it changed, old offsets and aggregates have no meaning."""
    source = page.source
    return {
        "source.topic": source.topic,
        "source.format": source.format,
        "source.schema": source.schema,
        "source.event_time": source.event_time,
        "source.watermark": source.watermark,
        "sql": page.sql,
        "sink.mode": page.sink.mode,
    }


def make_result(spark: SparkSession, page: PipelinePage) -> DataFrame:
    """The rows that go to the sink; nothing runs yet.

    Raises FlowError; errors in the page's SQL are Spark's own (AnalysisException, ParseException).
    """
    view = read_source(spark, page.bootstrap_servers, page.source, counted_as=DEAD_LETTERS_METRIC, times=times_of(page))
    view.createOrReplaceTempView(SOURCE_VIEW)
    result = spark.sql(page.sql)
    return page.sink.rows_of(result)


def start_query(
    result: DataFrame,
    page: PipelinePage,
    *,
    once: bool,
    checkpoint_id: str,
    may_start_batch: Callable[[], None],
) -> StreamingQuery:
    """Starts the pipeline. `once`: stop when all that is there now is processed. `may_start_batch` is called before a
    batch writes its first record, and stops the query by raising."""
    writer = result.writeStream.queryName(page.name).outputMode(page.sink.mode)
    writer = writer.option("checkpointLocation", str(page.checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    query = TargetQuery(page.name, page.checkpoint, checkpoint_id, page.group, page.bootstrap_servers, times_of(page))
    write = page.sink.writer(query)

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            may_start_batch()
            try:
                write(batch, batch_id)
                return
            except spark_error() as error:
                if attempt == WRITE_ATTEMPTS or not any(reason in str(error) for reason in _MAY_PASS):
                    raise
                logger.warning("batch %d of pipeline %s is written anew: %s", batch_id, page.name, error)

    return writer.foreachBatch(write_batch).start()


def read_source(
    spark: SparkSession,
    bootstrap_servers: str,
    source: PipelineSource,
    *,
    counted_as: str | None = None,
    times: SourceTimes = DEFAULT_TIMES,
) -> DataFrame:
    """The stream behind the view `source`. `counted_as`: the name of a metric that every batch reports, with the number
    of its records that do not parse as `dead_letters`. Raises FlowError for an event time that is none."""
    records = (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", source.topic)
        .option("startingOffsets", source.start)
        .option("maxOffsetsPerTrigger", str(MAX_OFFSETS_PER_TRIGGER))
        .options(**times.options())
        .load()
    )
    frame = records.selectExpr(*value_columns(source), *_RECORD_COLUMNS)
    if source.format == "json":
        if counted_as is not None:
            frame = frame.observe(counted_as, expression(f"count_if({DOES_NOT_PARSE}) as {DEAD_LETTERS_METRIC}"))
        names = [name for name in frame.select("_value.*").columns if name != CORRUPT_COLUMN]
        parsed = [f"_value.{quoted(name)}" for name in names]
        frame = frame.where(f"not ({DOES_NOT_PARSE})").selectExpr(*parsed, *_RECORD_NAMES)
    event_time = source.event_time or "_timestamp"
    if dict(frame.dtypes).get(event_time) not in ("timestamp", "timestamp_ntz"):
        raise FlowError(
            f"source.event_time names {event_time!r}, which must be a column of the schema with the type timestamp; "
            f"the columns are {', '.join(f'{name} {kind}' for name, kind in frame.dtypes if name[:1] != '_')}"
        )
    return frame if source.watermark is None else frame.withWatermark(event_time, source.watermark)


def value_columns(source: PipelineSource) -> tuple[str, ...]:
    """The value of a record as SQL; with the format json a struct `_value`, and DOES_NOT_PARSE says what is none."""
    if source.format == "json":
        schema = str(source.schema).strip()
        if schema.lower().startswith("struct<") and schema.endswith(">"):
            schema = schema[len("struct<") : -1]
        text = f"{schema}, {CORRUPT_COLUMN} string".replace("\\", "\\\\").replace("'", "\\'")
        options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT_COLUMN}')"
        return (f"from_json(cast(value as string), '{text}', {options}) as _value",)
    return ("cast(value as string) as value" if source.format == "string" else "value",)
