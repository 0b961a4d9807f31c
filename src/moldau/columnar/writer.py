"""Writes Arrow tables to topics with an idempotent producer.

Delivery: within one writer, each record is written once and in order, whatever requests are retried (producer id and
sequences, acks=all). If a process restarts and writes its records again, delivery is at least once.

`write` chooses a partition for each row, encodes slices into record batches and sends them, with at most MAX_IN_FLIGHT
requests per broker. It blocks while that many are in flight, so memory is bounded by the slice and the batches in
flight. A retriable failure closes the connections and sends all unacknowledged batches again, in order; the broker
recognises duplicates. After any other failure the writer is unusable, because the state of batches in flight is
unknown.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.blocking.connection import ClientConnection
from moldau.client.blocking.offsets import init_producer_id
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.transactions import PRODUCE_FROM, TransactionalProducer
from moldau.columnar.claims import Claim, check_claims
from moldau.columnar.encode import (
    DEFAULT_BATCH_BYTES,
    RECORD_OVERHEAD,
    BatchIdentity,
    RecordColumns,
    binary_column,
    check_names,
    columns_of,
    encode_batches,
)
from moldau.columnar.origins import largest_row, origin_text
from moldau.columnar.partitioner import StickyPartitions, partitions_of_keys
from moldau.columnar.varints import IntArray
from moldau.errors import KafkaError, kafka_error
from moldau.transport.access import open_client
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.wire.records.compression import Compression, compression_from_name

MAX_IN_FLIGHT = 5
"""The most requests in flight to one broker, which remembers the last five batches of a producer."""

ACKS_ALL = -1
_TOO_LARGE = (10, 18)
"""MESSAGE_TOO_LARGE and RECORD_LIST_TOO_LARGE."""
SLICE_BYTES = 8 * 1024 * 1024
SLICE_ROWS = 100_000
_PRODUCE_BY_NAME = 12
_REQUEST_BYTES = 4 * 1024 * 1024


class Written(msgspec.Struct, frozen=True):
    """The records written to one partition: from `first_offset` to before `end_offset`, perhaps with records of others
    between."""

    first_offset: int
    end_offset: int
    record_count: int


class _Pending(msgspec.Struct, frozen=True):
    """`rows`: the records of the batch; `sequence`: of the first record; `batch_bytes`: the limit when the batch was
    built."""

    data: bytes
    record_count: int
    rows: RecordColumns
    sequence: int
    batch_bytes: int


class _PartitionQueue:
    """One partition's batches in sequence order: `in_flight`, then `unsent`. `batch_bytes`: the limit for the next
    batch."""

    def __init__(self, topic_partition: TopicPartition, batch_bytes: int) -> None:
        self.topic_partition = topic_partition
        self.batch_bytes = batch_bytes
        self.next_sequence = 0
        self.unsent: deque[_Pending] = deque()
        self.in_flight: deque[_Pending] = deque()
        self.written: Written | None = None

    def acknowledge(self, base_offset: int) -> None:
        """The oldest batch in flight is at `base_offset`; -1 for a recognised duplicate at an unknown offset."""
        count = self.in_flight.popleft().record_count
        before = self.written
        if base_offset < 0:
            base_offset = before.end_offset if before is not None else 0
        first = base_offset if before is None else before.first_offset
        total = count if before is None else before.record_count + count
        self.written = Written(first, base_offset + count, total)

    def resend(self) -> None:
        """Moves all unacknowledged batches to the front of `unsent`, in order."""
        self.unsent.extendleft(reversed(self.in_flight))
        self.in_flight.clear()


class _Sent(msgspec.Struct, frozen=True):
    """A request in flight: the queues of its batches, one each, and the topics' names by the ids in the request."""

    queues: list[_PartitionQueue]
    names: dict[Uuid, str]


class _BatchTooLargeError(Exception):
    """A batch of several records is larger than the topic allows."""

    def __init__(self, queue: _PartitionQueue) -> None:
        super().__init__(str(queue.topic_partition))
        self.queue = queue


class TopicWriter:
    """Writes Arrow batches to `topic`; if that is None, each row to the topic in its column `topic`.

    Columns: `value`, and optionally `key`, `timestamp`, `headers` (see `encode.columns_of`) and `partition` (integer;
    if it is null or absent, the key decides, and without a key, sticky runs). With the columns of `origins`, errors
    name the input record of a row. Other columns are ignored. Use it as a context manager: leaving it without an error
    flushes. Not thread-safe.
    """

    def __init__(
        self,
        access: ClusterAccess | str,
        topic: str | None = None,
        *,
        compression: str = "none",
        compression_level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        had_contact: bool = False,
        producer: TransactionalProducer | None = None,
        keyless_partition: int | None = None,
        claim: int = 0,
    ) -> None:
        """Raises KafkaError if no broker answers within the `first_contact_timeout_ms` of the access.

        `access`: to the cluster; a text is its bootstrap servers. `had_contact`: see ClusterClient. `producer`: writes
        in the open transaction of this producer, which its TransactionalWriter ends; no two writers of one producer may
        write to the same partition. `keyless_partition`: the partition for rows without key and partition, modulo the
        number of partitions, instead of sticky runs. `claim`: above 0, a number that no other writer of this producer
        has; if several write to one partition, only the first continues, and the others get
        OUT_OF_ORDER_SEQUENCE_NUMBER (see `claims`).
        """
        self._topic = topic
        self._compression: Compression = compression_from_name(compression)
        self._compression_level = compression_level
        self._batch_bytes = batch_bytes
        access = ClusterAccess.of(access)
        self._request_timeout_ms = access.request_timeout_ms
        self._client = open_client(access, had_contact=had_contact)
        self._queues: dict[TopicPartition, _PartitionQueue] = {}
        self._keyless_partition = keyless_partition
        self._claim = claim
        self._sticky: dict[str, StickyPartitions] = {}
        self._connections: dict[int, ClientConnection] = {}
        self._requests: dict[int, deque[_Sent]] = {}
        self._backoff = self._client.backoff()
        self._failure: KafkaError | None = None
        self._transactional_id: str | None = None
        self.producer_id = self.producer_epoch = -1
        if producer is not None:
            self.begin_anew(producer)
            return
        try:
            self.producer_id, self.producer_epoch = init_producer_id(self._client)
        except BaseException:
            self._client.close()
            raise

    def begin_anew(self, producer: TransactionalProducer) -> None:
        """Continues in the transaction of this producer; drops unacknowledged records."""
        self._drop_unanswered()
        self._queues.clear()
        self._failure = None
        self._transactional_id = producer.transactional_id
        self.producer_id, self.producer_epoch = producer.producer_id, producer.producer_epoch

    def __enter__(self) -> TopicWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Drops unacknowledged records; call `flush` first."""
        self._drop_connections()
        self._client.close()

    # --- rows to partitions ---

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Sends every row; returns when all are sent, not when they are acknowledged (`flush`).

        Raises ValueError for columns of other types and for two of one name, UNKNOWN_TOPIC_OR_PARTITION for a topic
        that does not exist and that the cluster does not create automatically, and KafkaError for a rejected batch, or
        without progress for the `retry_timeout_ms` of the access.
        """
        check_names(data.schema.names)
        for batch in data.to_batches() if isinstance(data, pa.Table) else [data]:
            for piece in _slices(batch):
                if self._topic is not None:
                    self._write_topic(self._topic, piece)
                    continue
                if "topic" not in piece.schema.names or piece.column("topic").null_count:
                    raise ValueError("no topic was given, so every row needs one in the column topic")
                topics = binary_column(piece, "topic").cast(pa.string())
                names = topics.unique().to_pylist()
                if len(names) == 1:
                    self._write_topic(names[0], piece)
                    continue
                rows = _without_views(piece)
                for topic in names:
                    self._write_topic(topic, rows.filter(pc.equal(topics, topic)))

    def _write_topic(self, topic: str, batch: pa.RecordBatch) -> None:
        columns = columns_of(batch, now_ms=time.time_ns() // 1_000_000)
        try:
            partition_count = len(self._client.topic_to_write(topic).partitions)
        except KafkaError as error:
            if error.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"):
                raise
            raise kafka_error(error.code, f"{error}{origin_text(columns.origins, 0)}") from error
        partitions = self._partitions(topic, batch, columns, partition_count)
        if (partitions >= partition_count).any():
            # the client's metadata may be older than the partition
            self._client.forget(topic)
            partition_count = len(self._client.topic_to_write(topic).partitions)
            partitions = self._partitions(topic, batch, columns, partition_count)
        _check_partitions(topic, partitions, columns, partition_count)
        if partition_count == 1 or (partitions == partitions[0]).all():
            self._append({TopicPartition(topic, int(partitions[0])): columns})
            return
        order = np.argsort(partitions, kind="stable")
        ordered = partitions[order]
        columns = columns.take(order)
        bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
        self._append(
            {
                TopicPartition(topic, int(ordered[first])): columns.slice(first, end - first)
                for first, end in pairwise(bounds)
            }
        )

    def _partitions(self, topic: str, batch: pa.RecordBatch, columns: RecordColumns, partition_count: int) -> IntArray:
        count = len(columns)
        partitions: IntArray = np.full(count, -1, dtype=np.int64)
        if columns.keys is not None:
            partitions = partitions_of_keys(columns.keys, partition_count)
        keyless = np.flatnonzero(partitions < 0)
        if keyless.size and self._keyless_partition is not None:
            partitions[keyless] = self._keyless_partition % partition_count
        elif keyless.size:
            sticky = self._sticky.get(topic)
            if sticky is None or sticky.partition_count != partition_count:
                first = self.producer_id + self.producer_epoch
                sticky = self._sticky[topic] = StickyPartitions(partition_count, self._batch_bytes, first)
            sizes = pc.binary_length(columns.values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            partitions[keyless] = sticky.assign(sizes[keyless] + RECORD_OVERHEAD)
        if "partition" in batch.schema.names:
            given = batch.column("partition").cast(pa.int64())
            chosen = given.fill_null(-1).to_numpy(zero_copy_only=False)
            partitions = np.where(np.asarray(given.is_valid()), chosen, partitions)
        return partitions

    def _append(self, pieces: dict[TopicPartition, RecordColumns]) -> None:
        if self._claim:
            pieces = self._claim_new(pieces)
        for partition, columns in pieces.items():
            self._encode(self._queue(partition), columns)
            self._run(until_acknowledged=False)

    def _claim_new(self, pieces: dict[TopicPartition, RecordColumns]) -> dict[TopicPartition, RecordColumns]:
        """Writes the first record of each new partition of this writer, and checks that it is there."""
        new = [partition for partition in pieces if partition not in self._queues]
        if not new:
            return pieces
        rest = dict(pieces)
        for partition in new:
            queue = self._queue(partition)
            self._encode(queue, pieces[partition].slice(0, 1), self._claim)
            rest[partition] = pieces[partition].slice(1, len(pieces[partition]) - 1)
        self._run(until_acknowledged=True)
        offsets = {partition: at.first_offset for partition in new if (at := self._queues[partition].written)}
        try:
            check_claims(self._client, offsets, Claim(self.producer_id, self.producer_epoch, self._claim))
        except KafkaError as error:
            self._failure = error
            raise
        return {partition: columns for partition, columns in rest.items() if len(columns)}

    def _queue(self, partition: TopicPartition) -> _PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _PartitionQueue(partition, self._batch_bytes)
        return queue

    def _encode(self, queue: _PartitionQueue, columns: RecordColumns, claim: int = 0) -> None:
        queue.unsent.extend(self._batches(queue, columns, queue.next_sequence, claim))
        queue.next_sequence = (queue.next_sequence + len(columns)) & 0x7FFFFFFF

    def _batches(
        self, queue: _PartitionQueue, columns: RecordColumns, sequence: int, claim: int = 0
    ) -> Iterator[_Pending]:
        is_transactional = self._transactional_id is not None
        identity = BatchIdentity(self.producer_id, self.producer_epoch, sequence, is_transactional, claim)
        first = 0
        for batch in encode_batches(
            columns,
            identity=identity,
            compression=self._compression,
            compression_level=self._compression_level,
            batch_bytes=queue.batch_bytes,
        ):
            rows = columns.slice(first, batch.record_count)
            at = (sequence + first) & 0x7FFFFFFF
            yield _Pending(batch.data, batch.record_count, rows, at, queue.batch_bytes)
            first += batch.record_count

    # --- batches to brokers ---

    def flush(self) -> dict[TopicPartition, Written]:
        """Waits until every record is acknowledged; returns what was written to each partition since the writer began.

        Raises KafkaError as `write`.
        """
        self._run(until_acknowledged=True)
        return {partition: queue.written for partition, queue in self._queues.items() if queue.written is not None}

    def _run(self, *, until_acknowledged: bool) -> None:
        """Sends all unsent batches, and receives responses whenever a broker has the most requests in flight; then, if
        asked, receives all responses."""
        if self._failure is not None:
            raise self._failure
        self._backoff.reset()
        while True:
            try:
                while self._send_ready():
                    self._receive_oldest()
                while until_acknowledged and any(self._requests.values()):
                    self._receive_oldest()
                    self._send_ready()
                return
            except _BatchTooLargeError as error:
                self._split(error.queue)
            except KafkaError as error:
                self._recover(error)

    def _split(self, queue: _PartitionQueue) -> None:
        """The broker rejects the oldest batch of this queue, which has several records, as too large. Replaces it by
        smaller batches with the same sequences, as Kafka's own producer does, and limits the next batches."""
        self._drop_connections()
        for each in self._queues.values():
            each.resend()
        large = queue.unsent.popleft()
        queue.batch_bytes = max(1, min(queue.batch_bytes, large.batch_bytes // 2))
        half = large.record_count // 2
        parts = (
            *self._batches(queue, large.rows.slice(0, half), large.sequence),
            *self._batches(
                queue, large.rows.slice(half, large.record_count - half), (large.sequence + half) & 0x7FFFFFFF
            ),
        )
        queue.unsent.extendleft(reversed(parts))

    def _recover(self, error: KafkaError) -> None:
        """After a retriable failure, prepares to send all unacknowledged batches again. Raises any other error."""
        self._drop_connections()
        if not error.is_retriable:
            self._failure = error
            raise error
        for queue in self._queues.values():
            queue.resend()
            if queue.unsent:
                self._client.forget(queue.topic_partition.topic)
        try:
            self._backoff.wait(error)
        except KafkaError:
            self._failure = error
            raise

    def _send_ready(self) -> bool:
        """Sends as many batches as may be in flight. True if any are left unsent."""
        waiting = {queue.topic_partition: queue for queue in self._queues.values() if self._may_send(queue)}
        for leader_id, partitions in self._client.group_by_leader(waiting).items():
            queues = deque(waiting[partition] for partition in partitions)
            requests = self._requests.setdefault(leader_id, deque())
            while queues and len(requests) < MAX_IN_FLIGHT:
                self._send_request(leader_id, requests, queues)
        return any(queue.unsent for queue in self._queues.values())

    def _may_send(self, queue: _PartitionQueue) -> bool:
        """The first batch is sent alone: if it were rejected, a broker without records of this producer would accept
        the second, and then never the first. In a transaction, the broker remembers the lowest sequence that was
        tried."""
        is_known = queue.written is not None or self._transactional_id is not None
        return bool(queue.unsent) and (is_known or not queue.in_flight)

    def _send_request(self, leader_id: int, requests: deque[_Sent], queues: deque[_PartitionQueue]) -> None:
        """Sends one request with one batch from each queue, up to _REQUEST_BYTES; drops queues that have no more."""
        chosen: list[_PartitionQueue] = []
        size = 0
        for _ in range(len(queues)):
            if size >= _REQUEST_BYTES:
                break
            queue = queues.popleft()
            chosen.append(queue)
            size += len(queue.unsent[0].data)
            queue.in_flight.append(queue.unsent.popleft())
            if self._may_send(queue):
                queues.append(queue)
        connection = self._connection(leader_id)
        rows: dict[str, list[PartitionProduceData]] = {}
        for queue in chosen:
            partition = queue.topic_partition
            data = PartitionProduceData(index=partition.partition, records=queue.in_flight[-1].data)
            rows.setdefault(partition.topic, []).append(data)
        ids = {topic: self._client.topic(topic).topic_id for topic in rows}
        topics = tuple(
            TopicProduceData(name=topic, topic_id=ids[topic], partition_data=tuple(data))
            for topic, data in rows.items()
        )
        by_name = ZERO_UUID in ids.values()
        version = connection.version_of(ApiKey.PRODUCE, max_version=_PRODUCE_BY_NAME if by_name else None)
        if self._transactional_id is not None and version < PRODUCE_FROM:
            raise kafka_error("UNSUPPORTED_VERSION", f"{connection} has no transactions v2 (Produce {PRODUCE_FROM})")
        request = ProduceRequest(self._transactional_id, ACKS_ALL, self._request_timeout_ms, topics)
        connection.send(request, version)
        requests.append(_Sent(chosen, {topic_id: topic for topic, topic_id in ids.items()}))

    def _connection(self, leader_id: int) -> ClientConnection:
        connection = self._connections.get(leader_id)
        if connection is None or not connection.is_open:
            shared = self._client.connection_to(leader_id)
            connection = self._connections[leader_id] = self._client.open_connection(shared.host, shared.port)
        return connection

    def _drop_unanswered(self) -> None:
        """Closes connections with a pending response; the others serve the next transaction."""
        if any(self._requests.values()):
            self._drop_connections()

    def _drop_connections(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._requests.clear()

    # --- responses ---

    def _receive_oldest(self) -> None:
        """Receives one response from each broker with pending ones, so that no broker waits for another."""
        for leader_id, requests in self._requests.items():
            if requests:
                response = self._connections[leader_id].receive_message(ProduceResponse)
                self._take_response(requests.popleft(), response)

    def _take_response(self, sent: _Sent, response: ProduceResponse) -> None:
        by_partition = {queue.topic_partition: queue for queue in sent.queues}
        for topic in response.responses:
            name = topic.name or sent.names.get(topic.topic_id, "")
            for row in topic.partition_responses:
                queue = by_partition.pop(TopicPartition(name, row.index), None)
                if queue is None:
                    raise kafka_error("UNKNOWN_SERVER_ERROR", f"an answer for {name}-{row.index}, which was not asked")
                self._take_row(queue, row)
        if by_partition:
            raise kafka_error("UNKNOWN_SERVER_ERROR", f"no answer for {next(iter(by_partition))}")

    def _take_row(self, queue: _PartitionQueue, row: PartitionProduceResponse) -> None:
        if row.error_code in _TOO_LARGE and queue.in_flight[0].record_count > 1:
            raise _BatchTooLargeError(queue)
        if row.error_code not in (0, 46):  # 46, a duplicate: the broker has the batch
            raise _refusal(queue, row)
        queue.acknowledge(row.base_offset)
        self._backoff.reset()


def _check_partitions(topic: str, partitions: IntArray, columns: RecordColumns, partition_count: int) -> None:
    """Raises ValueError for a row with a partition that the topic lacks."""
    wrong = (partitions < 0) | (partitions >= partition_count)
    if wrong.any():
        row = int(np.argmax(wrong))
        said = f"topic {topic!r} has no partition {int(partitions[row])}"
        raise ValueError(said + origin_text(columns.origins, row))


def _refusal(queue: _PartitionQueue, row: PartitionProduceResponse) -> KafkaError:
    """The broker's error for the oldest batch in flight, with the input record that caused it, if known (KIP-467)."""
    said = f"write to {queue.topic_partition}: {row.error_message or 'refused'}"
    rows = queue.in_flight[0].rows if queue.in_flight else None
    blamed = row.record_errors[0] if row.record_errors else None
    if blamed is not None and blamed.batch_index_error_message:
        said += f" ({blamed.batch_index_error_message})"
    if rows is not None:
        is_size = row.error_code in _TOO_LARGE
        index = blamed.batch_index if blamed is not None else largest_row(rows.keys, rows.values) if is_size else 0
        said += origin_text(rows.origins, index)
    return kafka_error(row.error_code, said)


def _slices(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The batch in pieces of about SLICE_BYTES, at most SLICE_ROWS: small enough to stay in the processor's cache."""
    if not batch.num_rows:
        return []
    rows = min(SLICE_ROWS, max(1, batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1)))
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies columns that are views of text or bytes, because Arrow cannot filter rows of such columns."""
    for place, field in enumerate(batch.schema):
        is_text = pa.types.is_string_view(field.type)
        if is_text or pa.types.is_binary_view(field.type):
            copied = batch.column(place).cast(pa.string() if is_text else pa.binary())
            batch = batch.set_column(place, field.name, copied)
    return batch


def write_table(
    access: ClusterAccess | str,
    topic: str,
    data: pa.Table | pa.RecordBatch,
    *,
    compression: str = "none",
    batch_bytes: int = DEFAULT_BATCH_BYTES,
) -> Mapping[TopicPartition, Written]:
    """Writes a table and waits until it is acknowledged; returns what was written to each partition. Raises as
    TopicWriter."""
    with TopicWriter(access, topic, compression=compression, batch_bytes=batch_bytes) as writer:
        writer.write(data)
        return writer.flush()
