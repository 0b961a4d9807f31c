"""The transaction of a micro-batch or batch write: its start, the reports of its tasks, its end.

The driver takes a producer id and epoch before the tasks start, which fences a previous driver and aborts its open
transaction. Every task writes with this one producer, to partitions that no other task of the batch writes to, and
reports these partitions. The driver commits if every task is accounted for and was the only attempt; otherwise it
aborts. A task that is not accounted for may still write. Its records from before the end of the transaction are aborted
with it; after the end, its epoch is old, and the broker rejects it. Between EndTxn and the markers, a record of a stray
task could join a commit (KIP-890), so the driver never commits with a task unaccounted for. If Spark repeated a stage,
an attempt without a report has no claim on the committed partitions (`columnar.claims`), and cannot write there. If it
wrote to any other partition, the driver sees that partition in the transaction, and aborts.

The same transaction commits the batch's end offsets in its source topics to a consumer group, with the query and the
batch number as metadata. A batch that the group already has is not written again, however often Spark runs it. If no
source is a topic on the sink's cluster, a target partition gets this metadata.

The transaction begins when the writer is pickled for the tasks, because `streamWriter` is called again for the commit
of each batch.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.offsets import committed_offsets
from moldau.client.blocking.transactions import (
    begin_producer,
    commit_offsets_in_transaction,
    end_transaction,
    partitions_of_transaction,
    transaction_max_timeout_ms,
)
from moldau.client.protocol.metadata import TopicMetadata
from moldau.client.protocol.offsets import CommittedOffset
from moldau.client.protocol.transactions import GroupMember, TransactionalProducer
from moldau.columnar.writer import Written
from moldau.errors import KafkaError, MoldauError
from moldau.spark.options import OptionError, SinkOptions
from moldau.spark.sink.checkpoint_offsets import batch_ends, query_id
from moldau.spark.source.offsets import StreamOffset, read_by_all, recreated_topics
from moldau.transport.access import open_client
from moldau.types import TopicPartition

logger = logging.getLogger("moldau.spark")

_FENCED = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING")
_TWO_WRITERS = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER")


class SinkError(MoldauError):
    """The rows cannot be written, and a retry would not help; the transaction is aborted."""


class BatchAbortedError(MoldauError):
    """A task failed or was lost, and the transaction is aborted; the same batch may be written again."""


@dataclass(frozen=True)
class SinkTransaction:
    """An open transaction, for the tasks and the commit. `by_query`: the group's metadata for the newest batch of each
    query. `began_ms`: the driver's wall clock."""

    producer: TransactionalProducer
    group_id: str
    timeout_ms: int
    began_ms: int
    query: str | None = None
    by_query: dict[str, dict[str, Any]] = field(default_factory=dict)

    def has(self, query: str | None, batch_id: int | None) -> bool:
        """Whether this batch is already committed."""
        newest: int = self.metadata_of(query).get("batch", -1)
        return batch_id is not None and newest >= batch_id

    def metadata_of(self, query: str | None) -> dict[str, Any]:
        """`batch`: the newest in the group; `topic`: the option of the write that wrote it, if that was in
        `foreachBatch`; `run`: the last run of the query that wrote it, or skipped it because it was written. Empty
        without metadata in the group."""
        return {} if query is None else self.by_query.get(query, {})

    def why_not_skipped(
        self, query: str | None, batch_id: int | None, topic: str | None, run: str | None
    ) -> str | None:
        """For a batch that is already committed: a sentence if skipping this write would lose its rows, because the
        committed rows are different.

        Spark repeats only the last batch of a checkpoint, so a newer batch in the group is from a newer checkpoint. It
        repeats a batch only in another run, so a batch that this run has already written belongs to another write.
        `topic`: the option of this write; `run`: of the query."""
        metadata = self.metadata_of(query)
        if metadata["batch"] != batch_id:
            return put_back(f"batch {batch_id} of this query is to be written, and", metadata["batch"], self.group_id)
        former = metadata.get("topic", topic)
        if former == topic and (run is None or metadata.get("run") != run):
            return None
        return (
            f"batch {batch_id} of this query has been written to {_of_rows(former)}, and the group "
            f"{self.group_id!r} has it: set another kafka.transactional.id for each write of a batch, and no "
            "kafka.group.id that two writes share; or, if the topic of this write was changed, start the query once "
            "more with the former topic, until the batch is done"
        )


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """A task's report to the driver in a transaction. `run`: of the query, if Spark says so in `foreachBatch`. `error`:
    why the batch must be aborted, as a sentence; Spark does not see such a task as failed, and does not retry it in
    vain."""

    transaction: SinkTransaction
    stage_id: int
    partition_id: int
    attempt: int
    query: str | None
    batch_id: int | None
    written: dict[TopicPartition, Written] = field(default_factory=dict)
    is_skipped: bool = False
    error: str | None = None
    run: str | None = None


# --- the driver: before the tasks ---


def begin_transaction(options: SinkOptions, *, is_streaming: bool) -> SinkTransaction:
    """Takes a producer for the next batch of a stream, or for a batch write.

    Raises OptionError if a stream has no id, or the cluster does not support such transactions;
    CheckpointUnreadableError, and KafkaError.
    """
    query = None if options.checkpoint_location is None else query_id(options.checkpoint_location)
    transactional_id = options.transactional_id
    has_batches = is_streaming or options.batch_id is not None
    if transactional_id is None and not has_batches:
        transactional_id = f"moldau-write-{uuid.uuid4()}"
    if transactional_id is None and query is not None:
        transactional_id = f"moldau-{query}"
    if transactional_id is None:
        raise OptionError(
            "exactly once needs the checkpoint or a transactional id of the query: set the option checkpointLocation "
            "(the setting spark.sql.streaming.checkpointLocation does not reach the sink) or kafka.transactional.id, "
            "or set delivery to at_least_once"
        )
    group_id = options.group_id or transactional_id
    with open_client(options.access) as client:
        timeout_ms = options.transaction_timeout_ms or transaction_max_timeout_ms(client, transactional_id)
        began_ms = _wall_ms()
        try:
            producer = begin_producer(client, transactional_id, timeout_ms)
        except KafkaError as error:
            if error.name != "UNSUPPORTED_VERSION":
                raise
            raise OptionError(f"{error}. Without them, set delivery to at_least_once") from error
        # only now, because no earlier driver can commit any more
        by_query = _newest_metadata(client, group_id) if has_batches else {}
    return SinkTransaction(producer, group_id, timeout_ms, began_ms, query, by_query)


def _newest_metadata(client: ClusterClient, group_id: str) -> dict[str, dict[str, Any]]:
    """For each query, the metadata of its newest batch in the group."""
    newest: dict[str, dict[str, Any]] = {}
    for position in committed_offsets(client, group_id, require_stable=True).values():
        metadata = _metadata_in(position.metadata)
        if metadata and metadata["batch"] > newest.get(metadata["query"], {"batch": -1})["batch"]:
            newest[metadata["query"]] = metadata
    return newest


def _metadata_in(metadata: str) -> dict[str, Any]:
    """The commit metadata of `_metadata`; empty for that of other writers."""
    try:
        # some clients append a NUL to the text when they copy a group's offsets
        found = json.loads(metadata.rstrip("\0"))
        return {**found, "query": str(found["query"]), "batch": int(found["batch"])}
    except (ValueError, KeyError, TypeError):
        return {}


def _is_of(position: CommittedOffset, query: str | None, batch_id: int | None) -> bool:
    metadata = _metadata_in(position.metadata)
    return (metadata.get("query"), metadata.get("batch")) == (query, batch_id)


# --- the driver: after the tasks ---


def commit_transaction(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int | None
) -> None:
    """Commits if all tasks are accounted for. Otherwise raises SinkError or BatchAbortedError, and KafkaError; the
    caller then aborts. `batch_id`: None for a batch write outside of `foreachBatch`."""
    reports = _accounted_for(messages)
    if not reports:
        return
    first = reports[0]
    transaction = first.transaction
    written = {partition: at for report in reports for partition, at in report.written.items()}
    try:
        if all(report.is_skipped for report in reports):
            _check_ends(options, first, batch_id)
            _commit_run(options, first)
            return
        with open_client(options.access, had_contact=True) as client:
            offsets = _positions(client, options, batch_id, written)
            if offsets or written:
                _check_partitions(client, transaction, written)
                _commit(client, transaction, offsets, _metadata(options, first.query, batch_id, first.run))
    except KafkaError as error:
        raise SinkError(why_it_ended(transaction, error)) from error


def abort_transaction(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], transaction: SinkTransaction | None
) -> None:
    """Aborts the batch. Never raises, to keep the error that caused the abort. `transaction`: if the caller knows it; a
    stream's commit process does not, and takes it from the reports.

    Without either, a new producer of the transactional id aborts the open transaction. This is not done for a known
    transaction, because it would fence a driver that has taken over.
    """
    known = [message.transaction for message in messages if isinstance(message, TaskReport)]
    transaction = transaction or (known[0] if known else None)
    try:
        if transaction is None:
            begin_transaction(options, is_streaming=True)
            return
        with open_client(options.access, had_contact=True) as client:
            end_transaction(client, transaction.producer, committed=False)
    except MoldauError as error:
        # nothing was written, or the transaction is already aborted, by the driver that fenced this one or by its
        # timeout
        logger.info("the transaction was not aborted here: %s", error)


def _accounted_for(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """The reports of all tasks. Raises SinkError, BatchAbortedError."""
    reports = [message for message in messages if isinstance(message, TaskReport)]
    owners: dict[TopicPartition, int] = {}
    for report in reports:
        for partition in report.written:
            if owners.setdefault(partition, report.partition_id) != report.partition_id:
                raise SinkError(shared_partition(partition))
    for report in reports:
        if report.error is not None:
            raise SinkError(report.error)
    if len(reports) < len(messages):
        raise BatchAbortedError(f"{len(messages) - len(reports)} of {len(messages)} tasks gave no report")
    for report in reports:
        if report.attempt > 0:
            raise BatchAbortedError(
                f"task {report.partition_id} ran again (attempt {report.attempt}); an earlier attempt may still write"
            )
    if len({(report.stage_id, report.transaction.producer, report.is_skipped) for report in reports}) > 1:
        raise BatchAbortedError("the tasks are of several stages or transactions")
    return reports


def _check_partitions(
    client: ClusterClient, transaction: SinkTransaction, written: Mapping[TopicPartition, Written]
) -> None:
    """Raises BatchAbortedError if the transaction has a partition that no task reported."""
    others = [one for one in partitions_of_transaction(client, transaction.producer) if one not in written]
    if others:
        raise BatchAbortedError(
            f"{min(others)} is in the transaction, and no task has reported it: an attempt that was lost has written "
            "there"
        )


def _commit(
    client: ClusterClient,
    transaction: SinkTransaction,
    offsets: Mapping[TopicPartition, int],
    metadata: Mapping[str, object],
) -> None:
    """Ends the transaction. Commits `offsets` to its group, each with `metadata`, which `_newest_metadata` finds."""
    member = GroupMember(transaction.group_id)
    commit_offsets_in_transaction(client, transaction.producer, member, offsets, json.dumps(metadata))
    end_transaction(client, transaction.producer, committed=True)


def _check_ends(options: SinkOptions, report: TaskReport, batch_id: int | None) -> None:
    """Raises SinkError if a skipped batch ends at other offsets in its source topics than the batch of the same number
    in the group: Spark has planned it again, because its checkpoint lost the plan."""
    if options.checkpoint_location is None:
        return
    transaction = report.transaction
    with open_client(options.access, had_contact=True) as client:
        planned = _positions(client, options, batch_id, {})
        noted = committed_offsets(client, transaction.group_id) if planned else {}
    for partition, position in noted.items():
        is_elsewhere = planned.get(partition, position.offset) != position.offset
        if is_elsewhere and _is_of(position, report.query, batch_id):
            ends = f"batch {batch_id} of this query is to end at offset {planned[partition]} of {partition}, and"
            raise SinkError(put_back(ends, batch_id, transaction.group_id, f", up to offset {position.offset}"))


def _commit_run(options: SinkOptions, report: TaskReport) -> None:
    """Commits the run of a write in `foreachBatch` that was skipped because an earlier run wrote it. Otherwise a second
    write of the batch under the same names would also be skipped. The commit is part of the transaction, so that a
    fenced driver cannot replace newer metadata."""
    transaction, query = report.transaction, report.query
    newest = transaction.metadata_of(query)
    if options.batch_id is None or report.run is None or newest.get("batch") != report.batch_id:
        return
    with open_client(options.access, had_contact=True) as client:
        offsets = {
            partition: position.offset
            for partition, position in committed_offsets(client, transaction.group_id).items()
            if _is_of(position, query, report.batch_id)
        }
        if offsets:
            _commit(client, transaction, offsets, {**newest, "run": report.run})


def _metadata(
    options: SinkOptions, query: str | None, batch_id: int | None, run: str | None = None
) -> dict[str, object]:
    """A stream writes each batch once. For several writes in `foreachBatch`, the topic and the run identify the
    write."""
    metadata: dict[str, object] = {"query": query, "batch": batch_id}
    if options.group_note is not None:
        metadata["note"] = options.group_note
    if options.batch_id is not None:
        metadata["topic"] = options.topic
        if run is not None:
            metadata["run"] = run
    return metadata


def _end_of_one(written: Mapping[TopicPartition, Written]) -> dict[TopicPartition, int]:
    """One of the written partitions, to hold the metadata if no source is a topic."""
    if not written:
        return {}
    first = min(written)
    return {first: written[first].end_offset}


def _positions(
    client: ClusterClient, options: SinkOptions, batch_id: int | None, written: dict[TopicPartition, Written]
) -> dict[TopicPartition, int]:
    """The offsets for the group: the batch's end in its source topics; otherwise the end of a partition that it wrote
    to."""
    if batch_id is None:
        return {}
    ends = [] if options.checkpoint_location is None else batch_ends(options.checkpoint_location, batch_id)
    topics = {one.topic: None for end in ends for one in end.offsets}
    here = client.retry(lambda: client.refresh(topics)) if topics else {}
    return read_by_all(offsets_here(end, here, options.source_topics) for end in ends) or _end_of_one(written)


def offsets_here(
    end: StreamOffset, here: Mapping[str, TopicMetadata], source_topics: Sequence[str] | None
) -> dict[TopicPartition, int]:
    """The source's offsets that a group of this cluster may hold. `here`: the cluster's topics with the source's topic
    names.

    A topic of another cluster may have the same name as one here. Then the ids, if both clusters have them, or
    `source_topics` tell them apart. For an offset of a missing partition, the group rejects all offsets of the
    request."""
    others = recreated_topics(end.topic_ids, {name: topic.topic_id for name, topic in here.items()})
    topics = [
        name
        for name in here
        if name not in others
        and (source_topics is None or any(re.fullmatch(pattern, name) for pattern in source_topics))
    ]
    return {
        one: offset
        for one, offset in end.offsets.items()
        if one.topic in topics and one.partition in here[one.topic].partitions
    }


# --- a batch write in ranges ---


@dataclass(frozen=True)
class RangeWritten(WriterCommitMessage):
    """The report of a task that has committed its range, or found it committed."""

    records: int


def write_range(
    options: SinkOptions,
    number: int,
    write: Callable[[SinkTransaction], Mapping[TopicPartition, Written]],
    count: Callable[[], int],
) -> RangeWritten:
    """Writes one range of a batch write with a `write_id`, in a separate transaction, in its task. A range that is
    already committed under this id is not written again, but counted: a run with differently split rows would lose some
    and duplicate others. Another attempt at a range fences this one. Raises SinkError."""
    write_id = str(options.write_id)
    own = replace(options, transactional_id=f"moldau-write-{write_id}-{number}")
    transaction = begin_transaction(own, is_streaming=True)
    if transaction.has(write_id, number):
        _check_count(write_id, number, transaction.metadata_of(write_id).get("records"), count())
        return RangeWritten(0)
    try:
        written = write(transaction)
        records = sum(at.record_count for at in written.values())
        if written:
            metadata = {**_metadata(options, write_id, number), "records": records}
            with open_client(options.access, had_contact=True) as client:
                _commit(client, transaction, _end_of_one(written), metadata)
    except BaseException as error:
        abort_transaction(own, (), transaction)
        if isinstance(error, KafkaError):
            raise SinkError(why_it_ended(transaction, error)) from error
        raise
    return RangeWritten(records)


def _check_count(write_id: str, number: int, committed: int | None, found: int) -> None:
    """`committed`: None if an older release wrote the range, which did not record it."""
    if committed is not None and committed != found:
        raise SinkError(
            f"range {number} of the write_id {write_id!r} is committed with {committed:,} rows, and task {number} of "
            f"this run has {found:,}: a write_id goes on with the rows and tasks that it began with, so that the "
            "ranges which are left are the right ones. Repeat the run as it was, or set another write_id for other rows"
        )


# --- errors as sentences ---


def _of_rows(topic: str | None) -> str:
    return "the topics of its rows" if topic is None else f"the topic {topic!r}"


def put_back(planned: str, newest: int | None, group_id: str, end: str = "") -> str:
    """`planned`: the batch in the checkpoint, in words."""
    return (
        f"{planned} the group {group_id!r} has batch {newest} already{end}: the checkpoint was put back to an older "
        "state, or has lost files. Put the newest one back; or start with a new checkpoint, and let the source begin "
        f"where this one ended: with startingGroup {group_id!r} for topics of this cluster"
    )


def shared_partition(partition: TopicPartition | str) -> str:
    return (
        f"two tasks wrote to {partition}, and a transaction takes each partition from one task: write the rows of "
        "moldau.spark.by_target_partition(df, bootstrap_servers, topic), or set delivery to at_least_once"
    )


def keys_of_several_tasks(topic: str | None) -> str:
    return (
        "several tasks have rows with keys, and a transaction takes each partition from one task: write `df = "
        f"moldau.spark.by_target_partition(df, bootstrap_servers, {topic or 'topic'!r})` before `df.write` or "
        "`df.writeStream`, or set delivery to at_least_once. Nothing of the batch is readable"
    )


def why_it_ended(transaction: SinkTransaction, error: KafkaError) -> str:
    """The meaning of a write or commit error for the whole batch."""
    producer = transaction.producer
    if error.name in _TWO_WRITERS:
        return (
            f"{shared_partition('one partition')}. Or Spark has run the stage again, and an earlier attempt wrote "
            f"there: then start the query again, which writes the batch again ({error})"
        )
    if error.name not in _FENCED:
        return str(error)
    open_ms = _wall_ms() - transaction.began_ms
    if open_ms >= transaction.timeout_ms:
        return (
            f"the batch took {open_ms / 1_000:.0f} s, and its transaction may be open for "
            f"{transaction.timeout_ms / 1_000:.0f} s (kafka.transaction.timeout.ms, at most the broker's "
            "transaction.max.timeout.ms): write less in one batch; or, in a batch write, set write_id for a "
            "transaction of each task, or set delivery to at_least_once"
        )
    return (
        f"another driver has taken over the transactional id {producer.transactional_id!r}, so this one may not go on "
        f"({error})"
    )


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
