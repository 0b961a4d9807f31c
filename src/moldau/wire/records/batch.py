"""The 61-byte header of a record batch (magic 2, KIP-98), read and patched in place. Records stay opaque.

    offset  0  base offset        8        offset 23  last offset delta   4
            8  batch length       4               27  base timestamp      8
           12  leader epoch       4               35  max timestamp       8
           16  magic              1               43  producer id         8
           17  CRC-32C            4               51  producer epoch      2
           21  attributes         2               53  base sequence       4
                                                  57  record count        4

The batch length counts what follows it. The CRC covers everything from the attributes on, so base offset and leader
epoch may be patched without it. Attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control,
6 delete horizon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.records.compression import COMPRESSION_MASK, Compression
from moldau.wire.records.crc import crc32c

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""The bytes that the batch length does not count: base offset and the length itself."""

CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35
MAGIC = 2

LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
"""Set by compaction: the base timestamp is the time from which tombstones of the batch may be removed (KIP-534)."""

HEADER = struct.Struct(">qiibIhiqqqhii")
_PLACE = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_SEQUENCE = 0x7FFFFFFF


class BatchHeader(msgspec.Struct, frozen=True):
    """The fields of the header in wire order: `BatchHeader(*HEADER.unpack_from(buffer, position))`."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record, which compaction may have removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Raises ProtocolError for a codec that Kafka does not have (5 to 7)."""
        return compression_of(self.attributes)

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction (KIP-98); so do its markers."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records, which consumers do not get: a marker, or a record of the quorum."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def is_log_append_time(self) -> bool:
        """Whether all records have the batch's max timestamp, which the broker set (KIP-32)."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 without a producer id. Sequences wrap from 2^31-1 to 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _MAX_SEQUENCE


def compression_of(attributes: int) -> Compression:
    """The codec in a batch's attributes. Raises ProtocolError for 5 to 7, which are undefined."""
    kind = attributes & COMPRESSION_MASK
    if kind > Compression.ZSTD:
        raise ProtocolError(f"unknown compression codec {kind}")
    return Compression(kind)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises ProtocolError for a cut header, another magic, or an impossible length.

    The CRC is not checked, and the batch may reach past the end of the buffer: the caller checks both.
    """
    try:
        header = BatchHeader(*HEADER.unpack_from(buffer, position))
    except struct.error:
        raise ProtocolError(f"a record batch header is cut at {position} of {len(buffer)} bytes") from None
    if header.magic != MAGIC:
        raise ProtocolError(f"record batch magic {header.magic} at {position}: only 2 is known")
    if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise ProtocolError(f"record batch length {header.batch_length} at {position} is shorter than its header")
    return header


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch. A cut batch at the end, as in a fetch response, is left out.

    Raises ProtocolError for other bytes. The CRC is not checked.
    """
    position, end = 0, len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        next_position = position + header.batch_length + LENGTH_OVERHEAD
        if next_position > end:
            return
        yield position, header
        position = next_position


def is_crc_valid(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the CRC in the header of the batch of `size` bytes at `position` is right."""
    expected: int = _CRC.unpack_from(buffer, position + CRC_POSITION)[0]
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size]) == expected


def patch_base_offset(
    buffer: bytearray | memoryview, position: int, base_offset: int, batch_length: int, leader_epoch: int
) -> None:
    """Writes base offset, length and leader epoch into the header. The CRC covers none of them."""
    _PLACE.pack_into(buffer, position, base_offset, batch_length, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, position: int, size: int, now_ms: int) -> None:
    """Marks the batch as LogAppendTime at `now_ms` (attributes and maximum timestamp) and recomputes the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_FLAG)
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, now_ms)
    write_crc(buffer, position, size)


def set_max_timestamp(buffer: bytearray | memoryview, position: int, size: int, max_timestamp_ms: int) -> None:
    """Sets the maximum timestamp to that of the records, and recomputes the CRC."""
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    write_crc(buffer, position, size)


def clear_log_append_time(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Clears a client's LogAppendTime mark for a topic of CreateTime, and recomputes the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes & ~LOG_APPEND_TIME_FLAG)
    write_crc(buffer, position, size)


def write_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Computes and writes the CRC of the batch of `size` bytes at `position`."""
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size])
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
