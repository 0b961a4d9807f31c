"""Reads produced batches record by record before the append, and recompresses them if the topic asks for it.

This concerns topics that are compacted, have a codec, or set `moldau.record.validation` above `header`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from moldau.core.log.appending import check_batch_size
from moldau.core.replication.partition import Partition
from moldau.core.replication.produce_plan import (
    INVALID_TIMESTAMP,
    MANY_RECORDS,
    ZSTD_FROM,
    Prepared,
    ProducePlan,
    check_codec,
    count_records_to_read,
)
from moldau.errors import KafkaError
from moldau.shell.broker.handlers.produce_targets import TOPIC_IDS_FROM, Entries, writable_partition
from moldau.shell.network.context import RequestContext
from moldau.types import Buffer
from moldau.wire.records.batch import BatchHeader, read_header
from moldau.wire.records.rewrite import BatchRewrite
from moldau.wire.records.validate import check_produced_batch

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

MAX_PREPARED_BYTES = 16 << 20
"""Once recompressed batches hold this much, they are appended before the next one is read."""


def has_much_to_read(broker: Broker, entries: Entries, version: int) -> bool:
    """Whether the batches take long to read. The append reads a few short ones itself."""
    total = 0
    for topic, index, records in entries:
        if records is not None:
            total += _records_to_read(broker, topic, index, records, version)
    return total > MANY_RECORDS


def _records_to_read(broker: Broker, topic: bytes, index: int, records: memoryview, version: int) -> int:
    partitions = broker.partitions
    hosted = (partitions.by_id if version >= TOPIC_IDS_FROM else partitions.by_name).get(topic)
    partition = None if hosted is None or hosted.topic_id not in partitions.rewritten else hosted.partitions.get(index)
    return 0 if partition is None else count_records_to_read(partition, records)


async def rewrite_batches(
    broker: Broker, context: RequestContext, entries: Entries, start: int
) -> tuple[Prepared, int]:
    """Replacements for the batches from `entries[start]` on, and the index after the last one. Stops early when they
    hold much memory: a batch may grow a thousandfold when stored without its codec."""
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


async def explain(broker: Broker, context: RequestContext, plan: ProducePlan) -> None:
    """Finds the records with wrong timestamps in batches that were rejected for their headers."""
    for each in plan.unexplained:
        await context.wait(broker.rewrites.acquire())
        try:
            found = await _explained(broker, context, each.partition, each.batch, each.now_ms)
        finally:
            broker.rewrites.release()
        if found is not None:
            plan.explain(each, found)


def _alone(error: KafkaError) -> KafkaError:
    """`error` without its traceback, which would keep the expanded batch in memory."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


async def _rewrite(broker: Broker, context: RequestContext, topic: bytes, index: int, records: memoryview) -> Buffer:
    """The batch to append. Raises KafkaError."""
    partition = writable_partition(broker, context, topic, index)
    if context.api_version < ZSTD_FROM:
        check_codec(records)
    settings, now_ms = partition.log.settings, broker.own_node.clock.now_ms()
    check_batch_size(records, settings.max_message_bytes)
    try:
        header = check_produced_batch(records, now_ms=now_ms, limits=settings.batch_limits)
    except KafkaError as error:
        is_timestamp = error.code == INVALID_TIMESTAMP
        raise (is_timestamp and await _explained(broker, context, partition, records, now_ms)) or error from None
    rewrite = await _read_through(broker, context, partition, records, header, now_ms)
    if rewrite.is_compression_changed:
        await context.wait(broker.own_node.workers.run(rewrite.pack))
    rewritten = rewrite.finish()
    # the append checks this too; checking here avoids keeping a batch that it would reject
    check_batch_size(rewritten, settings.max_message_bytes)
    return rewritten


async def _read_through(
    broker: Broker, context: RequestContext, partition: Partition, records: Buffer, header: BatchHeader, now_ms: int
) -> BatchRewrite:
    """Reads every record, in Workers or with pauses. Raises KafkaError."""
    settings = partition.log.settings
    rewrite = BatchRewrite(
        records,
        header,
        settings.batch_limits,
        is_key_required=settings.is_compacted,
        target=settings.target_compression,
        partition_name=str(partition.topic_partition),
    )
    await context.wait(broker.own_node.workers.run(rewrite.expand))
    await context.finish(rewrite.walk(now_ms))
    return rewrite


async def _explained(
    broker: Broker, context: RequestContext, partition: Partition, records: Buffer, now_ms: int
) -> KafkaError | None:
    """The error that names the records with wrong timestamps (KIP-467). None: no record has a wrong one."""
    try:
        await _read_through(broker, context, partition, records, read_header(records), now_ms)
    except KafkaError as found:
        return found if found.record_errors else None
    return None
