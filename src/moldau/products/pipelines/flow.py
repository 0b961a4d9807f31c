"""From a page to a Spark query: the source as a view named `source`, the page's SQL over it, its result into the sink.

Columns of `source`: those of the schema (format json), or `value` (string, binary); and of every record, with a leading
underscore, `_key` (string), `_topic`, `_partition`, `_offset`, `_timestamp`. A JSON record that does not parse gives
nulls in the schema's columns, and is still a row.

What goes to a topic: a result with a column `value` of text or bytes, and at most `key` beside it, goes as it is; any
other row becomes one JSON object. `sink.key` names the column that becomes the record's key, as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.page import PipelinePage, PipelineSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.spark import DataFrame, SparkSession, StreamingQuery

MAX_OFFSETS_PER_TRIGGER = 1_000_000
"""So that the first run over a full topic shows progress, and a killed driver repeats at most this much."""

SOURCE_VIEW = "source"

_RECORD_COLUMNS = (
    "cast(key as string) as _key",
    "topic as _topic",
    "partition as _partition",
    "offset as _offset",
    "timestamp as _timestamp",
)


class FlowError(MoldauError):
    """The page's SQL and sink do not fit together; the message says where."""


def start_query(
    spark: SparkSession, page: PipelinePage, *, once: bool, may_start_batch: Callable[[], None]
) -> StreamingQuery:
    """Starts the pipeline. `once`: stop when all that is there now is processed. `may_start_batch` is called before a
    batch writes its first record to a topic, and stops the query by raising.

    Raises FlowError; errors in the page's SQL are Spark's own (AnalysisException, ParseException).
    """
    result = _result(spark, page)
    writer = result.writeStream.queryName(page.name).outputMode(page.sink.mode)
    writer = writer.option("checkpointLocation", str(page.checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    if page.sink.path is not None:
        return writer.format("parquet").option("path", str(page.sink.path)).start()
    servers, topic = page.bootstrap_servers, str(page.sink.topic)

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        may_start_batch()
        write_to_topic(batch, servers, topic)

    return writer.foreachBatch(write_batch).start()


def read_source(spark: SparkSession, bootstrap_servers: str, source: PipelineSource) -> DataFrame:
    """The stream behind the view `source`, from the first record on."""
    records = (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", source.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(MAX_OFFSETS_PER_TRIGGER))
        .load()
    )
    frame = records.selectExpr(_value_expression(source), *_RECORD_COLUMNS)
    if source.format == "json":
        frame = frame.selectExpr("_value.*", "_key", "_topic", "_partition", "_offset", "_timestamp")
    return frame if source.watermark is None else frame.withWatermark("_timestamp", source.watermark)


def write_to_topic(batch: DataFrame, bootstrap_servers: str, topic: str) -> None:
    """Writes a batch of records (columns `value` and perhaps `key`); when it returns, all are acknowledged."""
    to = batch.write.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic)
    to.mode("append").save()


def _result(spark: SparkSession, page: PipelinePage) -> DataFrame:
    read_source(spark, page.bootstrap_servers, page.source).createOrReplaceTempView(SOURCE_VIEW)
    result = spark.sql(page.sql)
    return result if page.sink.path is not None else to_records(result, page.sink.key)


def _value_expression(source: PipelineSource) -> str:
    if source.format == "json":
        schema = str(source.schema).replace("\\", "\\\\").replace("'", "\\'")
        return f"from_json(cast(value as string), '{schema}') as _value"
    return "cast(value as string) as value" if source.format == "string" else "value"


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
    quoted = f"`{key.replace('`', '``')}`"
    as_text = quoted if types[key] in ("string", "binary") else f"cast({quoted} as string)"
    return result.selectExpr(f"{as_text} as key", value)
