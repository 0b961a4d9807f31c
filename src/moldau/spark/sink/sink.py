"""Topics as a Spark sink: `format("moldau")`, for batches and for streams in append mode.

Delivery is exactly once by default: each micro-batch, and each batch write, is one transaction (see `transactions`),
for readers of committed records. Each partition of a topic takes the records of one task of the batch only:
`by_target_partition` arranges that, and rows with keys that several tasks write without it are refused. With `delivery`
at_least_once each task writes with an idempotent producer of its own, to any partition: nothing is doubled by a retry
on the wire, but a task or a micro-batch that Spark runs again writes its records again, and the first try's stay. A
task is through when all of its records are acknowledged by all in-sync replicas.

Columns: `value` (string or binary), and if they are there `key` (string or binary), `topic` (string; where the option
`topic` is not set), `partition` (int), `headers` (array<struct<key string, value binary>>). Beside them `_topic`,
`_partition` and `_offset` may name the input record, for errors. No other is taken.
Update mode is not for Python sinks (Spark refuses it): write a batch inside `foreachBatch`, with the options
`checkpointLocation` and `batchId`.
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
"""What Spark calls them among the properties of a task, from MicroBatchExecution and StreamExecution."""

# what each column may be, in Spark's own words for its types
COLUMN_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    # not written: errors name the input record with them
    "_topic": ("string",),
    "_partition": ("int",),
    "_offset": ("bigint",),
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
    written = _write_all(options, batches, had_contact=follows_a_batch())
    return RecordsWritten(sum(at.record_count for at in written.values()))


def _write_all(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], *, had_contact: bool, **shared: Any
) -> dict[TopicPartition, Written]:
    """What each partition got, all of it acknowledged. `shared`: what a TopicWriter needs in a transaction."""
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
    """For the end of the message of an error that one row made, where it does not name the input record: the sink knows
    that only of rows which carry it. A topic that the option names is wrong for all rows."""
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
    """Whether this task belongs to a stream that has finished a batch before. Only the number of the batch says so in a
    task: the driver makes a writer anew for each batch."""
    context = TaskContext.get()
    return context is not None and (_batch_id(context) or 0) > 0


def _batch_id(context: TaskContext) -> int | None:
    number = context.getLocalProperty(_BATCH_ID)
    return int(number) if number is not None and number.isdecimal() else None


def _run_id(context: TaskContext) -> str | None:
    """Of the run of the query: Spark makes it the group of the run's jobs. A user may set another group, which would be
    the same in each run; it is hardly a UUID."""
    group = context.getLocalProperty(_JOB_GROUP)
    try:
        return None if group is None else str(UUID(group))
    except ValueError:
        return None


def write_in_transaction(
    options: SinkOptions, transaction: SinkTransaction, batches: Iterator[pa.RecordBatch], *, is_streaming: bool
) -> TaskReport:
    """Writes a task's batches in the driver's transaction; all are acknowledged when it returns without an error in the
    report. Nothing is written of a batch that is committed already."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a sink writes in a task of Spark")
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
            pass  # to the end: what stands before the sink keeps the state of this batch
        return replace(report, is_skipped=True)
    first = next(batches, None)
    if first is not None and report.partition_id > 0 and _has_keys_alone(first):
        return replace(report, error=keys_of_several_tasks(options.topic))
    batches = chain(() if first is None else (first,), batches)
    try:
        place = report.partition_id + (report.batch_id or 0)
        # Spark counts an attempt as the first where it runs the whole stage again: only this number is its own
        claim = 1 + context.taskAttemptId()
        return replace(report, written=_write_shared(options, transaction, place, batches, claim=claim))
    except (KafkaError, ValueError) as error:
        why = why_it_ended(transaction, error) if isinstance(error, KafkaError) else str(error)
        return replace(report, error=why)


def _has_keys_alone(rows: pa.RecordBatch) -> bool:
    """Whether keys say to which partitions the rows go, and no step has brought them to one task for each partition:
    that step names the partitions."""
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
        # as many tasks as partitions, or fewer, are apart with it; the next batch begins at another partition
        keyless_partition=place,
        claim=claim,
    )


def write_own_range(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """A task of a batch write with a `write_id`: its rows are committed when it returns. No other attempt shares its
    producer."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a sink writes in a task of Spark")
    number = context.partitionId()
    return write_range(
        options,
        number,
        lambda transaction: _write_shared(options, transaction, number, batches),
        lambda: sum(batch.num_rows for batch in batches),
    )


class TopicBatchWriter(DataSourceArrowWriter):
    """A batch write, as `df.write` and `foreachBatch` make it."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        check_columns(options, schema)
        if options.group_id is not None and options.batch_id is None:
            raise OptionError("option 'kafka.group.id' is for streams: a batch write has no offsets to show in a group")
        self.options = options
        self.transaction: SinkTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a writer twice, both times before the tasks start: the transaction begins with the first."""
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
        """At least once: what is written stays."""
        if self.transaction is not None:
            abort_transaction(self.options, messages, self.transaction)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A stream in append mode, one call of `write` for each task of each micro-batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        if options.batch_id is not None:
            raise OptionError("option 'batchId' is for a write inside foreachBatch: a stream knows its batches")
        if options.write_id is not None:
            raise OptionError("option 'write_id' is for a batch write: a stream knows its batches")
        self.options = options
        self.transaction: SinkTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """As TopicBatchWriter. Not in the constructor: Spark makes another writer to commit."""
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
        """At least once: the records are readable since their task ended."""
        if self.options.delivery == EXACTLY_ONCE:
            commit_transaction(self.options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """At least once: what is written stays."""
        if self.options.delivery == EXACTLY_ONCE:
            abort_transaction(self.options, messages, None)
