"""From a page to a Spark query: the source as a view named `source`, the page's SQL over it, its result into the sink.

Columns of `source`: those of the schema (format json), or `value` (string, binary); and of every record, with a leading
underscore, `_key` (string), `_topic`, `_partition`, `_offset`, `_timestamp`. A JSON record that does not parse is no
row of `source`: the query counts it for each batch, and `dead_letters` keeps it.

What goes to a topic: a result with a column `value` of text or bytes, and at most `key` beside it, goes as it is; any
other row becomes one JSON object. `sink.key` names the column that becomes the record's key, as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from moldau.client.protocol.retries import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS
from moldau.errors import MoldauError
from moldau.products.pipelines.page import PipelinePage, PipelineSource
from moldau.products.pipelines.parquet import ParquetTarget
from moldau.spark import expression

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.spark import DataFrame, SparkSession, StreamingQuery

MAX_OFFSETS_PER_TRIGGER = 1_000_000
"""So that the first run over a full topic shows progress, and a killed driver repeats at most this much."""

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


class FlowError(MoldauError):
    """The page's source, SQL and sink do not fit together; the message says where."""


class SourceTimes(msgspec.Struct, frozen=True):
    """How long the tasks of a query try to reach a broker."""

    first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS
    retry_timeout_ms: int = RETRY_TIMEOUT_MS

    def options(self) -> dict[str, str]:
        """As options of the format `moldau`."""
        return {
            "firstContactTimeoutMs": str(max(1, self.first_contact_timeout_ms)),
            "retryTimeoutMs": str(max(1, self.retry_timeout_ms)),
        }


DEFAULT_TIMES = SourceTimes()


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
    return result if page.sink.path is not None else to_records(result, page.sink.key)


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
    servers, times = page.bootstrap_servers, times_of(page)
    files = None if page.sink.path is None else ParquetTarget(page.sink.path, page.name, checkpoint_id)

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        may_start_batch()
        if files is not None:
            files.write(batch, batch_id)
        else:
            write_to_topic(batch, servers, str(page.sink.topic), times)

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
        parsed = [f"_value.{_quoted(name)}" for name in names]
        frame = frame.where(f"not ({DOES_NOT_PARSE})").selectExpr(*parsed, *_RECORD_NAMES)
    event_time = source.event_time or "_timestamp"
    if dict(frame.dtypes).get(event_time) not in ("timestamp", "timestamp_ntz"):
        raise FlowError(
            f"source.event_time names {event_time!r}, which must be a column of the schema with the type timestamp; "
            f"the columns are {', '.join(f'{name} {kind}' for name, kind in frame.dtypes if name[:1] != '_')}"
        )
    return frame if source.watermark is None else frame.withWatermark(event_time, source.watermark)


def write_to_topic(batch: DataFrame, bootstrap_servers: str, topic: str, times: SourceTimes = DEFAULT_TIMES) -> None:
    """Writes a batch of records (columns `value` and perhaps `key`); when it returns, all are acknowledged."""
    to = batch.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic)
    to.options(**times.options()).mode("append").save()


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


def to_records(result: DataFrame, key: str | None = None) -> DataFrame:
    """The columns `value` and, if there is one, `key`. Raises FlowError if there is no column `key` names."""
    columns = result.columns
    if key is not None and key not in columns:
        raise FlowError(f"sink.key names the column {key!r}, but the SQL gives {', '.join(columns)}")
    types = dict(result.dtypes)
    goes_as_it_is = types.get("value") in ("string", "binary") and set(columns) <= {"key", "value"}
    value = "value" if goes_as_it_is else "to_json(struct(*)) as value"
    if key is None and goes_as_it_is and "key" in columns:
        key = "key"
    if key is None:
        return result.selectExpr(value)
    quoted = _quoted(key)
    as_text = quoted if types[key] in ("string", "binary") else f"cast({quoted} as string)"
    return result.selectExpr(f"{as_text} as key", value)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
