"""The records of `__transaction_state`, to and from keys and values."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.core.transactions.state import TransactionMetadata, TransactionRecord, TransactionState
from moldau.errors import ProtocolError
from moldau.types import NO_PRODUCER_ID, Buffer, TopicPartition
from moldau.wire.protocol.messages.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from moldau.wire.protocol.record_codec import (
    decode_record_value,
    decode_transaction_key,
    encode_record_value,
    encode_transaction_key,
)


def encode_transaction_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Key and value in the log. A tombstone has no value."""
    metadata = record.metadata
    value = None if metadata is None else encode_record_value(_value(metadata), record.version)
    return encode_transaction_key(TransactionLogKey(record.transactional_id)), value


def decode_transaction_record(key: Buffer | None, value: Buffer | None) -> TransactionRecord | None:
    """The record; None for an unknown kind of key. Raises ProtocolError for malformed bytes."""
    if key is None:
        raise ProtocolError("a record of __transaction_state has no key")
    decoded = decode_transaction_key(key)
    if decoded is None:
        return None
    if value is None:
        return TransactionRecord(decoded.transactional_id, None)
    content, version = decode_record_value(TransactionLogValue, value)
    return TransactionRecord(decoded.transactional_id, _metadata(content), version)


def _value(metadata: TransactionMetadata) -> TransactionLogValue:
    partitions: tuple[TransactionPartitions, ...] | None = None
    if metadata.state is not TransactionState.EMPTY:
        rows = partitions_by_topic(metadata.partitions)
        partitions = tuple(TransactionPartitions(topic, tuple(indexes)) for topic, indexes in rows.items())
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )


def _metadata(value: TransactionLogValue) -> TransactionMetadata | None:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolError(f"a transaction in the unknown state {value.transaction_status}") from None
    if state is TransactionState.DEAD:
        return None
    if state is TransactionState.PREPARE_EPOCH_FENCE:
        # the transaction is still open and will time out
        state = TransactionState.ONGOING
    topics = value.transaction_partitions or ()
    return TransactionMetadata(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        state=state,
        timeout_ms=value.transaction_timeout_ms,
        partitions={TopicPartition(row.topic, index): None for row in topics for index in row.partition_ids},
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id if value.next_producer_id >= 0 else NO_PRODUCER_ID,
        client_version=value.client_transaction_version,
    )


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The indexes of each topic, in the order of first mention."""
    rows: dict[str, list[int]] = {}
    for partition in partitions:
        topic = partition.topic
        if topic not in rows:
            rows[topic] = []
        rows[topic] += (partition.partition,)
    return rows
