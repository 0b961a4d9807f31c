"""Produce: append record batches to partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice, starmap
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import astuple

from moldau.core.log.appending import Appended, AppendOrigin, check_batch_size
from moldau.core.replication.leader import ACKS_ALL
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, StorageFailedError, kafka_error
from moldau.shell.broker.handlers.leader_hints import name_leaders
from moldau.shell.broker.handlers.produce_targets import TOPIC_IDS_FROM, Entries, Refused, writable_partition
from moldau.shell.broker.handlers.rows import rows_by_topic
from moldau.shell.broker.handlers.transactional_batches import find_unverified, verify
from moldau.shell.broker.traffic import (
    BYTES_REJECTED,
    FAILED_PRODUCE_REQUESTS,
    INVALID_MESSAGE_CRC_RECORDS,
    INVALID_SEQUENCE_RECORDS,
    PRODUCE_ERRORS,
)
from moldau.shell.network.context import RequestContext
from moldau.shell.network.first_step import Waiting, begun
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.rights import WRITE_TRANSACTIONAL_ID
from moldau.types import Buffer, LeaderEpoch, Offset, Pausing, Uuid, whole
from moldau.wire.protocol.elsewhere import CurrentLeader, LeaderNode
from moldau.wire.protocol.fast_produce import (
    ManyEntriesError,
    RecordErrors,
    decode_produce_request,
    encode_produce_response,
)
from moldau.wire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.wire.records.batch import ATTRIBUTES_POSITION, HEADER_SIZE, BatchHeader, read_header
from moldau.wire.records.compression import COMPRESSION_MASK
from moldau.wire.records.rewrite import BatchRewrite
from moldau.wire.records.validate import check_produced_batch, is_one_batch, is_zstd

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

RECORD_ERRORS_FROM = 8
LEADERS_FROM = 10
NOT_LEADER = (ERROR_CODES["NOT_LEADER_OR_FOLLOWER"],)
MANY_ENTRIES = 200
"""More than so many are decoded and appended with pauses."""
MANY_RECORDS = 1_000
"""More than so many are read with pauses: these take about 1.5 ms."""
LARGE_BATCH_BYTES = 1 << 10
"""Of a smaller batch the objects that stand for it take as much memory as the batch."""
MAX_PREPARED_BYTES = 16 << 20
"""Of batches that were compressed anew: beyond them they are appended before the next one is read."""
ZSTD_FROM = 7
MAX_RECORD_ERRORS_PER_RESPONSE = 5_000
"""Beyond them a partition gets its error without the records: a response has a bound."""
MESSAGE_TOO_LARGE = ERROR_CODES["MESSAGE_TOO_LARGE"]
OUT_OF_ORDER_SEQUENCE_NUMBER = ERROR_CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
CORRUPT_MESSAGE = ERROR_CODES["CORRUPT_MESSAGE"]
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]
INVALID_TIMESTAMP = ERROR_CODES["INVALID_TIMESTAMP"]
INVALID_RECORD = ERROR_CODES["INVALID_RECORD"]
REFUSED_BY_THE_LOG = (
    INVALID_TIMESTAMP,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    ERROR_CODES["INVALID_PRODUCER_EPOCH"],
    INVALID_RECORD,
    ERROR_CODES["INVALID_TXN_STATE"],
    ERROR_CODES["NOT_ENOUGH_REPLICAS"],
)
"""Their answers tell where the log starts."""

# topic, partition, error code, base offset, log append time, log start offset, error message or leader
Result = tuple[bytes, int, int, int, int, int, str | RecordErrors | CurrentLeader | None]
Prepared = dict[tuple[bytes, int], "KafkaError | Buffer"]
"""What preparing made of a batch: what to append, or the refusal."""
Unexplained = tuple[int, Partition, bytes]
"""Place of the result, partition, and a batch refused for its header's timestamps: no record is to blame yet."""


class Unacknowledged(msgspec.Struct, frozen=True):
    """What was appended, and is not as safe yet as `flush.messages` and acks ask. `place`: of its result."""

    place: int
    partition: Partition
    end_offset: Offset
    leader_epoch: LeaderEpoch
    is_flush_due: bool
    acks: int


def _has_much_to_read(broker: Broker, entries: Entries, version: int) -> bool:
    """On a topic with a codec, a compacted one, or with `moldau.record.validation` above `header`: whether batches are
    long to read. A few short ones the append walks."""
    total = 0
    for topic, index, records in entries:
        if records is not None:
            total += _records_to_read(broker, topic, index, records, version)
    return total > MANY_RECORDS


def _records_to_read(broker: Broker, topic: bytes, index: int, records: memoryview, version: int) -> int:
    """How many records must be looked at, one by one; more than MANY_RECORDS for a batch that is to be expanded."""
    partitions = broker.partitions
    hosted = (partitions.by_id if version >= TOPIC_IDS_FROM else partitions.by_name).get(topic)
    partition = None if hosted is None or hosted.topic_id not in partitions.rewritten else hosted.partitions.get(index)
    if partition is None or len(records) < HEADER_SIZE:
        return 0
    kind = records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    settings = partition.log.settings
    target = settings.target_compression
    if kind or (target is not None and target.kind != kind):
        return MANY_RECORDS + 1
    if not settings.is_compacted and not settings.is_record_validation_full:
        return 0
    return int.from_bytes(records[HEADER_SIZE - 4 : HEADER_SIZE], "big")


async def _rewrite_batches(
    broker: Broker, context: RequestContext, entries: Entries, start: int
) -> tuple[Prepared, int]:
    """What is to be appended for the batches from `entries[start]` on, and the place behind the last of them. It ends
    where much is held: a batch that is to be stored without its codec may grow a thousandfold."""
    prepared: Prepared = {}
    held_bytes = 0
    for end, (topic, index, records) in enumerate(islice(entries, start, None), start + 1):
        if records is None or not _records_to_read(broker, topic, index, records, context.api_version):
            continue
        await context.wait(broker.rewrites.acquire())
        try:
            batch = prepared[topic, index] = await _rewrite(broker, context, topic, index, records)
            held_bytes += len(batch)
        except KafkaError as error:
            prepared[topic, index] = _alone(error)
        finally:
            broker.rewrites.release()
        if held_bytes >= MAX_PREPARED_BYTES:
            return prepared, end
    return prepared, len(entries)


def _alone(error: KafkaError) -> KafkaError:
    """`error` without its trace, which would hold the expanded batch for as long as the error is kept."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


async def _rewrite(broker: Broker, context: RequestContext, topic: bytes, index: int, records: memoryview) -> Buffer:
    """The batch to append for the one that came. Raises KafkaError."""
    partition = writable_partition(broker, context, topic, index, context.api_version)
    if context.api_version < ZSTD_FROM and is_zstd(records):
        raise _zstd_refusal()
    settings, now_ms = partition.log.settings, broker.clock.now_ms()
    check_batch_size(records, settings.max_message_bytes)
    try:
        header = check_produced_batch(records, now_ms=now_ms, limits=settings.batch_limits)
    except KafkaError as error:
        is_timestamp = error.code == INVALID_TIMESTAMP
        raise (is_timestamp and await _explained(broker, context, partition, records, now_ms)) or error from None
    rewrite = await _read_through(broker, context, partition, records, header, now_ms)
    if rewrite.is_compression_changed:
        await context.wait(broker.workers.run(rewrite.pack))
    rewritten = rewrite.finish()
    # the append asks this too; what it refuses is not to be kept until then
    check_batch_size(rewritten, settings.max_message_bytes)
    return rewritten


async def _read_through(
    broker: Broker, context: RequestContext, partition: Partition, records: Buffer, header: BatchHeader, now_ms: int
) -> BatchRewrite:
    """Every record, off the loop or with pauses. Raises KafkaError."""
    settings = partition.log.settings
    rewrite = BatchRewrite(
        records,
        header,
        settings.batch_limits,
        is_key_required=settings.is_compacted,
        target=settings.target_compression,
        partition_name=str(partition.topic_partition),
    )
    await context.wait(broker.workers.run(rewrite.expand))
    await context.finish(rewrite.walk(now_ms))
    return rewrite


async def _explained(
    broker: Broker, context: RequestContext, partition: Partition, records: Buffer, now_ms: int
) -> KafkaError | None:
    """The refusal of a header for its timestamps, as that of the records that have them (KIP-467), if they do."""
    try:
        await _read_through(broker, context, partition, records, read_header(records), now_ms)
    except KafkaError as found:
        return found if found.record_errors else None
    return None


class _Refusals:
    """What the partitions of one request are refused for, with a bound on the records that the answer names."""

    def __init__(self, broker: Broker, context: RequestContext, now_ms: int) -> None:
        self.unexplained: list[Unexplained] = []
        self._broker = broker
        self._context = context
        self._now_ms = now_ms
        self._named_records = 0

    def result(self, place: int, topic: bytes, index: int, error: KafkaError, records: memoryview | None) -> Result:
        is_batch = records is not None and is_one_batch(records)
        if error.code not in REFUSED_BY_THE_LOG or (error.code == INVALID_RECORD and not is_batch):
            return _failed(topic, index, error)
        partition = writable_partition(self._broker, self._context, topic, index, self._context.api_version)
        if error.code == INVALID_TIMESTAMP and records is not None and not error.record_errors:
            self.unexplained.append((place, partition, bytes(records)))
        return self._refused(topic, index, error, partition)

    async def explain(self, results: list[Result]) -> None:
        """Puts the records that are to blame in the place of what only a header was refused for."""
        broker, context = self._broker, self._context
        for place, partition, batch in self.unexplained:
            await context.wait(broker.rewrites.acquire())
            try:
                found = await _explained(broker, context, partition, batch, self._now_ms)
            finally:
                broker.rewrites.release()
            if found is not None:
                topic, index = results[place][:2]
                results[place] = self._refused(topic, index, found, partition)

    def _refused(self, topic: bytes, index: int, error: KafkaError, partition: Partition) -> Result:
        """As `_failed`, for what the log refused: with where it begins, and the records that are to blame."""
        message: str | RecordErrors | None = error.message
        if error.record_errors and self._named_records + len(error.record_errors) <= MAX_RECORD_ERRORS_PER_RESPONSE:
            self._named_records += len(error.record_errors)
            message = RecordErrors(error.message or error.name, error.record_errors)
        return (topic, index, error.code, -1, -1, partition.log.log_start_offset, message)


def _zstd_refusal() -> KafkaError:
    return kafka_error("UNSUPPORTED_COMPRESSION_TYPE", "zstd needs Produce version 7")


def act_produce(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> Answer | PendingResponse | None:
    """Versions 3-13. v3 record batches v2 (KIP-98), v5 log start offset, v7 zstd (KIP-110), v8 record errors (KIP-467),
    v9 flexible, v10 leader hints (KIP-951), v11 and v12 transactions (KIP-890), v13 topic ids (KIP-516).

    Named are records without a key on a compacted topic, and with timestamps that the topic does not take.
    Ignored on purpose: nothing. Better than Kafka: without a transactional id only the
    transactional batches of a request are refused (53), and a transaction takes no batch of another id (48).

    acks=1 is answered after the append, and after the flush where `flush.messages` asks for one now; acks=all also not
    before the high watermark has passed. With acks=0 any error closes the connection, as nothing else informs the
    client.
    """
    version = context.api_version
    try:
        transactional_id, acks, timeout_ms, entries = decode_produce_request(frame, position, version, MANY_ENTRIES)
    except ManyEntriesError:
        return context.serve_long(frame, position)
    results: list[Result] = []
    waiting: list[Unacknowledged] = []
    if transactional_id is not None or not -1 <= acks <= 1:
        refusal = _refusal_of_all(context, acks, transactional_id)
        if refusal is not None:
            results = [_failed(topic, index, refusal) for topic, index, _ in entries]
            return encode_produce_response(version, context.correlation_id, results)
    if broker.partitions.rewritten and _has_much_to_read(broker, entries, version):
        return context.serve_long(frame, position)
    refused = whole(_repeated(entries)) if len(entries) > 1 else {}
    origin = AppendOrigin.CLIENT
    if transactional_id is not None:
        origin = AppendOrigin.TRANSACTIONAL_CLIENT
        unverified = find_unverified(broker, context, transactional_id, entries)
        verifying = begun(verify(broker, context, transactional_id, unverified))
        if isinstance(verifying, Waiting):
            request = _kept(entries), acks, timeout_ms, len(frame)
            return context.answer_later(partial(_produce_when_verified, broker, context, verifying, *request))
        refused = verifying.result | refused
    now_ms = broker.clock.now_ms()
    refusals = _append(broker, context, entries, acks, refused, None, now_ms, results, waiting, None, origin)
    throttle_ms = context.throttle(len(frame))
    if acks == 0:
        _close_on_error(results)
        return None
    if refusals is not None and refusals.unexplained:
        work = partial(_explain, broker, context, refusals, results, waiting, timeout_ms, throttle_ms)
        return context.answer_later(work)
    if waiting:
        work = partial(_answer_when_acknowledged, broker, context, results, waiting, timeout_ms, throttle_ms)
        return context.answer_later(work, may_produce_begin=True)
    nodes = () if refusals is None else _name_leaders(broker, context, results)
    return encode_produce_response(version, context.correlation_id, results, throttle_ms, nodes)


async def act_produce_many(broker: Broker, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """As `act_produce`, for a request of many partitions, or with batches that are long to read."""
    version, acks = context.api_version, request.acks
    entries: Entries = []
    large_bytes = 0
    for topic in request.topic_data:
        name = bytes(topic.topic_id) if version >= TOPIC_IDS_FROM else topic.name.encode()
        for row in topic.partition_data:
            records = cast("memoryview | None", row.records)
            large_bytes += len(records) if records is not None and len(records) >= LARGE_BATCH_BYTES else 0
            entries.append((name, row.index, records))
            await context.pause()
    context.holds_values(large_bytes)
    results: list[Result] = []
    refusal = _refusal_of_all(context, acks, request.transactional_id)
    if refusal is not None:
        for name, index, _ in entries:
            results.append(_failed(name, index, refusal))
            await context.pause()
        return await _response(broker, context, results)
    refused = await context.finish(_repeated(entries))
    origin = AppendOrigin.CLIENT if request.transactional_id is None else AppendOrigin.TRANSACTIONAL_CLIENT
    waiting: list[Unacknowledged] = []
    refusals: _Refusals | None = None
    start = 0
    while start < len(entries):
        prepared, end = None, len(entries)
        if broker.partitions.rewritten:
            prepared, end = await _rewrite_batches(broker, context, entries, start)
        some = entries[start:end]
        if request.transactional_id is not None:
            refused = await _verify_many(broker, context, request.transactional_id, some) | refused
        now_ms = broker.clock.now_ms()
        context.run_to_end()
        for entry in some:
            refusals = _append(
                broker, context, [entry], acks, refused, prepared, now_ms, results, waiting, refusals, origin
            )
            await context.pause()
        start = end
    throttle_ms = context.throttle(context.request_bytes)
    if acks == 0:
        _close_on_error(results)
        return None
    if refusals is not None:
        await refusals.explain(results)
    context.reply.let_produce_begin()
    await _wait_until_acknowledged(broker, context, results, waiting, request.timeout_ms)
    return await _response(broker, context, results, throttle_ms)


def _name_leaders(broker: Broker, context: RequestContext, results: list[Result]) -> Sequence[LeaderNode]:
    return name_leaders(broker, context, results, NOT_LEADER) if context.api_version >= LEADERS_FROM else ()


async def _response(
    broker: Broker, context: RequestContext, results: list[Result], throttle_ms: int = 0
) -> ProduceResponse:
    """For more results than `encode_produce_response` is quick with."""
    nodes = tuple(NodeEndpoint(*astuple(node)) for node in _name_leaders(broker, context, results))

    def topic_of(topic: bytes, rows: tuple[PartitionProduceResponse, ...]) -> TopicProduceResponse:
        if context.api_version >= TOPIC_IDS_FROM:
            return TopicProduceResponse(topic_id=Uuid(topic), partition_responses=rows)
        return TopicProduceResponse(name=topic.decode(), partition_responses=rows)

    return ProduceResponse(await context.finish(rows_by_topic(results, _row, topic_of)), throttle_ms, nodes)


def _row(
    index: int,
    code: int,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int,
    message: str | RecordErrors | CurrentLeader | None,
) -> PartitionProduceResponse:
    errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    leader = LeaderIdAndEpoch()
    if isinstance(message, RecordErrors):
        errors = tuple(starmap(BatchIndexAndErrorMessage, message.errors))
        message = message.message  # the text, without the records
    elif isinstance(message, CurrentLeader):
        leader, message = LeaderIdAndEpoch(message.leader_id, message.leader_epoch), None
    return PartitionProduceResponse(index, code, base_offset, append_time_ms, log_start_offset, errors, message, leader)


def _append(
    broker: Broker,
    context: RequestContext,
    entries: Entries,
    acks: int,
    refused: Refused,
    prepared: Prepared | None,
    now_ms: int,
    results: list[Result],
    waiting: list[Unacknowledged],
    refusals: _Refusals | None,
    origin: AppendOrigin,
) -> _Refusals | None:
    """Appends each of `entries`; adds its result to `results`, and to `waiting` what the answer waits for."""
    version = context.api_version
    touched, waiters = broker.touched, broker.waits.by_number
    for topic, index, records in entries:
        if refused and (topic, index) in refused:
            refusal = refused[topic, index]
            _count_failed(broker, refusal, records)
            results.append(_failed(topic, index, refusal))
            continue
        try:
            partition = writable_partition(broker, context, topic, index, version)
            if records is None:
                raise kafka_error("INVALID_RECORD", "no record batch")
            if prepared and (topic, index) in prepared:
                appended = _append_prepared(partition, prepared[topic, index], now_ms, origin, acks)
            else:
                if version < ZSTD_FROM and is_zstd(records):
                    raise _zstd_refusal()
                appended = partition.append(records, now_ms, origin, acks)
        except KafkaError as error:
            _count_failed(broker, error, records)
            refusals = refusals or _Refusals(broker, context, now_ms)
            results.append(refusals.result(len(results), topic, index, error, records))
        except StorageFailedError:
            results.append(_storage_failed(broker, topic, index))
        else:
            results.append(
                (topic, index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset, None)
            )
            end_offset = appended.last_offset + 1
            is_committed = partition.position.high_watermark >= end_offset
            is_flush_due = end_offset - partition.log.recovery_point >= partition.flush_messages
            if is_flush_due or (acks == ACKS_ALL and not is_committed):
                place, epoch = len(results) - 1, partition.leader_epoch
                waiting.append(Unacknowledged(place, partition, Offset(end_offset), epoch, is_flush_due, acks))
            if is_flush_due:
                broker.flusher.request(partition)
            if is_committed or partition.has_followers:
                # as broker.partition_appended, without the coordinators: their partitions are not written from here
                touched[partition.number] = partition
                if partition.number in waiters:
                    broker.waits.changed(partition)
    return refusals


def _append_prepared(
    partition: Partition, batch: KafkaError | Buffer, now_ms: int, origin: AppendOrigin, acks: int
) -> Appended:
    if isinstance(batch, KafkaError):
        raise batch
    return partition.append(batch, now_ms, origin, acks, are_records_checked=True)


def _refusal_of_all(context: RequestContext, acks: int, transactional_id: str | None) -> KafkaError | None:
    """What every partition of the request is answered with, if the request itself is wrong."""
    if acks < -1 or acks > 1:
        return kafka_error("INVALID_REQUIRED_ACKS")
    if transactional_id is not None and not context.authorize(WRITE_TRANSACTIONAL_ID, transactional_id):
        return kafka_error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    return None


def _repeated(entries: Entries) -> Pausing[Refused]:
    """Partitions that stand more than once: Kafka appends the last and loses the others in silence, we append none."""
    seen: dict[bytes, dict[int, None]] = {}
    repeated: Refused = {}
    for topic, index, _ in entries:
        indexes = seen.setdefault(topic, {})
        if index in indexes:
            repeated[topic, index] = kafka_error("INVALID_REQUEST", "the request names the partition twice")
        indexes[index] = None
        yield
    return repeated


def _failed(topic: bytes, index: int, error: KafkaError) -> Result:
    return (topic, index, error.code, -1, -1, -1, error.message)


def _storage_failed(broker: Broker, topic: bytes, index: int) -> Result:
    broker.directory_failed()
    broker.telemetry.count(FAILED_PRODUCE_REQUESTS)
    return _failed(topic, index, kafka_error("KAFKA_STORAGE_ERROR"))


def _count_failed(broker: Broker, error: KafkaError, records: memoryview | None) -> None:
    telemetry, code = broker.telemetry, error.code
    telemetry.count(FAILED_PRODUCE_REQUESTS)
    telemetry.count(PRODUCE_ERRORS, str(code))
    if code == MESSAGE_TOO_LARGE and records is not None:
        telemetry.count(BYTES_REJECTED, amount=len(records))
    elif code == CORRUPT_MESSAGE:
        telemetry.count(INVALID_MESSAGE_CRC_RECORDS)
    elif code == OUT_OF_ORDER_SEQUENCE_NUMBER:
        telemetry.count(INVALID_SEQUENCE_RECORDS)
    elif code == KAFKA_STORAGE_ERROR and error.message:
        broker.log.error("disk full", f"node {broker.node_id}: records are refused: {error.message}")


def _close_on_error(results: list[Result]) -> None:
    for topic, index, code, *_ in results:
        if code:
            raise ProtocolError(f"produce with acks=0 to {topic!r}-{index} failed with error {code}")


def _kept(entries: Entries) -> Entries:
    """Entries that live longer than the frame, to be patched in place."""
    return [(topic, index, None if each is None else memoryview(bytearray(each))) for topic, index, each in entries]


async def _verify_many(broker: Broker, context: RequestContext, transactional_id: str, entries: Entries) -> Refused:
    refused: Refused = {}
    for start in range(0, len(entries), MANY_ENTRIES):
        some = entries[start : start + MANY_ENTRIES]
        unverified = find_unverified(broker, context, transactional_id, some)
        refused.update(await verify(broker, context, transactional_id, unverified))
        await context.pause(len(some))
    return refused


async def _produce_when_verified(
    broker: Broker,
    context: RequestContext,
    verifying: Waiting[Refused],
    entries: Entries,
    acks: int,
    timeout_ms: int,
    frame_bytes: int,
) -> Answer | None:
    """As the end of `act_produce`. No later Produce of the connection begins before the append."""
    refused = await context.wait(verifying) | whole(_repeated(entries))
    results: list[Result] = []
    waiting: list[Unacknowledged] = []
    now_ms, origin = broker.clock.now_ms(), AppendOrigin.TRANSACTIONAL_CLIENT
    refusals = _append(broker, context, entries, acks, refused, None, now_ms, results, waiting, None, origin)
    throttle_ms = context.throttle(frame_bytes)
    if acks == 0:
        _close_on_error(results)
        return None
    return await _explain(broker, context, refusals, results, waiting, timeout_ms, throttle_ms)


async def _explain(
    broker: Broker,
    context: RequestContext,
    refusals: _Refusals | None,
    results: list[Result],
    waiting: list[Unacknowledged],
    timeout_ms: int,
    throttle_ms: int,
) -> Answer:
    if refusals is not None:
        await refusals.explain(results)
    context.reply.let_produce_begin()
    return await _answer_when_acknowledged(broker, context, results, waiting, timeout_ms, throttle_ms)


async def _answer_when_acknowledged(
    broker: Broker,
    context: RequestContext,
    results: list[Result],
    waiting: list[Unacknowledged],
    timeout_ms: int,
    throttle_ms: int,
) -> Answer:
    await _wait_until_acknowledged(broker, context, results, waiting, timeout_ms)
    nodes = _name_leaders(broker, context, results)
    return encode_produce_response(context.api_version, context.correlation_id, results, throttle_ms, nodes)


async def _wait_until_acknowledged(
    broker: Broker, context: RequestContext, results: list[Result], waiting: list[Unacknowledged], timeout_ms: int
) -> None:
    """Puts the error into the result of a batch that is not as safe in time as it was asked to be. The offsets stay, as
    in Kafka: the batch is in the log."""
    deadline_s = broker.loop.time() + max(0, timeout_ms) / 1000
    for each in waiting:
        try:
            if each.is_flush_due:
                await context.wait(broker.flusher.wait(each.partition, each.end_offset), deadline_s)
            if each.acks == ACKS_ALL:
                reached = broker.waits.wait_acknowledged(each.partition, each.end_offset, each.leader_epoch)
                await context.wait(reached, deadline_s)
        except KafkaError as error:
            found = results[each.place]
            results[each.place] = (*found[:2], error.code, *found[3:6], error.message)
        await context.pause()
