"""Record batches from single records: what coordinators, the controller, the command line and tests write.

Whole columns are encoded by `moldau.columnar.encode`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence

from moldau.errors import invariant
from moldau.types import Buffer, Pausing
from moldau.wire.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from moldau.wire.records.compression import Compression, compress, compression_from_name
from moldau.wire.records.crc import crc32c, extend_crc32c
from moldau.wire.records.record import RecordHeader
from moldau.wire.records.varint import encode_varint

RecordTuple = tuple[Buffer | None, Buffer | None, int, Sequence[RecordHeader]]
"""(key, value, timestamp in ms, headers)"""

NULL_LENGTH = encode_varint(-1)

# the two halves of batch.HEADER
_FRONT = struct.Struct(">qiibI")
_COVERED_BY_CRC = struct.Struct(">hiqqqhii")


class TimestampType(enum.IntEnum):
    """Who set the timestamps: the client, or the broker at append. Names: `message.timestamp.type`."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def build_batch(
    records: Sequence[RecordTuple],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression | str = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """One batch of magic 2 with its CRC, byte for byte what Kafka's own builder makes of these records.

    The base timestamp is that of the first record. With LOG_APPEND_TIME every reader sees the largest timestamp given.
    `offset_deltas` (rising, default 0, 1, 2..) and `last_offset_delta` leave the holes that log compaction leaves.
    """
    kind = compression_from_name(compression) if isinstance(compression, str) else compression
    deltas = range(len(records)) if offset_deltas is None else offset_deltas
    invariant(len(deltas) == len(records), "one offset delta for each record")
    base_timestamp = records[0][2] if records else -1
    payload = b"".join(
        [encode_record(record, delta, base_timestamp) for record, delta in zip(records, deltas, strict=True)]
    )
    if kind is not Compression.NONE:
        payload = compress(kind, payload, compression_level)
    attributes = int(kind)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    if is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    if is_control:
        attributes |= CONTROL_FLAG
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if records else 0
    return assemble_batch(
        payload,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max((record[2] for record in records), default=-1),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )


def build_batch_pausing(
    records: Iterable[RecordTuple],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> Pausing[bytes]:
    """As build_batch, of records that may be very many; with a producer id they belong to its transaction."""
    pieces: list[bytes] = []
    base_timestamp = max_timestamp = -1
    for delta, record in enumerate(records):
        base_timestamp = base_timestamp if delta else record[2]
        max_timestamp = max(max_timestamp, record[2])
        pieces.append(encode_record(record, delta, base_timestamp))
        yield
    payload = b"".join(pieces)
    return assemble_batch(
        payload if compression is Compression.NONE else compress(compression, payload),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=int(compression) | (TRANSACTIONAL_FLAG if producer_id >= 0 else 0),
        last_offset_delta=len(pieces) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        record_count=len(pieces),
    )


def assemble_batch(
    payload: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytes:
    """The batch of an encoded (and, if the attributes say so, compressed) payload: header, payload, CRC."""
    # one copy of the payload, none if it is bytes already: batches of half a MiB are made here 2,000 times a second
    body = bytes(payload)
    covered = _COVERED_BY_CRC.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    crc = extend_crc32c(crc32c(covered), body)
    front = _FRONT.pack(base_offset, HEADER_SIZE - LENGTH_OVERHEAD + len(body), leader_epoch, MAGIC, crc)
    return b"".join((front, covered, body))


def encode_record(record: RecordTuple, offset_delta: int, base_timestamp: int) -> bytes:
    """One record with its length in front, as it lies in an uncompressed payload."""
    key, value, timestamp, headers = record
    parts: list[Buffer] = [b"\x00", encode_varint(timestamp - base_timestamp), encode_varint(offset_delta)]
    _append_nullable(parts, key)
    _append_nullable(parts, value)
    parts.append(encode_varint(len(headers)))
    for header_key, header_value in headers:
        encoded_key = header_key.encode()
        parts.append(encode_varint(len(encoded_key)))
        parts.append(encoded_key)
        _append_nullable(parts, header_value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _append_nullable(parts: list[Buffer], value: Buffer | None) -> None:
    if value is None:
        parts.append(NULL_LENGTH)
    else:
        parts.append(encode_varint(len(value)))
        parts.append(value)
