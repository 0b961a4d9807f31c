"""Metadata records to record batches and back. A record's value is a frame; it has no key (KIP-631)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moldau.core.metadata.features import RecordVersions
from moldau.core.metadata.fold import MetadataRecord, UnknownRecord
from moldau.errors import KafkaError, ProtocolError, kafka_error
from moldau.types import Buffer, Pausing
from moldau.wire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from moldau.wire.protocol.record_codec import decode_metadata_record, encode_metadata_record
from moldau.wire.records import builder

MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_BATCH_RECORDS = 10_000
"""Kafka's bounds on a batch of the metadata log."""


def batch_too_large() -> KafkaError:
    """The error for a request whose records exceed a batch."""
    return kafka_error("POLICY_VIOLATION", "Unable to perform excessively large batch operation.")


def encode_record(record: MetadataRecord, versions: RecordVersions) -> bytes:
    """The value of one record, in the version for the finalized levels."""
    return encode_metadata_record(record, _version(record, versions))


def _version(record: MetadataRecord, versions: RecordVersions) -> int:
    match record:
        case PartitionRecord():
            return versions.partition
        case PartitionChangeRecord():
            return versions.partition_change
        case RegisterBrokerRecord():
            return versions.register_broker
        case BrokerRegistrationChangeRecord():
            # the lowest version with these fields, as in Kafka, because all readers understand a fence
            if record.cordoned_log_dirs is not None:
                return 3
            if record.log_dirs:
                return 2
            return 1 if record.in_controlled_shutdown else 0
        case _:
            return 0


def build_metadata_batch(
    records: Sequence[MetadataRecord],
    levels: Mapping[str, int],
    *,
    now_ms: int,
    leader_epoch: int,
    base_offset: int = 0,
) -> Pausing[bytes]:
    """One batch of `records`. Raises ProtocolError for a value that does not fit its field."""
    versions = RecordVersions.for_levels(levels)
    encoded: Iterator[builder.RecordTuple] = ((None, encode_record(one, versions), now_ms, ()) for one in records)
    return builder.build_batch_pausing(encoded, base_offset=base_offset, leader_epoch=leader_epoch)


def decode_record(value: Buffer | None) -> MetadataRecord:
    """One record. Records of a later Kafka become UnknownRecord, which a fold rejects. Raises ProtocolError for
    null."""
    if value is None:
        raise ProtocolError("a metadata record without a value")
    try:
        return decode_metadata_record(value)[0]
    except ProtocolError as error:
        return UnknownRecord(str(error))
