"""Produce: appends record batches to partitions.

`core/replication/produce_plan.py` decides; this module carries out the plan, waits, and answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, cast

from msgspec.structs import astuple

from moldau.core.log.appending import CLIENT, TRANSACTIONAL_CLIENT
from moldau.core.replication.leader import ACKS_ALL
from moldau.core.replication.produce_plan import (
    COUNT_ERROR,
    DIRECTORY_FAILED,
    FLUSH,
    WAKE,
    Prepared,
    ProducePlan,
    Rejected,
    check_acks,
    find_repeated,
)
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.broker.handlers.leader_hints import name_leaders
from moldau.shell.broker.handlers.produce_targets import TOPIC_IDS_FROM, Entries, writable_partition
from moldau.shell.broker.handlers.rewritten_batches import explain, has_much_to_read, rewrite_batches
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
from moldau.types import Uuid, whole
from moldau.wire.protocol.elsewhere import CurrentLeader, LeaderNode
from moldau.wire.protocol.fast_produce import (
    ManyEntriesError,
    ProduceResult,
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

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

LEADERS_FROM = 10
NOT_LEADER = (ERROR_CODES["NOT_LEADER_OR_FOLLOWER"],)
MANY_ENTRIES = 200
"""More entries than this are decoded and appended with pauses."""
LARGE_BATCH_BYTES = 1 << 10
"""In a smaller batch the objects take as much memory as the records."""
MESSAGE_TOO_LARGE = ERROR_CODES["MESSAGE_TOO_LARGE"]
OUT_OF_ORDER_SEQUENCE_NUMBER = ERROR_CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
CORRUPT_MESSAGE = ERROR_CODES["CORRUPT_MESSAGE"]
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]


def act_produce(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> Answer | PendingResponse | None:
    """Versions 3-13. v3 record batches v2 (KIP-98), v5 log start offset, v7 zstd (KIP-110), v8 record errors (KIP-467),
    v9 flexible, v10 leader hints (KIP-951), v11 and v12 transactions (KIP-890), v13 topic ids (KIP-516).

    Record errors name records without a key on a compacted topic, and records with timestamps that the topic does not
    take. Ignored on purpose: nothing. Better than Kafka: without a transactional id only the transactional batches of a
    request are rejected (53), and a transaction takes no batch of another transactional id (48).

    acks=1 is answered after the append, and after the flush if `flush.messages` asks for one now. acks=all also waits
    for the high watermark. With acks=0 any error closes the connection, as nothing else informs the client.
    """
    version = context.api_version
    try:
        transactional_id, acks, timeout_ms, entries = decode_produce_request(frame, position, version, MANY_ENTRIES)
    except ManyEntriesError:
        return context.serve_long(frame, position)
    origin = CLIENT if transactional_id is None else TRANSACTIONAL_CLIENT
    plan = ProducePlan(version, acks, origin)
    if transactional_id is not None or not -1 <= acks <= 1:
        error = _error_of_all(context, acks, transactional_id)
        if error is not None:
            whole(plan.reject_all(entries, error))
            return encode_produce_response(version, context.correlation_id, plan.results)
    if broker.partitions.rewritten and has_much_to_read(broker, entries, version):
        return context.serve_long(frame, position)
    rejected = whole(find_repeated(entries)) if len(entries) > 1 else {}
    if transactional_id is not None:
        unverified = find_unverified(broker, context, transactional_id, entries)
        verifying = begun(verify(broker, context, transactional_id, unverified))
        if isinstance(verifying, Waiting):
            request = _kept(entries), timeout_ms, len(frame)
            return context.answer_later(partial(_produce_when_verified, broker, context, plan, verifying, *request))
        rejected = verifying.result | rejected
    _append(broker, context, plan, entries, broker.own_node.clock.now_ms(), rejected, {})
    throttle_ms = context.throttle(len(frame))
    if acks == 0:
        plan.check_unanswered()
        return None
    if plan.unexplained or plan.waiting:
        is_appended = not plan.unexplained
        work = partial(_answer_when_done, broker, context, plan, timeout_ms, throttle_ms, is_appended)
        return context.answer_later(work, may_produce_begin=is_appended)
    nodes = _name_leaders(broker, context, plan.results) if plan.has_errors else ()
    return encode_produce_response(version, context.correlation_id, plan.results, throttle_ms, nodes)


async def act_produce_many(broker: Broker, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """As `act_produce`, for a request with many partitions, or with batches that take long to read."""
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
    origin = CLIENT if request.transactional_id is None else TRANSACTIONAL_CLIENT
    plan = ProducePlan(version, acks, origin)
    error = _error_of_all(context, acks, request.transactional_id)
    if error is not None:
        await context.finish(plan.reject_all(entries, error))
        return await _response(broker, context, plan.results)
    rejected = await context.finish(find_repeated(entries))
    start = 0
    while start < len(entries):
        prepared: Prepared = {}
        end = len(entries)
        if broker.partitions.rewritten:
            prepared, end = await rewrite_batches(broker, context, entries, start)
        some = entries[start:end]
        if request.transactional_id is not None:
            rejected = await _verify_many(broker, context, request.transactional_id, some) | rejected
        now_ms = broker.own_node.clock.now_ms()
        context.run_to_end()
        for entry in some:
            _append(broker, context, plan, [entry], now_ms, rejected, prepared)
            await context.pause()
        start = end
    throttle_ms = context.throttle(context.request_bytes)
    if acks == 0:
        plan.check_unanswered()
        return None
    await _finish(broker, context, plan, request.timeout_ms)
    return await _response(broker, context, plan.results, throttle_ms)


def _name_leaders(broker: Broker, context: RequestContext, results: list[ProduceResult]) -> Sequence[LeaderNode]:
    return name_leaders(broker, context, results, NOT_LEADER) if context.api_version >= LEADERS_FROM else ()


async def _response(
    broker: Broker, context: RequestContext, results: list[ProduceResult], throttle_ms: int = 0
) -> ProduceResponse:
    """The response with many results, made with pauses: `encode_produce_response` would take long for them."""
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
    plan: ProducePlan,
    entries: Entries,
    now_ms: int,
    rejected: Rejected,
    prepared: Prepared,
) -> None:
    """Appends each of `entries`, and does the follow-up work that the plan asks for."""
    for topic, index, records in entries:
        if rejected and (topic, index) in rejected:
            todo = plan.reject(topic, index, rejected[topic, index])
        else:
            try:
                partition = writable_partition(broker, context, topic, index)
            except KafkaError as error:
                todo = plan.reject_target(topic, index, error)
            else:
                batch = prepared.get((topic, index)) if prepared else None
                todo = plan.append(topic, index, records, partition, now_ms, batch)
        if todo & FLUSH:
            broker.partitions.flusher.request(partition)
        if todo & WAKE:
            # as broker.partition_appended, without the coordinators: Produce does not write their partitions
            broker.partitions.touched[partition.number] = partition
            if partition.number in broker.waits.by_number:
                broker.waits.changed(partition)
        elif todo & COUNT_ERROR:
            _count_failed(broker, plan.results[-1], records)
        elif todo & DIRECTORY_FAILED:
            broker.directory_failed()
            broker.own_node.telemetry.count(FAILED_PRODUCE_REQUESTS)


def _error_of_all(context: RequestContext, acks: int, transactional_id: str | None) -> KafkaError | None:
    """The error of every partition, if the request itself is invalid."""
    try:
        check_acks(acks)
    except KafkaError as error:
        return error
    if transactional_id is not None and not context.authorize(WRITE_TRANSACTIONAL_ID, transactional_id):
        return kafka_error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    return None


def _count_failed(broker: Broker, result: ProduceResult, records: memoryview | None) -> None:
    telemetry, code, message = broker.own_node.telemetry, result[2], result[6]
    telemetry.count(FAILED_PRODUCE_REQUESTS)
    telemetry.count(PRODUCE_ERRORS, str(code))
    if code == MESSAGE_TOO_LARGE and records is not None:
        telemetry.count(BYTES_REJECTED, amount=len(records))
    elif code == CORRUPT_MESSAGE:
        telemetry.count(INVALID_MESSAGE_CRC_RECORDS)
    elif code == OUT_OF_ORDER_SEQUENCE_NUMBER:
        telemetry.count(INVALID_SEQUENCE_RECORDS)
    elif code == KAFKA_STORAGE_ERROR and message:
        broker.own_node.log.error("disk full", f"node {broker.node_id}: records are refused: {message}")


def _kept(entries: Entries) -> Entries:
    """Copies entries that must outlive the frame, and are patched in place."""
    return [(topic, index, None if each is None else memoryview(bytearray(each))) for topic, index, each in entries]


async def _verify_many(broker: Broker, context: RequestContext, transactional_id: str, entries: Entries) -> Rejected:
    rejected: Rejected = {}
    for start in range(0, len(entries), MANY_ENTRIES):
        some = entries[start : start + MANY_ENTRIES]
        unverified = find_unverified(broker, context, transactional_id, some)
        rejected.update(await verify(broker, context, transactional_id, unverified))
        await context.pause(len(some))
    return rejected


async def _produce_when_verified(
    broker: Broker,
    context: RequestContext,
    plan: ProducePlan,
    verifying: Waiting[Rejected],
    entries: Entries,
    timeout_ms: int,
    frame_bytes: int,
) -> Answer | None:
    """Completes `act_produce` after the coordinator's answer. No later Produce of the connection starts before the
    append."""
    rejected = await context.wait(verifying) | whole(find_repeated(entries))
    _append(broker, context, plan, entries, broker.own_node.clock.now_ms(), rejected, {})
    throttle_ms = context.throttle(frame_bytes)
    if plan.acks == 0:
        plan.check_unanswered()
        return None
    return await _answer_when_done(broker, context, plan, timeout_ms, throttle_ms)


async def _answer_when_done(
    broker: Broker,
    context: RequestContext,
    plan: ProducePlan,
    timeout_ms: int,
    throttle_ms: int,
    may_produce_begin: bool = False,
) -> Answer:
    await _finish(broker, context, plan, timeout_ms, may_produce_begin)
    nodes = _name_leaders(broker, context, plan.results)
    return encode_produce_response(context.api_version, context.correlation_id, plan.results, throttle_ms, nodes)


async def _finish(
    broker: Broker, context: RequestContext, plan: ProducePlan, timeout_ms: int, may_produce_begin: bool = False
) -> None:
    """Waits for everything that the answer needs after the append. `may_produce_begin`: later Produce requests of the
    connection may start already."""
    if not may_produce_begin:
        await explain(broker, context, plan)
        context.reply.let_produce_begin()
    deadline_s = broker.own_node.loop.time() + max(0, timeout_ms) / 1000
    for each in plan.waiting:
        try:
            if each.is_flush_due:
                await context.wait(broker.partitions.flusher.wait(each.partition, each.end_offset), deadline_s)
            if plan.acks == ACKS_ALL:
                reached = broker.waits.wait_acknowledged(each.partition, each.end_offset, each.leader_epoch)
                await context.wait(reached, deadline_s)
        except KafkaError as error:
            plan.not_acknowledged(each, error)
        await context.pause()
