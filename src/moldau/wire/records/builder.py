"""Builds record batches from single records, for coordinators, the controller, the command line and tests.

`moldau.columnar.encode` encodes whole columns.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import msgspec

from moldau.types import Buffer, Pausing
from moldau.wire.records.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from moldau.wire.records.compression import Compression, compress, compression_from_name
from moldau.wire.records.crc import crc32c, extend_crc32c
from moldau.wire.records.record import RecordHeader
from moldau.wire.records.varint import encode_varint

RecordTuple = tuple[Buffer | None, Buffer | None, int, Sequence[RecordHeader]]
"""(key, value, timestamp in ms, headers)"""

NULL_LENGTH = encode_varint(-1)

SET_LATER = 0
"""The length and the CRC in a header for `assemble_batch`, which computes both."""

# the two halves of batch.HEADER
_FRONT = struct.Struct(">qiibI")
_COVERED_BY_CRC = struct.Struct(">hiqqqhii")


def build_batch(
    records: Sequence[RecordTuple],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression | str = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """One batch of magic 2 with its CRC, byte for byte what Kafka's own builder makes of these records.

    The base timestamp is that of the first record.
    """
    kind = compression_from_name(compression) if isinstance(compression, str) else compression
    count = len(records)
    payload = encode_records(records, range(count))
    attributes = int(kind)
    if kind is not Compression.NONE:
        payload = compress(kind, payload)
    if is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    return assemble_batch(
        payload,
        BatchHeader(
            base_offset,
            SET_LATER,
            leader_epoch,
            MAGIC,
            SET_LATER,
            attributes,
            count - 1 if count else 0,
            records[0][2] if count else -1,
            max([record[2] for record in records], default=-1),
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
    )


def build_batch_with_holes(
    records: Sequence[RecordTuple], offset_deltas: Sequence[int], last_offset_delta: int, *, base_offset: int = 0
) -> bytes:
    """A batch as log compaction leaves it: `offset_deltas` rise, and the last record may be gone."""
    header = msgspec.structs.replace(
        read_header(build_batch(records, base_offset=base_offset)), last_offset_delta=last_offset_delta
    )
    return assemble_batch(encode_records(records, offset_deltas), header)


def build_batch_pausing(
    records: Iterable[RecordTuple],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> Pausing[bytes]:
    """As build_batch, with pauses, for many records. With a producer id they belong to its transaction."""
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
        BatchHeader(
            base_offset,
            SET_LATER,
            leader_epoch,
            MAGIC,
            SET_LATER,
            int(compression) | (TRANSACTIONAL_FLAG if producer_id >= 0 else 0),
            len(pieces) - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            -1,
            len(pieces),
        ),
    )


def assemble_batch(payload: Buffer, header: BatchHeader) -> bytes:
    """The batch of an encoded and, if the attributes say so, compressed payload.

    The length and the CRC are computed, whatever `header` says.
    """
    # one copy of the payload, none if it is bytes: up to 2,000 batches of half a MiB are built here each second
    body = bytes(payload)
    covered = _COVERED_BY_CRC.pack(
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    crc = extend_crc32c(crc32c(covered), body)
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
    return b"".join((_FRONT.pack(header.base_offset, length, header.partition_leader_epoch, MAGIC, crc), covered, body))


def encode_records(records: Sequence[RecordTuple], offset_deltas: Sequence[int]) -> bytes:
    """The payload of a batch without compression; the base timestamp is that of the first record."""
    base_timestamp = records[0][2] if records else -1
    pairs = zip(records, offset_deltas, strict=True)
    return b"".join([encode_record(record, delta, base_timestamp) for record, delta in pairs])


def encode_record(record: RecordTuple, offset_delta: int, base_timestamp: int) -> bytes:
    """One record with its length, as in an uncompressed payload."""
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
