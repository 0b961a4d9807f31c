"""Produce: append record batches to partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.log.appending import Appended, check_batch_size
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, StorageFailedError, kafka_error
from moldau.shell.broker.traffic import (
    BYTES_REJECTED,
    FAILED_PRODUCE_REQUESTS,
    INVALID_MESSAGE_CRC_RECORDS,
    INVALID_SEQUENCE_RECORDS,
    PRODUCE_ERRORS,
)
from moldau.shell.network.context import Operation, RequestContext, Resource
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.types import Buffer, Offset
from moldau.wire.protocol.fast_produce import decode_produce_request, encode_produce_response
from moldau.wire.records.batch import ATTRIBUTES_POSITION, HEADER_SIZE
from moldau.wire.records.compression import COMPRESSION_MASK
from moldau.wire.records.rewrite import BatchRewrite
from moldau.wire.records.validate import SLICE_RECORDS, check_produced_batch, is_zstd

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

TOPIC_IDS_FROM = 13
ZSTD_FROM = 7
MESSAGE_TOO_LARGE = ERROR_CODES["MESSAGE_TOO_LARGE"]
CORRUPT_MESSAGE = ERROR_CODES["CORRUPT_MESSAGE"]
OUT_OF_ORDER_SEQUENCE_NUMBER = ERROR_CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]

# topic, partition, error code, base offset, log append time, log start offset, error message
Result = tuple[bytes, int, int, int, int, int, str | None]
Entries = list[tuple[bytes, int, memoryview | None]]
Act = Callable[[], Answer | PendingResponse | None]
Prepared = dict[tuple[bytes, int], "KafkaError | Buffer"]
"""What preparing made of a batch: what to append, or the refusal."""


def _prepare(
    broker: Broker, context: RequestContext, frame: memoryview, position: int, entries: Entries
) -> Coroutine[object, object, Act] | None:
    """On a topic with a codec, a compacted one, or with `moldau.record.validation=full`: batches that are long
    to read are read off the loop, on a copy of the frame. None if there are none; short ones the append walks."""
    for topic, index, records in entries:
        if records is not None and _is_rewritten(broker, topic, index, records, context.api_version):
            return _rewrite_batches(broker, context, bytearray(frame), position)
    return None


def _is_rewritten(broker: Broker, topic: bytes, index: int, records: memoryview, version: int) -> bool:
    partitions = broker.partitions
    hosted = (partitions.by_id if version >= TOPIC_IDS_FROM else partitions.by_name).get(topic)
    partition = None if hosted is None or hosted.topic_id not in partitions.rewritten else hosted.partitions.get(index)
    if partition is None or len(records) < HEADER_SIZE:
        return False
    kind = records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    target = partition.log.settings.target_compression
    if kind or (target is not None and target.kind != kind):
        return True
    return int.from_bytes(records[HEADER_SIZE - 4 : HEADER_SIZE], "big") > SLICE_RECORDS


async def _rewrite_batches(broker: Broker, context: RequestContext, frame: bytearray, position: int) -> Act:
    view, version = memoryview(frame), context.api_version
    prepared: Prepared = {}
    for topic, index, records in decode_produce_request(view, position, version)[3]:
        if records is None or not _is_rewritten(broker, topic, index, records, version):
            continue
        try:
            async with broker.rewrites:
                prepared[topic, index] = await _rewrite(broker, context, topic, index, records)
        except KafkaError as error:
            prepared[topic, index] = error
    return partial(act_produce, broker, context, view, position, prepared)


async def _rewrite(broker: Broker, context: RequestContext, topic: bytes, index: int, records: memoryview) -> Buffer:
    """The batch to append for the one that came. Raises KafkaError."""
    partition = _writable_partition(broker, context, topic, index, context.api_version)
    if context.api_version < ZSTD_FROM and is_zstd(records):
        raise _zstd_refusal()
    settings, now_ms = partition.log.settings, broker.clock.now_ms()
    check_batch_size(records, settings.max_message_bytes)
    limits = settings.batch_limits
    header = check_produced_batch(records, now_ms=now_ms, limits=limits)
    rewrite = BatchRewrite(
        records, header, limits, is_key_required=settings.is_compacted, target=settings.target_compression
    )
    await broker.workers.run(rewrite.expand)
    for _ in rewrite.walk(now_ms):
        await asyncio.sleep(0)
    if rewrite.is_compression_changed:
        await broker.workers.run(rewrite.pack)
    return rewrite.finish()


def _zstd_refusal() -> KafkaError:
    return kafka_error("UNSUPPORTED_COMPRESSION_TYPE", "zstd needs Produce version 7")


def act_produce(
    broker: Broker, context: RequestContext, frame: memoryview, position: int, prepared: Prepared | None = None
) -> Answer | PendingResponse | None:
    """Versions 3-13. v3 record batches v2 (KIP-98), v5 log start offset, v7 zstd (KIP-110), v8 record errors (KIP-467),
    v9 flexible, v10 leader hints (KIP-951), v11 and v12 transactions (KIP-890), v13 topic ids (KIP-516).

    Ignored on purpose: record errors and leader hints are never filled (an error concerns the whole batch, and one
    node has no other leader). Transactions are not served: a transactional batch gets 48.

    acks 1 and all are answered after the append, and after the flush where `flush.messages` asks for one now (Kafka
    flushes inside the append, whatever the acks). With acks=0 any error closes the connection, as nothing else can tell
    the client.
    """
    version = context.api_version
    transactional_id, acks, timeout_ms, entries = decode_produce_request(frame, position, version)
    results: list[Result] = []
    waiting: list[tuple[int, Partition, Offset]] = []
    refusal = _refusal_of_all(context, acks, transactional_id)
    if refusal is not None:
        results = [_failed(topic, index, refusal) for topic, index, _ in entries]
        return encode_produce_response(version, context.correlation_id, results)
    if broker.partitions.rewritten and prepared is None:
        waiting_act = _prepare(broker, context, frame, position, entries)
        if waiting_act is not None:
            return broker.prepare(context, waiting_act)
    repeated = _repeated(entries) if len(entries) > 1 else ()
    now_ms = broker.clock.now_ms()
    touched, waiters = broker.touched, broker.waits.by_number
    for topic, index, records in entries:
        try:
            if repeated and (topic, index) in repeated:
                raise kafka_error("INVALID_REQUEST", "the partition stands twice in the request")
            partition = _writable_partition(broker, context, topic, index, version)
            if records is None:
                raise kafka_error("INVALID_RECORD", "no record batch")
            if prepared and (topic, index) in prepared:
                appended = _append_prepared(partition, prepared[topic, index], now_ms)
            else:
                if version < ZSTD_FROM and is_zstd(records):
                    raise _zstd_refusal()
                appended = partition.append(records, now_ms)
        except KafkaError as error:
            _count_failed(broker, error.code, records)
            results.append(_failed(topic, index, error))
        except StorageFailedError:
            broker.directory_failed()
            broker.telemetry.count(FAILED_PRODUCE_REQUESTS)
            results.append(_failed(topic, index, kafka_error("KAFKA_STORAGE_ERROR")))
        else:
            results.append(
                (topic, index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset, None)
            )
            end_offset = appended.last_offset + 1
            if end_offset - partition.log.recovery_point >= partition.flush_messages:
                broker.flusher.request(partition)
                waiting.append((len(results) - 1, partition, Offset(end_offset)))
            if not partition.waits_for_flush:
                # as broker.partition_appended, without the coordinators: their partitions are not written from here
                number = partition.number
                touched[number] = partition
                if number in waiters:
                    broker.waits.changed(partition)
    throttle_ms = context.throttle(len(frame))
    if acks == 0:
        _close_on_error(results)
        return None
    if waiting:
        return _answer_when_flushed(broker, context, results, waiting, timeout_ms, throttle_ms)
    return encode_produce_response(version, context.correlation_id, results, throttle_ms)


def _append_prepared(partition: Partition, batch: KafkaError | Buffer, now_ms: int) -> Appended:
    if isinstance(batch, KafkaError):
        raise batch
    return partition.append(batch, now_ms, are_records_checked=True)


def _refusal_of_all(context: RequestContext, acks: int, transactional_id: str | None) -> KafkaError | None:
    """What every partition of the request is answered with, if the request itself is wrong."""
    if acks < -1 or acks > 1:
        return kafka_error("INVALID_REQUIRED_ACKS")
    if transactional_id is not None and not context.authorize(
        Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id
    ):
        return kafka_error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    return None


def _writable_partition(broker: Broker, context: RequestContext, topic: bytes, index: int, version: int) -> Partition:
    """Raises what a target that may not be written gets: 100, 3, 29, 17."""
    if version >= TOPIC_IDS_FROM:
        hosted = broker.partitions.by_id.get(topic)
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_ID")
        if not context.authorize(Operation.WRITE, Resource.TOPIC, hosted.name):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    else:
        if not context.authorize(Operation.WRITE, Resource.TOPIC, topic):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
        hosted = broker.partitions.by_name.get(topic)
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
    if hosted.is_internal:
        raise kafka_error("INVALID_TOPIC_EXCEPTION", "an internal topic is written by the broker only")
    return hosted.partitions.get(index) or hosted.find(index)


def _repeated(entries: Entries) -> dict[tuple[bytes, int], None]:
    """Partitions that stand more than once: Kafka appends the last and loses the others in silence, we append none."""
    seen: dict[tuple[bytes, int], None] = {}
    repeated: dict[tuple[bytes, int], None] = {}
    for topic, index, _ in entries:
        key = (topic, index)
        if key in seen:
            repeated[key] = None
        seen[key] = None
    return repeated


def _failed(topic: bytes, index: int, error: KafkaError) -> Result:
    return (topic, index, error.code, -1, -1, -1, error.message)


def _count_failed(broker: Broker, code: int, records: memoryview | None) -> None:
    telemetry = broker.telemetry
    telemetry.count(FAILED_PRODUCE_REQUESTS)
    telemetry.count(PRODUCE_ERRORS, str(code))
    if code == MESSAGE_TOO_LARGE and records is not None:
        telemetry.count(BYTES_REJECTED, amount=len(records))
    elif code == CORRUPT_MESSAGE:
        telemetry.count(INVALID_MESSAGE_CRC_RECORDS)
    elif code == OUT_OF_ORDER_SEQUENCE_NUMBER:
        telemetry.count(INVALID_SEQUENCE_RECORDS)


def _close_on_error(results: list[Result]) -> None:
    for topic, index, code, *_ in results:
        if code:
            raise ProtocolError(f"produce with acks=0 to {topic!r}-{index} failed with error {code}")


def _answer_when_flushed(
    broker: Broker,
    context: RequestContext,
    results: list[Result],
    waiting: list[tuple[int, Partition, Offset]],
    timeout_ms: int,
    throttle_ms: int,
) -> PendingResponse:
    response = context.connection.reserve()

    async def finish() -> None:
        deadline = broker.loop.time() + max(0, timeout_ms) / 1000
        for place, partition, end_offset in waiting:
            error: KafkaError | None = None
            try:
                async with asyncio.timeout_at(deadline):
                    await broker.flusher.wait(partition, end_offset)
            except TimeoutError:
                error = kafka_error("REQUEST_TIMED_OUT")
            except KafkaError as failure:
                error = failure
            if error is not None:
                topic, index = results[place][:2]
                results[place] = _failed(topic, index, error)
        response.complete(encode_produce_response(context.api_version, context.correlation_id, results, throttle_ms))

    broker.spawn(finish())
    return response
