"""Reads topics into Arrow: `read_topic` for users, `RangeReader` for tasks with planned offsets.

A reader stops by offsets, never by counts, because a range may have gaps, control batches and aborted records. One
request is always in flight while the last response is decoded, so the broker and the socket work ahead. A reader's
memory is bounded by one response (`batch_bytes`, or one larger batch), its decompressed bytes and their Arrow batch.
Works with Moldau, and with Apache Kafka 2.8 and later.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from moldau.client.blocking.cluster import Backoff, ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.blocking.offsets import list_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import (
    EARLIEST_LOCAL_FROM,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    by_topic,
)
from moldau.client.protocol.retries import NO_SUCH_TOPIC
from moldau.columnar.decode import AbortedTransaction, DecodeSettings, decode_records, next_fetch_offset
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.transport.access import open_client
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

DEFAULT_BATCH_BYTES = 4 * 1024 * 1024
MAX_WAIT_MS = 500
_SLACK_BYTES = 64 * 1024
_FETCH_BY_NAME = 12
_OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]

logger = logging.getLogger("moldau.columnar")

Isolation = Literal["read_committed", "read_uncommitted"]
OnDataLoss = Literal["fail", "skip"]
OffsetsSpec = Literal["earliest", "latest"] | Mapping[int, int]
"""Where to start or end: one word for all partitions, or an offset for each. In a mapping, -2 is the earliest offset
and -1 the latest, and absent partitions are not read."""

ISOLATION_LEVELS: dict[str, int] = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}


class PartitionRange(msgspec.Struct, frozen=True):
    """The offsets `start_offset <= offset < end_offset` of a partition; some may have no record.

    A nonzero `topic_id` must still be the topic's: a topic that was deleted and created again is rejected.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: Uuid = ZERO_UUID

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition without its offsets."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """In offsets, so at least the number of records; below 0 if the log ends before the start."""
        return self.end_offset - self.start_offset


class ReaderSettings(msgspec.Struct, frozen=True):
    """A reader's options. `batch_bytes` bounds one response, and so the size of the Arrow batches.

    `on_data_loss`: "fail" raises OFFSET_OUT_OF_RANGE if offsets of a range are gone (retention, truncation),
    INCONSISTENT_TOPIC_ID if a topic was created again, and UNKNOWN_TOPIC_OR_PARTITION if it was deleted; "skip" logs
    that and continues with the remaining offsets. The part of a range after the log's end counts as gone once no
    records have come for the client's `retry_timeout_ms`.
    """

    isolation: Isolation = "read_committed"
    batch_bytes: int = DEFAULT_BATCH_BYTES
    on_data_loss: OnDataLoss = "fail"
    decode: DecodeSettings = DecodeSettings()


# --- for people ---


def read_topic(
    access: ClusterAccess | str,
    topic: str,
    *,
    start: OffsetsSpec = "earliest",
    end: OffsetsSpec = "latest",
    isolation: Isolation = "read_committed",
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    partitions: Iterable[int] | None = None,
    include_headers: bool = True,
    check_crcs: bool = True,
    on_data_loss: OnDataLoss = "fail",
) -> Generator[pa.RecordBatch, None, None]:
    """Reads a topic up to the end offsets taken at this call, as Arrow batches of `decode.TOPIC_SCHEMA`.

    Records of one partition come in order; partitions alternate by batch. `partitions` selects some of them. `access`:
    to the cluster; a text is its bootstrap servers. `on_data_loss`: the reaction if records are deleted after this call
    and before they are read (ReaderSettings), or if a start offset is after the log's end, because the topic was
    created again or truncated since the offset was stored. At the call, raises UNKNOWN_TOPIC_OR_PARTITION for a missing
    topic or partition, ValueError for a wrong argument, OFFSET_OUT_OF_RANGE for a start after the end, and KafkaError
    if no broker answers within the `first_contact_timeout_ms` of the access. The iterator raises KafkaError for a
    broker that is lost for longer than its `retry_timeout_ms`, and ProtocolError for a malformed batch.
    """
    settings = ReaderSettings(
        isolation=isolation,
        batch_bytes=batch_bytes,
        on_data_loss=on_data_loss,
        decode=DecodeSettings(include_headers=include_headers, check_crcs=check_crcs),
    )
    client = open_client(ClusterAccess.of(access))
    try:
        ranges = resolve_ranges(
            client,
            topic,
            start=start,
            end=end,
            isolation=isolation,
            partitions=partitions,
            on_data_loss=on_data_loss,
        )
        reader = RangeReader(client, ranges, settings)
    except BaseException:
        client.close()
        raise
    return _close_after(client, reader)


def _close_after(client: ClusterClient, reader: RangeReader) -> Generator[pa.RecordBatch, None, None]:
    with client, reader:
        for _, batch in reader:
            yield batch


def read_range(
    access: ClusterAccess | str,
    ranges: PartitionRange | Sequence[PartitionRange],
    settings: ReaderSettings = ReaderSettings(),  # noqa: B008  # a frozen value
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Reads known ranges, of one topic or several, with a separate client. `access`: as in `read_topic`. Raises
    ValueError for two ranges of one partition."""
    with (
        open_client(ClusterAccess.of(access)) as client,
        RangeReader(client, [ranges] if isinstance(ranges, PartitionRange) else ranges, settings) as reader,
    ):
        yield from reader


def resolve_ranges(
    client: ClusterClient,
    topic: str,
    *,
    start: OffsetsSpec = "earliest",
    end: OffsetsSpec = "latest",
    isolation: Isolation = "read_committed",
    partitions: Iterable[int] | None = None,
    on_data_loss: OnDataLoss = "fail",
) -> list[PartitionRange]:
    """The current ranges of a topic's partitions, sorted, including empty ones.

    Raises ValueError for a partition without an offset or an end before the start. If the end is looked up, raises
    OFFSET_OUT_OF_RANGE for a start after the log's end; `on_data_loss="skip"` logs that, and the range is empty.
    """
    metadata = client.topic(topic)
    wanted = sorted(metadata.partitions) if partitions is None else sorted(dict.fromkeys(partitions))
    for spec in (start, end):
        if not isinstance(spec, str) and partitions is None:
            wanted = [partition for partition in wanted if partition in spec]
    unknown = [partition for partition in wanted if partition not in metadata.partitions]
    if unknown:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"topic {topic!r} has no partition {unknown[0]}")
    starts = _resolve(client, topic, wanted, start, isolation)
    ends = _resolve(client, topic, wanted, end, isolation)
    for partition in wanted:
        if not isinstance(start, str) and not isinstance(end, str) and starts[partition] > ends[partition]:
            raise ValueError(f"{topic}-{partition}: starts at {starts[partition]}, ends at {ends[partition]}")
    if isinstance(end, str):
        ahead = [TopicPartition(topic, partition) for partition in wanted if starts[partition] > ends[partition]]
        _check_ahead(client, {partition: starts[partition.partition] for partition in ahead}, on_data_loss)
    return [
        PartitionRange(topic, partition, starts[partition], max(ends[partition], starts[partition]), metadata.topic_id)
        for partition in wanted
    ]


def _check_ahead(client: ClusterClient, starts: Mapping[TopicPartition, int], on_data_loss: OnDataLoss) -> None:
    """A start may be after the last stable offset (those records are not committed yet), but not after the log's
    end."""
    asked = dict.fromkeys(starts, LATEST_TIMESTAMP)
    ends = list_offsets(client, asked, isolation_level=READ_UNCOMMITTED) if asked else {}
    for partition, end in ends.items():
        if starts[partition] > end:
            said = f"{partition}: starts at {starts[partition]}, but the log ends at {end}"
            if on_data_loss == "fail":
                raise kafka_error("OFFSET_OUT_OF_RANGE", said)
            logger.warning("%s: nothing of it is read", said)


def _resolve(
    client: ClusterClient, topic: str, partitions: Sequence[int], spec: OffsetsSpec, isolation: Isolation
) -> dict[int, int]:
    words = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
    if isinstance(spec, str):
        if spec not in words:
            raise ValueError(f"offsets are 'earliest', 'latest' or a mapping, not {spec!r}")
        spec = dict.fromkeys(partitions, words[spec])
    missing = [partition for partition in partitions if partition not in spec]
    if missing:
        raise ValueError(f"no offset is given for partition {missing[0]} of {topic!r}")
    asked = {TopicPartition(topic, partition): spec[partition] for partition in partitions if spec[partition] < 0}
    wrong = [offset for offset in asked.values() if offset not in words.values()]
    if wrong:
        raise ValueError(f"offset {wrong[0]}: only -2 (earliest) and -1 (latest) are below 0")
    found = list_offsets(client, asked, isolation_level=_isolation_level(isolation)) if asked else {}
    return {
        partition: spec[partition] if spec[partition] >= 0 else found[TopicPartition(topic, partition)]
        for partition in partitions
    }


def _isolation_level(isolation: Isolation) -> int:
    if isolation not in ISOLATION_LEVELS:
        raise ValueError(f"isolation is one of {', '.join(ISOLATION_LEVELS)}, not {isolation!r}")
    return ISOLATION_LEVELS[isolation]


# --- for tasks ---


class RangeReader:
    """Reads ranges of partitions over connections lent by its client, one per leader: an iterator of (partition,
    batch).

    `positions` has the next offset to return of each partition. Use it as a context manager, or close it. Raises
    ValueError for two ranges of one partition.
    """

    def __init__(self, client: ClusterClient, ranges: Iterable[PartitionRange], settings: ReaderSettings) -> None:
        if settings.batch_bytes <= 0:
            raise ValueError(f"batch_bytes is {settings.batch_bytes}")
        self._client = client
        self._settings = settings
        self._isolation_level = _isolation_level(settings.isolation)
        self._ends: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, Uuid] = {}
        self.positions: dict[TopicPartition, int] = {}
        for row in ranges:
            if row.topic_partition in self._ends:
                raise ValueError(f"two ranges of {row.topic_partition}: give each its own reader")
            self.positions[row.topic_partition] = row.start_offset
            self._ends[row.topic_partition] = row.end_offset
            if row.topic_id != ZERO_UUID:
                self._topic_ids[row.topic] = row.topic_id
        self._unfinished = deque(tp for tp, end in self._ends.items() if self.positions[tp] < end)
        self._connections: dict[int, ClientConnection] = {}
        self._in_flight: dict[int, _Fetch] = {}
        self._buffers: dict[int, bytearray | None] = {}
        self._backoff = client.backoff()
        self._silence: Backoff | None = None
        """Since when every response has been empty; None if the last one was not, or was an error."""
        self._told: dict[TopicPartition, int] = {}
        """Positions for which a warning about an open transaction was logged."""
        self._tiered: dict[TopicPartition, int] = {}
        """Positions that are in tiered storage."""

    def close(self) -> None:
        """Returns the connections to the client. Unfinished ranges stay as they are."""
        for leader_id, connection in self._connections.items():
            self._client.take_back(leader_id, connection)
        self._connections.clear()
        self._in_flight.clear()

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Ends when every range is read. Raises KafkaError when the client's timeouts expire without progress."""
        while self._unfinished:
            try:
                self._send_fetches()
                for leader_id in list(self._in_flight):
                    yield from self._receive(leader_id)
            except TopicRecreatedError as error:
                self._silence = None
                if self._settings.on_data_loss == "fail":
                    raise
                self.close()
                self._skip_topic(error.topic, error)
            except KafkaError as error:
                if not error.is_retriable:
                    raise
                self._silence = None
                self.close()
                for topic in by_topic(self._unfinished):
                    self._client.forget(topic)
                self._wait(error)

    def _wait(self, error: KafkaError) -> None:
        """Pauses before the next attempt. Raises the error when no time is left, unless it concerns missing topics that
        may be skipped."""
        try:
            self._backoff.wait(error)
        except KafkaError:
            if error.code not in NO_SUCH_TOPIC or self._settings.on_data_loss == "fail":
                raise
            topics = list(by_topic(self._unfinished))
            there = self._client.retry(lambda: self._client.refresh(topics))
            gone = [topic for topic in topics if topic not in there]
            if not gone:
                raise
            for topic in gone:
                self._skip_topic(topic, error)
            self._backoff.reset()

    # --- requests ---

    def _send_fetches(self) -> None:
        """One request to each leader without one in flight."""
        for leader_id, partitions in self._client.group_by_leader(self._unfinished).items():
            if leader_id not in self._in_flight:
                self._send_fetch(leader_id, partitions)

    def _send_fetch(self, leader_id: int, partitions: Sequence[TopicPartition], *, may_wait: bool = False) -> None:
        """`may_wait`: the broker may delay its response for up to MAX_WAIT_MS until records arrive.

        Otherwise the broker responds at once, and a large `min_bytes` only asks for large responses: by default,
        Moldau's broker limits those for one partition to 1 MiB, which suits a reader that polls for new records, but
        gives a reader of whole topics four times as many Arrow batches.
        """
        connection = self._connection(leader_id)
        topics: list[FetchTopic] = []
        names: dict[Uuid, str] = {}
        for topic, rows in by_topic(partitions).items():
            topic_id = self._topic_id(topic)
            names[topic_id] = topic
            topics.append(
                FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=tuple(
                        FetchPartition(
                            partition=row.partition,
                            current_leader_epoch=self._client.leader_of(row).leader_epoch,
                            fetch_offset=self.positions[row],
                            partition_max_bytes=self._settings.batch_bytes,
                        )
                        for row in rows
                    ),
                )
            )
        version = connection.version_of(ApiKey.FETCH, max_version=_FETCH_BY_NAME if ZERO_UUID in names else None)
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS if may_wait else 0,
            min_bytes=1 if may_wait else max(1, self._settings.batch_bytes // 2),
            max_bytes=self._settings.batch_bytes,
            isolation_level=self._isolation_level,
            topics=tuple(topics),
        )
        connection.send(request, version)
        self._in_flight[leader_id] = _Fetch(names if version > _FETCH_BY_NAME else {}, list(partitions))

    def _connection(self, leader_id: int) -> ClientConnection:
        connection = self._connections.get(leader_id)
        if connection is None or not connection.is_open:
            connection = self._connections[leader_id] = self._client.lend_connection(leader_id)
        return connection

    def _topic_id(self, topic: str) -> Uuid:
        """Raises TopicRecreatedError if the topic is no longer the one of the range."""
        topic_id = self._client.topic(topic).topic_id
        expected = self._topic_ids.setdefault(topic, topic_id)
        if topic_id != expected:
            # the client's metadata may be older than the range
            self._client.forget(topic)
            topic_id = self._client.topic(topic).topic_id
        if topic_id != expected:
            raise TopicRecreatedError(topic)
        return topic_id

    # --- responses ---

    def _receive(self, leader_id: int) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        connection = self._connections[leader_id]
        response = connection.receive_message(FetchResponse, self._buffer(leader_id))
        fetch = self._in_flight.pop(leader_id)
        if response.error_code:
            raise kafka_error(response.error_code, f"fetch from {connection}")
        rows = [
            (TopicPartition(fetch.names.get(topic.topic_id) or topic.topic, row.partition_index), row)
            for topic in response.responses
            for row in topic.partitions
        ]
        is_empty = not any(row.records for _, row in rows)
        # while records arrive, the caller may spend time between them, which must not count as waiting
        self._silence = (self._silence or self._client.backoff()) if is_empty else None
        parts: list[tuple[TopicPartition, int, PartitionData]] = []
        first_error: KafkaError | None = None
        for partition, row in rows:
            before = self.positions[partition]
            try:
                self._advance(partition, row, is_empty)
            except KafkaError as error:
                first_error = first_error or error
            if row.records and self.positions[partition] > before:
                parts.append((partition, before, row))
        if first_error is None:
            mine = [partition for partition in fetch.partitions if self.positions[partition] < self._ends[partition]]
            try:
                if mine:
                    self._send_fetch(leader_id, self._rotated(mine, parts), may_wait=is_empty)
            except KafkaError as error:
                # these records must be returned first, because the positions are already after them
                first_error = error
        for partition, before, row in parts:
            yield from self._decode(partition, before, row)
        if first_error is not None:
            raise first_error

    def _buffer(self, leader_id: int) -> bytearray | None:
        """Memory for the responses of one leader. None for the first response, which gets memory of its exact size,
        because a range of a small micro-batch needs no second."""
        if leader_id not in self._buffers:
            self._buffers[leader_id] = None
        elif self._buffers[leader_id] is None:
            self._buffers[leader_id] = bytearray(self._settings.batch_bytes + _SLACK_BYTES)
        return self._buffers[leader_id]

    @staticmethod
    def _rotated(
        partitions: list[TopicPartition], served: list[tuple[TopicPartition, int, PartitionData]]
    ) -> list[TopicPartition]:
        """Moves the partitions that were just served to the end, because a broker fills a response in the order of the
        request."""
        done = {partition: True for partition, _, _ in served}
        return [row for row in partitions if row not in done] + [row for row in partitions if row in done]

    def _advance(self, partition: TopicPartition, row: PartitionData, is_empty: bool) -> None:
        """Moves the position after the received records. Raises the partition's error."""
        if row.error_code == _OFFSET_OUT_OF_RANGE:
            self._skip_lost(partition)
            return
        if row.error_code:
            raise kafka_error(row.error_code, f"fetch of {partition} at {self.positions[partition]}")
        end = self._ends[partition]
        position = next_fetch_offset(row.records) if row.records else None
        if position is None:
            if row.records:
                raise kafka_error("RECORD_LIST_TOO_LARGE", f"{partition}: no whole batch in {len(row.records)} bytes")
            readable = row.last_stable_offset if self._isolation_level == READ_COMMITTED else row.high_watermark
            readable = row.high_watermark if readable < 0 else readable
            is_long = self._silence is not None and self._silence.is_over()
            if is_empty and readable >= end:
                if not self._is_tiered(partition):
                    # no records left although the offsets are readable: compaction removed the end of the range
                    position = end
                elif is_long:
                    said = f"{partition}: nothing comes from tiered storage at offset {self.positions[partition]}"
                    raise kafka_error("REQUEST_TIMED_OUT", said)
            elif is_empty and readable >= row.high_watermark and is_long:
                # the log has ended before the range for longer than a broker may be lost, so it was truncated. At a
                # last stable offset the reader keeps waiting: the coordinator ends the open transaction when it times
                # out.
                self._skip_lost(partition)
                return
            elif is_empty and is_long:
                self._tell_of_waiting(partition, readable)
        if position is not None:
            self.positions[partition] = max(position, self.positions[partition])
            self._backoff.reset()
        if self.positions[partition] >= end:
            self._unfinished.remove(partition)

    def _is_tiered(self, partition: TopicPartition) -> bool:
        """Whether the leader has the position only in tiered storage (KIP-405): Apache Kafka then may respond without
        records and without an error, if it has not read them in time. A positive result is kept only for this position,
        because the local log may begin later by the next one."""
        position = self.positions[partition]
        if self._tiered.get(partition) == position:
            return True
        leader = self._client.connection_to(self._client.leader_of(partition).leader_id)
        if leader.version_of(ApiKey.LIST_OFFSETS) < EARLIEST_LOCAL_FROM:
            return False
        if position >= list_offsets(self._client, {partition: EARLIEST_LOCAL_TIMESTAMP})[partition]:
            return False
        self._tiered[partition] = position
        return True

    def _tell_of_waiting(self, partition: TopicPartition, readable: int) -> None:
        """Warns once for each position. Otherwise the wait for a transaction that nothing ends (KIP-664) would be
        silent."""
        position, end = self.positions[partition], self._ends[partition]
        if self._told.get(partition) != position:
            self._told[partition] = position
            logger.warning(
                "%s: waiting for offset %d to be committed, in a range up to %d: the transaction that is open at "
                "offset %d has not ended",
                partition,
                position,
                end,
                readable,
            )

    def _skip_lost(self, partition: TopicPartition) -> None:
        position, end = self.positions[partition], self._ends[partition]
        earliest = list_offsets(self._client, {partition: EARLIEST_TIMESTAMP})[partition]
        # after the log's end (it was truncated), nothing of the range is left either
        behind = earliest if position < earliest < end else end
        offsets = f"offsets {position} to {behind - 1} are" if behind - position > 1 else f"offset {position} is"
        if self._settings.on_data_loss == "fail":
            reason = "gone: deleted before they were read" if position < earliest else "not there: the log ends before"
            raise kafka_error("OFFSET_OUT_OF_RANGE", f"{partition}: {offsets} {reason}")
        logger.warning("%s: %s gone and left out", partition, offsets)
        self.positions[partition] = behind
        if self.positions[partition] >= end:
            self._unfinished.remove(partition)

    def _skip_topic(self, topic: str, error: KafkaError) -> None:
        logger.warning("topic %s: its ranges are left out: %s", topic, error)
        for partition in [one for one in self._unfinished if one.topic == topic]:
            self._unfinished.remove(partition)
            self.positions[partition] = self._ends[partition]

    def _decode(
        self, partition: TopicPartition, start_offset: int, row: PartitionData
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        aborted: list[AbortedTransaction] = []
        if self._isolation_level == READ_COMMITTED and row.aborted_transactions:
            aborted = [(entry.producer_id, entry.first_offset) for entry in row.aborted_transactions]
        for batch in decode_records(
            row.records or b"",
            partition,
            start_offset=start_offset,
            end_offset=self._ends[partition],
            aborted=aborted,
            settings=self._settings.decode,
        ):
            yield partition, batch


class TopicRecreatedError(KafkaError):
    """The topic of a range has a different id than when its offsets were taken."""

    code = 103
    name = "INCONSISTENT_TOPIC_ID"
    is_retriable = False

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} was deleted and made again since its offsets were taken")
        self.topic = topic


class _Fetch(msgspec.Struct, frozen=True):
    """A request in flight: the topics' names by id (empty: the response has names), and its partitions."""

    names: dict[Uuid, str]
    partitions: list[TopicPartition]
