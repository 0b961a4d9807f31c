"""Topics as a Spark sink: `format("moldau")`, for batches and for streams in append mode.

Delivery is at least once. Each task writes with an idempotent producer of its own, so nothing is doubled by a retry on
the wire; but a task or a micro-batch that Spark runs again writes its records again, and the first try's stay.
A task is through when all of its records are acknowledged by all in-sync replicas.

Columns: `value` (string or binary), and if they are there `key` (string or binary), `topic` (string; where the option
`topic` is not set), `partition` (int), `headers` (array<struct<key string, value binary>>). No other is taken.
Update mode is not for Python sinks (Spark refuses it): write a batch inside `foreachBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.spark.options import DEFAULT_CLIENT_ID, OptionError, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_BATCH_NUMBER = "streaming.sql.batchId"
"""Spark's name of it, from MicroBatchExecution."""

# what each column may be, in Spark's own words for its types
COLUMN_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True)
class RecordsWritten(WriterCommitMessage):
    """What a task reports to the driver: how many records were acknowledged."""

    records: int


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Raises OptionError for a column that is missing, unknown, or of another type."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, kind in types.items():
        if name not in COLUMN_TYPES:
            raise OptionError(f"column {name!r} has no place in a record; the columns are {', '.join(COLUMN_TYPES)}")
        if kind not in COLUMN_TYPES[name]:
            raise OptionError(f"column {name!r} must be {' or '.join(COLUMN_TYPES[name])}, not {kind}")
    if "value" not in types:
        raise OptionError("there is no column 'value'")
    if options.topic is None and "topic" not in types:
        raise OptionError("no topic: set the option 'topic', or give every row a column 'topic'")
    if options.topic is not None and "topic" in types:
        raise OptionError("both the option 'topic' and a column 'topic' name a topic: remove one of them")


def write_records(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> RecordsWritten:
    """Writes a task's batches; when it returns, all are acknowledged. Raises KafkaError.

    In a stream that has written a batch before, a broker that does not answer is a lost one, and is tried for
    `retryTimeoutMs`.
    """
    from moldau.columnar.writer import TopicWriter

    records = 0
    with TopicWriter(
        options.bootstrap_servers,
        options.topic,
        compression=options.compression_type,
        client_id=DEFAULT_CLIENT_ID,
        first_contact_timeout_ms=options.first_contact_timeout_ms,
        retry_timeout_ms=options.retry_timeout_ms,
        had_contact=follows_a_batch(),
    ) as writer:
        for batch in batches:
            writer.write(batch)
            records += batch.num_rows
        writer.flush()
    return RecordsWritten(records)


def follows_a_batch() -> bool:
    """Whether this task belongs to a stream that has finished a batch before. Only the number of the batch says so in a
    task: the driver makes a writer anew for each batch."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_BATCH_NUMBER)
    return number is not None and number.isdecimal() and int(number) > 0


class TopicBatchWriter(DataSourceArrowWriter):
    """A batch write, as `df.write` and `foreachBatch` make it."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        check_columns(options, schema)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RecordsWritten:
        return write_records(self.options, iterator)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A stream in append mode, one call of `write` for each task of each micro-batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RecordsWritten:
        return write_records(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: the records are readable since their task ended."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What is written stays: at least once."""
