"""Reads single records from a batch as objects, for groups, metadata, tests and the command line.

`moldau.columnar` reads whole topics as columns. The broker's produce and fetch paths do not use this.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.records.batch import HEADER_SIZE, BatchHeader, read_header
from moldau.wire.records.compression import MAX_EXPANDED_BYTES, Compression, decompress
from moldau.wire.records.varint import VARLONG_BYTES, decode_varint

RecordHeader = tuple[str, bytes | None]

MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp, offset, key length, value length, header count: a byte each."""

NO_RECORD_LIMIT = 0x7FFFFFF7
"""No record is larger: Kafka's default of `max.decompressed.message.bytes`, the largest array of a JVM."""


class Record(msgspec.Struct, frozen=True):
    """One record. `timestamp` in ms since the epoch. A header's key may repeat and its value may be None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class RecordFields(msgspec.Struct, frozen=True):
    """A record as in its batch: relative to the batch's base offset and base timestamp."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]


def read_records(batch: Buffer) -> list[Record]:
    """The records of the batch at the beginning of `batch`, decompressed; control records too.

    The CRC is not checked (`batch.is_crc_valid`). Raises ProtocolError for malformed or cut bytes, or those that expand
    past `MAX_EXPANDED_BYTES`.
    """
    header = read_header(batch)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    return [
        Record(
            base_offset + fields.offset_delta,
            base_timestamp + fields.timestamp_delta if append_time is None else append_time,
            fields.key,
            fields.value,
            fields.headers,
        )
        for fields in iterate_fields(read_payload(batch, header), header.record_count)
    ]


def read_payload(batch: Buffer, header: BatchHeader, max_expanded_bytes: int = MAX_EXPANDED_BYTES) -> bytes:
    """The bytes of the records after the header, decompressed. Raises ProtocolError as `read_records`."""
    if header.size > len(batch):
        raise ProtocolError(f"a record batch of {header.size} bytes is cut at {len(batch)}")
    payload = memoryview(batch)[HEADER_SIZE : header.size]
    compression = header.compression
    if compression is Compression.NONE:
        return bytes(payload)
    return decompress(compression, payload, max_expanded_bytes)


def iterate_fields(
    payload: bytes, record_count: int, max_record_bytes: int = NO_RECORD_LIMIT
) -> Iterator[RecordFields]:
    """Each record of a decompressed payload. Raises ProtocolError unless it has exactly `record_count` of them, none
    larger than `max_record_bytes`.

    A field of one byte, as most are, is read inline, because calls would take half of the time.
    """
    size = len(payload)
    if record_count < 0 or record_count * MIN_RECORD_BYTES > size:
        raise ProtocolError(f"{size} bytes cannot hold {record_count} records")
    position = 0
    try:
        for _ in range(record_count):
            length, position = decode_varint(payload, position)
            end = position + length
            if length < 0 or end > size:
                raise ProtocolError(f"a record of {length} bytes in {size - position}")
            if length > max_record_bytes:
                raise ProtocolError(f"a record of {length} bytes, more than {max_record_bytes}")
            # the attributes of a record are unused: any value is read, as Kafka does
            byte = payload[position + 1]
            if byte < 0x80:
                timestamp_delta = byte >> 1 ^ -(byte & 1)
                position += 2
            else:
                timestamp_delta, position = decode_varint(payload, position + 1, VARLONG_BYTES)
            byte = payload[position]
            if byte < 0x80:
                offset_delta = byte >> 1 ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = decode_varint(payload, position)
            key, position = _read_nullable(payload, position, end)
            value, position = _read_nullable(payload, position, end)
            headers: tuple[RecordHeader, ...] = ()
            if payload[position]:
                header_count, position = decode_varint(payload, position)
                headers, position = _read_headers(payload, position, end, header_count)
            else:
                position += 1
            if position != end:
                raise ProtocolError(f"a record's fields end at {position}, the record at {end}")
            yield RecordFields(offset_delta, timestamp_delta, key, value, headers)
    except IndexError:
        raise ProtocolError(f"a record is cut at {size} bytes") from None
    if position != size:
        raise ProtocolError(f"{size - position} bytes after the last of {record_count} records")


def _read_nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        length = byte >> 1 ^ -(byte & 1)
        position += 1
    else:
        length, position = decode_varint(data, position)
    if length < 0:
        # every negative length means null to Kafka's readers, not only -1
        return None, position
    behind = position + length
    if behind > end:
        raise ProtocolError(f"a key or value of {length} bytes in {end - position}")
    return data[position:behind], behind


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[tuple[RecordHeader, ...], int]:
    if count < 0 or count * 2 > end - position:
        raise ProtocolError(f"{count} headers in {end - position} bytes")
    headers: list[RecordHeader] = []
    for _ in range(count):
        key, position = _read_nullable(data, position, end)
        if key is None:
            raise ProtocolError("a record header without a key")
        value, position = _read_nullable(data, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position
