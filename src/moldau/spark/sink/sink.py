"""Topics as a Spark sink: `format("moldau")`, for batches and for streams in append mode.

Delivery is exactly once by default, for readers of committed records: each micro-batch, and each batch write, is one
transaction (see `transactions`). Each partition of a topic accepts the records of only one task of the batch.
`by_target_partition` distributes rows accordingly; without it, rows with keys from several tasks are rejected. With
`delivery` at_least_once, each task writes with a separate idempotent producer, to any partition. Network retries
duplicate nothing, but a task or micro-batch that Spark runs again writes its records again, and those of the first
attempt stay. A task is done when all of its records are acknowledged by all in-sync replicas.

Columns: `value` (string or binary), and optionally `key` (string or binary), `topic` (string; if the option `topic` is
not set), `partition` (int), `headers` (array<struct<key string, value binary>>), `timestamp` (timestamp: the record's
time of creation; null: now). Optional columns `_topic`, `_partition` and `_offset` name the input record in errors.
Other columns are rejected. Spark does not support update mode for Python sinks: write a batch inside `foreachBatch`,
with the options `checkpointLocation` and `batchId`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.errors import KafkaError, kafka_error
from moldau.spark.in_words import told_in_words
from moldau.spark.options import EXACTLY_ONCE, OptionError, SinkOptions
from moldau.spark.sink.transactions import (
    SinkTransaction,
    TaskReport,
    abort_transaction,
    begin_transaction,
    commit_transaction,
    keys_of_several_tasks,
    why_it_ended,
    write_range,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from moldau.columnar.writer import Written
    from moldau.types import TopicPartition

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_JOB_GROUP = "spark.jobGroup.id"
"""Spark's names of task properties, from MicroBatchExecution and StreamExecution."""

# the allowed types of each column, by Spark's names
COLUMN_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
    # not written; errors use them to name the input record
    "_topic": ("string",),
    "_partition": ("int",),
    "_offset": ("bigint",),
}


@dataclass(frozen=True)
class RecordsWritten(WriterCommitMessage):
    """A task's report to the driver: the number of acknowledged records."""

    records: int


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Raises OptionError for a column that is missing, unknown, or of a wrong type."""
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

    In a stream that has written a batch before, an unresponsive broker counts as lost, and is retried for
    `retryTimeoutMs`.
    """
    written = _write_all(options, batches, had_contact=follows_a_batch())
    return RecordsWritten(sum(at.record_count for at in written.values()))


def _write_all(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], *, had_contact: bool, **shared: Any
) -> dict[TopicPartition, Written]:
    """The result for each partition, with all records acknowledged. `shared`: arguments of TopicWriter for a
    transaction."""
    from moldau.columnar.writer import TopicWriter

    topic, compression = options.topic, options.compression_type
    with TopicWriter(options.access, topic, compression=compression, had_contact=had_contact, **shared) as writer:
        try:
            for batch in batches:
                writer.write(batch)
            return writer.flush()
        except KafkaError as error:
            raise kafka_error(error.code, f"{error}{how_to_name_the_row(options, error)}") from error
        except ValueError as error:
            raise ValueError(f"{error}{how_to_name_the_row(options, error)}") from error


_OF_A_ROW = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP")
_OF_ITS_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")


def how_to_name_the_row(options: SinkOptions, error: Exception) -> str:
    """The end of the message for an error that one row caused, if it does not name the input record: the sink knows
    that only for rows which carry it. A wrong topic in the option concerns all rows."""
    from moldau.columnar.origins import NAMES_THE_INPUT

    own = _OF_A_ROW if options.topic is not None else _OF_A_ROW + _OF_ITS_TOPIC
    is_of_a_row = not isinstance(error, KafkaError) or error.name in own
    if not is_of_a_row or NAMES_THE_INPUT in str(error):
        return ""
    return (
        "; to see the input record of such a row here, give the rows the columns _topic, _partition and _offset of the "
        "records that they are made of"
    )


def follows_a_batch() -> bool:
    """Whether this task belongs to a stream that has finished a batch before. In a task, only the batch number shows
    that, because the driver creates a new writer for each batch."""
    context = TaskContext.get()
    return context is not None and (_batch_id(context) or 0) > 0


def _batch_id(context: TaskContext) -> int | None:
    number = context.getLocalProperty(_BATCH_ID)
    return int(number) if number is not None and number.isdecimal() else None


def _run_id(context: TaskContext) -> str | None:
    """The id of the query's run, which Spark sets as the group of the run's jobs. A user may set another group, the
    same in each run, but that is hardly a UUID."""
    group = context.getLocalProperty(_JOB_GROUP)
    try:
        return None if group is None else str(UUID(group))
    except ValueError:
        return None


def write_in_transaction(
    options: SinkOptions, transaction: SinkTransaction, batches: Iterator[pa.RecordBatch], *, is_streaming: bool
) -> TaskReport:
    """Writes a task's batches in the driver's transaction. If it returns without an error in the report, all records
    are acknowledged. Does not write a batch that is already committed."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("call this in a Spark task: only a task can write to a sink")
    batch_id = _batch_id(context)
    report = TaskReport(
        transaction,
        stage_id=context.stageId(),
        partition_id=context.partitionId(),
        attempt=context.attemptNumber(),
        query=transaction.query or context.getLocalProperty(_QUERY_ID),
        batch_id=batch_id if is_streaming else options.batch_id,
        run=_run_id(context),
    )
    if report.attempt > 0:
        return report
    if report.batch_id is None and batch_id is not None:
        return replace(report, error=_BATCH_WITHOUT_NUMBER)
    if transaction.has(report.query, report.batch_id):
        another = transaction.why_not_skipped(report.query, report.batch_id, options.topic, report.run)
        if another is not None:
            return replace(report, error=another)
        for _ in batches:
            pass  # to the end, because upstream operators must keep the state of this batch
        return replace(report, is_skipped=True)
    first = next(batches, None)
    if first is not None and report.partition_id > 0 and _has_keys_alone(first):
        return replace(report, error=keys_of_several_tasks(options.topic))
    batches = chain(() if first is None else (first,), batches)
    try:
        place = report.partition_id + (report.batch_id or 0)
        # Spark numbers attempts from 0 again if it repeats the whole stage; only this id is unique
        claim = 1 + context.taskAttemptId()
        return replace(report, written=_write_shared(options, transaction, place, batches, claim=claim))
    except (KafkaError, ValueError) as error:
        why = why_it_ended(transaction, error) if isinstance(error, KafkaError) else str(error)
        return replace(report, error=why)


def _has_keys_alone(rows: pa.RecordBatch) -> bool:
    """Whether keys determine the partitions of the rows, but `by_target_partition` has not distributed them, which
    would name the partitions."""
    names = rows.schema.names
    return "key" in names and "partition" not in names and rows.column("key").null_count < rows.num_rows


_BATCH_WITHOUT_NUMBER = (
    "a write inside foreachBatch is exactly once only with the options checkpointLocation and batchId "
    "(the second argument of the function): set both, or set delivery to at_least_once"
)


def _write_shared(
    options: SinkOptions,
    transaction: SinkTransaction,
    place: int,
    batches: Iterator[pa.RecordBatch],
    *,
    claim: int = 0,
) -> dict[TopicPartition, Written]:
    return _write_all(
        options,
        batches,
        had_contact=True,
        producer=transaction.producer,
        # separates up to as many tasks as the topic has partitions; the next batch begins at another partition
        keyless_partition=place,
        claim=claim,
    )


def write_own_range(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """A task of a batch write with a `write_id`. Its rows are committed when it returns. No other attempt shares its
    producer."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("call this in a Spark task: only a task can write to a sink")
    number = context.partitionId()
    return write_range(
        options,
        number,
        lambda transaction: _write_shared(options, transaction, number, batches),
        lambda: sum(batch.num_rows for batch in batches),
    )


class TopicBatchWriter(DataSourceArrowWriter):
    """A batch write, from `df.write` or `foreachBatch`."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        check_columns(options, schema)
        if options.group_id is not None and options.batch_id is None:
            raise OptionError("option 'kafka.group.id' is for streams: a batch write has no offsets to show in a group")
        self.options = options
        self.transaction: SinkTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a writer twice, both times before the tasks start; the first time begins the transaction."""
        is_one = self.options.delivery == EXACTLY_ONCE and self.options.write_id is None
        if is_one and self.transaction is None:
            self.transaction = begin_transaction(self.options, is_streaming=False)
        return self.__dict__

    @told_in_words
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self.options.write_id is not None:
            return write_own_range(self.options, iterator)
        if self.transaction is None:
            return write_records(self.options, iterator)
        return write_in_transaction(self.options, self.transaction, iterator, is_streaming=False)

    @told_in_words
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.transaction is not None:
            commit_transaction(self.options, messages, self.options.batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """With at-least-once delivery, written records stay."""
        if self.transaction is not None:
            abort_transaction(self.options, messages, self.transaction)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A stream in append mode, with one call of `write` for each task of each micro-batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        if options.batch_id is not None:
            raise OptionError("option 'batchId' is for a write inside foreachBatch: a stream knows its batches")
        if options.write_id is not None:
            raise OptionError("option 'write_id' is for a batch write: a stream knows its batches")
        self.options = options
        self.transaction: SinkTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Begins the transaction as in TopicBatchWriter. The constructor does not, because Spark creates another writer
        to commit."""
        if self.options.delivery == EXACTLY_ONCE and self.transaction is None:
            self.transaction = begin_transaction(self.options, is_streaming=True)
        return self.__dict__

    @told_in_words
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self.transaction is None:
            return write_records(self.options, iterator)
        return write_in_transaction(self.options, self.transaction, iterator, is_streaming=True)

    @told_in_words
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """With at-least-once delivery, the records are readable since their task ended."""
        if self.options.delivery == EXACTLY_ONCE:
            commit_transaction(self.options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """With at-least-once delivery, written records stay."""
        if self.options.delivery == EXACTLY_ONCE:
            abort_transaction(self.options, messages, None)
