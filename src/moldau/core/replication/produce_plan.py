"""Decides one Produce request: which batches are appended or rejected, and what the answer waits for.

The handler calls `append` for each batch and does what it asks for. Then it waits for each `Unacknowledged`, and sends
`results`.
"""

from __future__ import annotations

import msgspec

from moldau.core.log.appending import AppendOrigin
from moldau.core.replication.leader import ACKS_ALL
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, StorageFailedError, kafka_error
from moldau.types import Buffer, LeaderEpoch, Offset, Pausing
from moldau.wire.protocol.fast_produce import ProduceEntry, ProduceResult, RecordErrors
from moldau.wire.records.batch import ATTRIBUTES_POSITION, HEADER_SIZE
from moldau.wire.records.compression import COMPRESSION_MASK
from moldau.wire.records.validate import is_one_batch, is_zstd

ZSTD_FROM = 7
MANY_RECORDS = 1_000
"""A request with more records to check is served with pauses, because they take about 1.5 ms."""
MAX_RECORD_ERRORS_PER_RESPONSE = 5_000
"""Beyond it, a partition gets its error without the records, because a response has a limit."""
INVALID_TIMESTAMP = ERROR_CODES["INVALID_TIMESTAMP"]
INVALID_RECORD = ERROR_CODES["INVALID_RECORD"]
REJECTED_BY_THE_LOG = (
    INVALID_TIMESTAMP,
    ERROR_CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"],
    ERROR_CODES["INVALID_PRODUCER_EPOCH"],
    INVALID_RECORD,
    ERROR_CODES["INVALID_TXN_STATE"],
    ERROR_CODES["NOT_ENOUGH_REPLICAS"],
)
"""Results with these errors carry the log start offset."""

FLUSH, WAKE, COUNT_ERROR, DIRECTORY_FAILED = 1, 2, 4, 8
"""What the handler does after a batch, as bits: request a flush of the partition, wake those who wait for the
partition, count the error of the last result, take a failed log directory offline."""

PartitionKey = tuple[bytes, int]
"""Topic (its id from version 13 on) and partition index."""
Rejected = dict[PartitionKey, KafkaError]
"""Batches that are rejected before the append."""
Prepared = dict[PartitionKey, KafkaError | Buffer]
"""Batches that were read record by record: the batch to append, or its error."""


class Unacknowledged(msgspec.Struct, frozen=True):
    """An appended batch that is not yet as durable as `flush.messages` and acks require. `place`: of its result."""

    place: int
    partition: Partition
    end_offset: Offset
    leader_epoch: LeaderEpoch
    is_flush_due: bool


class Unexplained(msgspec.Struct, frozen=True):
    """A batch that was rejected for the timestamps in its header. The records that have them are not known yet."""

    place: int
    partition: Partition
    batch: bytes
    now_ms: int


class ProducePlan(msgspec.Struct, eq=False):
    """The plan of one request. `results` are in the order of the request."""

    version: int
    acks: int
    origin: AppendOrigin
    results: list[ProduceResult] = []
    waiting: list[Unacknowledged] = []
    unexplained: list[Unexplained] = []
    has_errors: bool = False
    """Whether a partition or its log rejected a batch."""
    named_records: int = 0
    """How many records the results name for their errors."""

    def append(
        self,
        topic: bytes,
        index: int,
        records: memoryview | None,
        partition: Partition,
        now_ms: int,
        prepared: KafkaError | Buffer | None = None,
    ) -> int:
        """Appends a batch, or `prepared` in its place. Returns the work of the caller: FLUSH, WAKE, COUNT_ERROR, or
        DIRECTORY_FAILED."""
        acks = self.acks
        try:
            if records is None:
                raise kafka_error("INVALID_RECORD", "no record batch")
            if prepared is not None:
                if isinstance(prepared, KafkaError):
                    raise prepared
                appended = partition.append(prepared, now_ms, self.origin, acks, are_records_checked=True)
            else:
                if self.version < ZSTD_FROM:
                    check_codec(records)
                appended = partition.append(records, now_ms, self.origin, acks)
        except KafkaError as error:
            return self._rejected_by_partition(topic, index, error, partition, records, now_ms)
        except StorageFailedError:
            self.results.append(rejection(topic, index, kafka_error("KAFKA_STORAGE_ERROR")))
            return DIRECTORY_FAILED
        self.results.append(
            (topic, index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset, None)
        )
        end_offset = appended.last_offset + 1
        is_committed = partition.position.high_watermark >= end_offset
        todo = WAKE if is_committed or partition.has_followers else 0
        if end_offset - partition.log.recovery_point >= partition.flush_messages:
            todo |= FLUSH
        if todo & FLUSH or (acks == ACKS_ALL and not is_committed):
            self._wait(partition, Offset(end_offset), is_flush_due=bool(todo & FLUSH))
        return todo

    def reject(self, topic: bytes, index: int, error: KafkaError) -> int:
        """Gives a batch this error without an append."""
        self.results.append(rejection(topic, index, error))
        return COUNT_ERROR

    def reject_target(self, topic: bytes, index: int, error: KafkaError) -> int:
        """As `reject`, for a partition that is not here or may not be written."""
        self.has_errors = True
        return self.reject(topic, index, error)

    def reject_all(self, entries: list[ProduceEntry], error: KafkaError) -> Pausing[None]:
        """Gives every batch this result: the request itself is wrong."""
        for topic, index, _ in entries:
            self.results.append(rejection(topic, index, error))
            yield

    def explain(self, unexplained: Unexplained, error: KafkaError) -> None:
        """Names in the result the records that have the wrong timestamps (KIP-467)."""
        topic, index = self.results[unexplained.place][:2]
        self.results[unexplained.place] = self._rejected_by_log(topic, index, error, unexplained.partition)

    def not_acknowledged(self, waited: Unacknowledged, error: KafkaError) -> None:
        """The batch is in the log, but did not become safe in time. Its result keeps the offsets, as in Kafka."""
        found = self.results[waited.place]
        self.results[waited.place] = (*found[:2], error.code, *found[3:6], error.message)

    def check_unanswered(self) -> None:
        """With acks=0 only the end of the connection tells the client of an error. Raises ProtocolError."""
        for topic, index, code, *_ in self.results:
            if code:
                raise ProtocolError(f"produce with acks=0 to {topic!r}-{index} failed with error {code}")

    def _wait(self, partition: Partition, end_offset: Offset, *, is_flush_due: bool) -> None:
        place, epoch = len(self.results) - 1, partition.leader_epoch
        self.waiting.append(Unacknowledged(place, partition, end_offset, epoch, is_flush_due))

    def _rejected_by_partition(
        self,
        topic: bytes,
        index: int,
        error: KafkaError,
        partition: Partition,
        records: memoryview | None,
        now_ms: int,
    ) -> int:
        is_batch = records is not None and is_one_batch(records)
        if error.code not in REJECTED_BY_THE_LOG or (error.code == INVALID_RECORD and not is_batch):
            return self.reject_target(topic, index, error)
        self.has_errors = True
        if error.code == INVALID_TIMESTAMP and records is not None and not error.record_errors:
            self.unexplained.append(Unexplained(len(self.results), partition, bytes(records), now_ms))
        self.results.append(self._rejected_by_log(topic, index, error, partition))
        return COUNT_ERROR

    def _rejected_by_log(self, topic: bytes, index: int, error: KafkaError, partition: Partition) -> ProduceResult:
        """As `rejection`, with the log start offset and the records that have errors."""
        message: str | RecordErrors | None = error.message
        if error.record_errors and self.named_records + len(error.record_errors) <= MAX_RECORD_ERRORS_PER_RESPONSE:
            self.named_records += len(error.record_errors)
            message = RecordErrors(error.message or error.name, error.record_errors)
        return (topic, index, error.code, -1, -1, partition.log.log_start_offset, message)


def rejection(topic: bytes, index: int, error: KafkaError) -> ProduceResult:
    """The result of a batch that was rejected before it reached a log."""
    return (topic, index, error.code, -1, -1, -1, error.message)


def check_acks(acks: int) -> None:
    """Raises INVALID_REQUIRED_ACKS (21)."""
    if acks < -1 or acks > 1:
        raise kafka_error("INVALID_REQUIRED_ACKS")


def check_codec(records: Buffer) -> None:
    """For versions before ZSTD_FROM. Raises UNSUPPORTED_COMPRESSION_TYPE (76)."""
    if is_zstd(records):
        raise kafka_error("UNSUPPORTED_COMPRESSION_TYPE", "zstd needs Produce version 7")


def find_repeated(entries: list[ProduceEntry]) -> Pausing[Rejected]:
    """Rejects every batch of a partition that is named twice. Kafka appends the last and drops the others silently."""
    seen: dict[bytes, dict[int, None]] = {}
    repeated: Rejected = {}
    for topic, index, _ in entries:
        indexes = seen.setdefault(topic, {})
        if index in indexes:
            repeated[topic, index] = kafka_error("INVALID_REQUEST", "the request names the partition twice")
        indexes[index] = None
        yield
    return repeated


def count_records_to_read(partition: Partition, records: memoryview) -> int:
    """How many records must be read one by one before the append; more than MANY_RECORDS if they must be expanded."""
    if len(records) < HEADER_SIZE:
        return 0
    kind = records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    settings = partition.log.settings
    target = settings.target_compression
    if kind or (target is not None and target.kind != kind):
        return MANY_RECORDS + 1
    if not settings.is_compacted and not settings.is_record_validation_full:
        return 0
    return int.from_bytes(records[HEADER_SIZE - 4 : HEADER_SIZE], "big")
