"""Reads records by Moldau's own client, for logins that librdkafka does not support: delegation tokens and bearer
tokens.

It has the methods of confluent-kafka's consumer that the console uses. It joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from moldau.client.admin.error_texts import error_of
from moldau.client.blocking.offsets import list_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED
from moldau.client.protocol.security import ClientLogin
from moldau.errors import MoldauError
from moldau.products.console.cluster import ClusterError
from moldau.transport.access import open_client
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from moldau.wire.records.batch import BatchHeader, iterate_batches
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.record import Record, read_records

MAX_BYTES = 4 << 20
"""The limit of one response; a partition has a quarter of it."""
CREATE_TIME, LOG_APPEND_TIME = 1, 2
_FETCH_BY_NAME = 12


def needs_own_client(access: ClusterAccess) -> bool:
    login = access.security.login
    return login is not None and (not isinstance(login, ClientLogin) or login.is_token)


class OwnMessage(msgspec.Struct, frozen=True):
    """A record or an end of partition, with the interface of confluent-kafka's Message."""

    name: str
    index: int
    record: Record
    kind: int = CREATE_TIME
    is_end: bool = False

    def error(self) -> LibrdkafkaError | None:
        return LibrdkafkaError(LibrdkafkaError._PARTITION_EOF) if self.is_end else None

    def topic(self) -> str:
        return self.name

    def partition(self) -> int:
        return self.index

    def offset(self) -> int:
        return self.record.offset

    def timestamp(self) -> tuple[int, int]:
        return (self.kind, self.record.timestamp) if self.record.timestamp >= 0 else (0, -1)

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [
            (name if isinstance(name, str) else bytes(name).decode("utf-8", "replace"), value)
            for name, value in self.record.headers
        ]


class OwnConsumer:
    """Use from one thread. Every method raises ClusterError."""

    def __init__(self, access: ClusterAccess, *, tells_ends: bool, max_wait_ms: int) -> None:
        """`tells_ends`: also returns a message for each end of a partition."""
        self._client = open_client(access)
        self._tells_ends = tells_ends
        self._max_wait_ms = max_wait_ms
        self._positions: dict[TopicPartition, int] = {}
        self._told: set[TopicPartition] = set()
        self._waiting: list[OwnMessage] = []

    def close(self) -> None:
        self._client.close()

    def get_watermark_offsets(self, partition: LibrdkafkaPartition, timeout: float) -> tuple[int, int]:
        key = TopicPartition(partition.topic, partition.partition)
        return self._offset(key, EARLIEST_TIMESTAMP), self._offset(key, LATEST_TIMESTAMP)

    def offsets_for_times(self, partitions: Sequence[LibrdkafkaPartition], timeout: float) -> list[LibrdkafkaPartition]:
        wanted = {TopicPartition(each.topic, each.partition): each.offset for each in partitions}
        try:
            found = list_offsets(self._client, wanted)
        except MoldauError as error:
            raise ClusterError(str(error)) from error
        return [LibrdkafkaPartition(key.topic, key.partition, offset) for key, offset in found.items()]

    def assign(self, partitions: Sequence[LibrdkafkaPartition]) -> None:
        """Assigns partitions, each with its start offset."""
        self._positions = {TopicPartition(each.topic, each.partition): each.offset for each in partitions}
        self._told = set()
        self._waiting = []

    def consume(self, count: int, timeout: float) -> list[OwnMessage]:
        """At most `count` messages; waits for the first at most `timeout` seconds, if brokers observe that."""
        deadline_s = time.monotonic() + timeout
        while not self._waiting:
            rest_ms = int(1_000 * (deadline_s - time.monotonic()))
            try:
                self._fetch(max(0, min(rest_ms, self._max_wait_ms)))
            except MoldauError as error:
                raise ClusterError(str(error)) from error
            if rest_ms <= 0:
                break
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _offset(self, partition: TopicPartition, timestamp: int) -> int:
        try:
            return list_offsets(self._client, {partition: timestamp})[partition]
        except MoldauError as error:
            raise ClusterError(str(error)) from error

    def _fetch(self, wait_ms: int) -> None:
        by_leader = self._client.group_by_leader(self._positions)
        for leader_id, partitions in by_leader.items():
            request = FetchRequest(
                max_wait_ms=wait_ms // len(by_leader),
                min_bytes=1,
                max_bytes=MAX_BYTES,
                isolation_level=READ_COMMITTED,
                topics=_topics(partitions, self._positions),
            )
            answer = self._client.connection_to(leader_id).request(request, max_version=_FETCH_BY_NAME)
            for topic in answer.responses:
                for row in topic.partitions:
                    self._take(TopicPartition(topic.topic, row.partition_index), row)

    def _take(self, partition: TopicPartition, row: PartitionData) -> None:
        if partition not in self._positions:
            return
        if row.error_code:
            error = error_of(row.error_code)
            if not error.is_retriable:
                raise error
            self._client.forget(partition.topic)
            return
        begin = position = self._positions[partition]
        for header, batch in _readable(row, bytes(row.records or b"")):
            position = max(position, header.next_offset)
            kind = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME
            self._waiting += [
                OwnMessage(partition.topic, partition.partition, record, kind)
                for record in (() if batch is None else read_records(batch))
                if record.offset >= begin
            ]
        self._positions[partition] = position
        if not self._tells_ends:
            return
        if position < row.last_stable_offset:
            self._told.discard(partition)
        elif partition not in self._told:
            self._told.add(partition)
            end = Record(position, -1, None, None)
            self._waiting.append(OwnMessage(partition.topic, partition.partition, end, is_end=True))


def _topics(partitions: Sequence[TopicPartition], positions: dict[TopicPartition, int]) -> tuple[FetchTopic, ...]:
    rows: dict[str, list[FetchPartition]] = {}
    for each in partitions:
        row = FetchPartition(each.partition, fetch_offset=positions[each], partition_max_bytes=MAX_BYTES // 4)
        rows.setdefault(each.topic, []).append(row)
    return tuple(FetchTopic(topic=name, partitions=tuple(found)) for name, found in rows.items())


def _readable(row: PartitionData, data: bytes) -> Iterator[tuple[BatchHeader, bytes | None]]:
    """The batches of records; None in place of the data of markers and aborted records, which are skipped (KIP-98)."""
    aborts = sorted((each.first_offset, each.producer_id) for each in row.aborted_transactions or ())
    aborted: set[int] = set()
    for position, header in iterate_batches(data):
        batch = data[position : position + header.size]
        while aborts and aborts[0][0] <= header.last_offset:
            aborted.add(aborts.pop(0)[1])
        if header.is_control:
            if any(decode_control_key(marker.key) is ControlType.ABORT for marker in read_records(batch)):
                aborted.discard(header.producer_id)
            yield header, None
        else:
            yield header, None if header.is_transactional and header.producer_id in aborted else batch
