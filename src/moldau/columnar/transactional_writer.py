"""Writes Arrow tables and a group's offsets in transactions (KIP-98, 447, 890).

A newer writer with the same transactional id fences this one, and aborts its open transaction. Readers of committed
records (`read_topic` by default) see a transaction once it is committed. Requires transactions v2: Moldau, or Apache
Kafka 4.0 and later with `transaction.version` 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from moldau.client.blocking.offsets import committed_offsets
from moldau.client.blocking.transactions import begin_producer, commit_offsets_in_transaction, end_transaction
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP
from moldau.client.protocol.transactions import GroupMember, TransactionalProducer
from moldau.columnar.encode import DEFAULT_BATCH_BYTES
from moldau.columnar.writer import TopicWriter, Written
from moldau.errors import KafkaError, kafka_error
from moldau.transport.access import open_client
from moldau.types import TopicPartition

TRANSACTION_TIMEOUT_MS = 60_000


class TransactionalWriter:
    """Writes to `topic`; if that is None, each row to the topic in its column `topic`.

        with writer.transaction():
            writer.write(table)
            writer.send_offsets("group", {TopicPartition("source", 0): 100})

    The transaction is committed at the end of the block, and aborted if it raises. Several writers may write in one
    transaction, each to its own partitions: the others are `TopicWriter(producer=writer.share())`, and must flush
    before this one commits. Not thread-safe.
    """

    def __init__(
        self,
        access: ClusterAccess | str,
        transactional_id: str,
        topic: str | None = None,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        compression: str = "none",
        compression_level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
    ) -> None:
        """Fences an earlier writer of `transactional_id`. The broker aborts a transaction that is open for longer than
        `transaction_timeout_ms`.

        Raises INVALID_TRANSACTION_TIMEOUT above `transaction.max.timeout.ms`, UNSUPPORTED_VERSION without transactions
        v2, and KafkaError if no broker answers within the `first_contact_timeout_ms` of the access. `access`: to the
        cluster; a text is its bootstrap servers.
        """
        access = ClusterAccess.of(access)
        self._client = open_client(access)
        try:
            self._producer = begin_producer(self._client, transactional_id, transaction_timeout_ms)
            self._writer = TopicWriter(
                access,
                topic,
                compression=compression,
                compression_level=compression_level,
                batch_bytes=batch_bytes,
                had_contact=True,
                producer=self._producer,
            )
        except BaseException:
            self._client.close()
            raise
        self._is_open = False
        self._has_joined = False
        self._is_aborting = False
        self._failure: KafkaError | None = None

    def __enter__(self) -> TransactionalWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._is_open:
                self.abort()
        finally:
            self.close()

    def close(self) -> None:
        """Closes the connections. An open transaction stays open until its timeout, so call `abort` first."""
        self._writer.close()
        self._client.close()

    @contextmanager
    def transaction(self) -> Iterator[TransactionalWriter]:
        """`begin`, then `commit`; `abort` if the block raises, or a record is rejected."""
        self.begin()
        try:
            yield self
            # before the commit, because a rejected record can still be aborted
            self._writer.flush()
        except BaseException:
            self.abort()
            raise
        self.commit()

    def begin(self) -> None:
        """Raises INVALID_TXN_STATE if a transaction is open, even if its abort has failed.

        Raises the error of an abort that was rejected permanently: then a new TransactionalWriter is needed.
        """
        if self._failure is not None:
            said = f"the last transaction could not be aborted, make a new writer: {self._failure}"
            raise kafka_error(self._failure.code, said)
        if self._is_open:
            raise kafka_error("INVALID_TXN_STATE", self._said_of_open())
        self._is_open, self._has_joined, self._is_aborting = True, False, False

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """As `TopicWriter.write`, in the open transaction.

        Also raises INVALID_PRODUCER_EPOCH if another writer has taken over, or the transaction has timed out.
        """
        self._check_open()
        if data.num_rows:
            self._has_joined = True
            self._writer.write(data)

    def send_offsets(self, group: str | GroupMember, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """The next offsets of a consumer group, which are committed with the transaction, each with `metadata`. For a
        group with members, `group` is the GroupMember that commits."""
        self._check_open()
        if offsets:
            self._has_joined = True
            member = GroupMember(group) if isinstance(group, str) else group
            commit_offsets_in_transaction(self._client, self._producer, member, offsets, metadata)

    def committed_offset(self, group_id: str, partition: TopicPartition) -> int:
        """The committed offset of the group, 0 without one. Waits for transactions that are about to end.

        Call it after the writer is created: then no earlier writer of the transactional id can commit any more.
        """
        committed = committed_offsets(self._client, group_id, require_stable=True).get(partition)
        return 0 if committed is None else committed.offset

    def committed_offsets(self, group_id: str, topic: str) -> dict[int, int]:
        """The group's committed offset in each partition of `topic`, in the form of `start` of `read_topic`; -2, the
        earliest offset, for a partition without one. Otherwise as `committed_offset`.

        Raises UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist.
        """
        self._client.forget(topic)
        partitions = sorted(self._client.topic(topic).partitions)
        committed = committed_offsets(self._client, group_id, require_stable=True)
        known = {place.partition: at.offset for place, at in committed.items() if place.topic == topic}
        return {partition: known.get(partition, EARLIEST_TIMESTAMP) for partition in partitions}

    def share(self) -> TransactionalProducer:
        """The producer of the open transaction, for other writers, which must write at least one record before the
        commit."""
        self._check_open()
        self._has_joined = True
        return self._producer

    def _check_open(self) -> None:
        if not self._is_open:
            raise kafka_error("INVALID_TXN_STATE", "no transaction is open: begin one")
        if self._is_aborting:
            raise kafka_error("INVALID_TXN_STATE", self._said_of_open())

    def _said_of_open(self) -> str:
        if self._is_aborting:
            return "the abort of a transaction has failed, so the broker may hold it open: abort again"
        return "a transaction is open: commit or abort it"

    def flush(self) -> None:
        """Waits for all records. After an error, the transaction can be aborted."""
        self._check_open()
        self._writer.flush()

    def commit(self) -> Mapping[TopicPartition, Written]:
        """Waits for all records, and commits; returns what this writer wrote to each partition.

        After an error, abort the transaction. After an error of the commit itself, the outcome is unknown until a new
        TransactionalWriter is created.
        """
        self._check_open()
        written = self._writer.flush()
        self._end(committed=True)
        return written

    def abort(self) -> None:
        """Aborts the transaction. Raises PRODUCER_FENCED if another writer has taken over, and so has aborted it.

        After a retriable error (no broker was reached), the transaction is not aborted yet: call `abort` again.
        """
        if self._is_open:
            self._is_aborting = True
            self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        try:
            if self._has_joined:
                self._producer = end_transaction(self._client, self._producer, committed=committed)
        except KafkaError as error:
            # a transaction that could not be committed or aborted yet can still be aborted: records of a next
            # transaction would join the one that the broker has open. If the abort is rejected permanently, this writer
            # begins no other.
            if not committed and not error.is_retriable:
                self._is_open, self._failure = False, error
            raise
        self._is_open = False
        self._writer.begin_anew(self._producer)
