"""Writes Arrow tables and a group's offsets in transactions (KIP-98, 447, 890).

A writer of the same transactional id fences this one, and what this one had open is aborted then. Readers of committed
records (`read_topic` by default) see a transaction once it is committed. Only with transactions v2: Moldau, or Apache
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
    """Writes to `topic`, or, where that is None, each row to the topic that its column `topic` names.

        with writer.transaction():
            writer.write(table)
            writer.send_offsets("group", {TopicPartition("source", 0): 100})

    The transaction is committed where the block ends, and aborted where it raises. Several writers may write in one
    transaction, to partitions that they share with nobody: each other one is a `TopicWriter(producer=writer.share())`,
    and all of them have flushed before this one commits. Not thread-safe.
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
        v2, and KafkaError if no broker answers within the `first_contact_timeout_ms` of the access. `access`: how the
        cluster is reached; a text is the bootstrap servers.
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
        """Closes the connections. A transaction that is open stays so until its time is over: `abort` before."""
        self._writer.close()
        self._client.close()

    @contextmanager
    def transaction(self) -> Iterator[TransactionalWriter]:
        """`begin`, then `commit`; `abort` where the block raises, or a record is refused."""
        self.begin()
        try:
            yield self
            # before the commit is asked for: what is refused here can be aborted
            self._writer.flush()
        except BaseException:
            self.abort()
            raise
        self.commit()

    def begin(self) -> None:
        """Raises INVALID_TXN_STATE where a transaction is open: also where its abort was tried and has failed.

        Raises the error of an abort that was refused for good: from then on only a new TransactionalWriter helps.
        """
        if self._failure is not None:
            said = f"the last transaction could not be aborted, make a new writer: {self._failure}"
            raise kafka_error(self._failure.code, said)
        if self._is_open:
            raise kafka_error("INVALID_TXN_STATE", self._said_of_open())
        self._is_open, self._has_joined, self._is_aborting = True, False, False

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """As `TopicWriter.write`, in the open transaction.

        Raises also INVALID_PRODUCER_EPOCH where another writer has taken over, or the time of the transaction is over.
        """
        self._check_open()
        if data.num_rows:
            self._has_joined = True
            self._writer.write(data)

    def send_offsets(self, group: str | GroupMember, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """The next offsets of a consumer group, which are committed with the transaction; `metadata` stands beside
        each. A group with members asks who commits: then `group` is the GroupMember."""
        self._check_open()
        if offsets:
            self._has_joined = True
            member = GroupMember(group) if isinstance(group, str) else group
            commit_offsets_in_transaction(self._client, self._producer, member, offsets, metadata)

    def committed_offset(self, group_id: str, partition: TopicPartition) -> int:
        """Where the group goes on: its committed offset, 0 without one. Waits for transactions that are about to end.

        To be asked once the writer is made: no earlier writer of the transactional id can commit any more.
        """
        committed = committed_offsets(self._client, group_id, require_stable=True).get(partition)
        return 0 if committed is None else committed.offset

    def committed_offsets(self, group_id: str, topic: str) -> dict[int, int]:
        """Where the group goes on in each partition of `topic`, as `read_topic` takes it for `start`: its committed
        offset; without one -2, the first that is there. As `committed_offset` else.

        Raises UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist.
        """
        self._client.forget(topic)
        partitions = sorted(self._client.topic(topic).partitions)
        committed = committed_offsets(self._client, group_id, require_stable=True)
        known = {place.partition: at.offset for place, at in committed.items() if place.topic == topic}
        return {partition: known.get(partition, EARLIEST_TIMESTAMP) for partition in partitions}

    def share(self) -> TransactionalProducer:
        """The producer of the open transaction, for other writers; they must write something before it is committed."""
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

    def commit(self) -> Mapping[TopicPartition, Written]:
        """Waits for all records, and commits; gives what each partition got from this writer.

        After an error the transaction is to be aborted; that of the commit itself leaves open which of the two it was,
        until a new TransactionalWriter has been made.
        """
        self._check_open()
        written = self._writer.flush()
        self._end(committed=True)
        return written

    def abort(self) -> None:
        """Nothing of the transaction counts. Raises PRODUCER_FENCED where another writer has taken over: then that one
        has aborted it.

        After a retriable error (no broker was reached) the transaction is still to be aborted: call `abort` again.
        """
        if self._is_open:
            self._is_aborting = True
            self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        try:
            if self._has_joined:
                self._producer = end_transaction(self._client, self._producer, committed=committed)
        except KafkaError as error:
            # what could not be committed, or not be aborted yet, can still be aborted: records of a next transaction
            # would join what the broker has open. Where the abort is refused for good, this writer has no next one.
            if not committed and not error.is_retriable:
                self._is_open, self._failure = False, error
            raise
        self._is_open = False
        self._writer.begin_anew(self._producer)
