"""Decodes record batches to Arrow columns, whole batches at a time.

For speed, a loop finds only the start of each record (`record_starts`: each length leads to the next record, so this
part cannot run in parallel). Every other varint is decoded for all records at once, with numpy over byte columns and a
loop only over the varint's width. Keys and values become Arrow arrays by offsets `[0, start0, end0, start1, end1, ...]`
over the payload itself and one `take` of the odd entries, a gather in C++.

Drops the records that consumers must not see: control batches, records of aborted transactions (by the list in Fetch v4
and later), and offsets outside of the requested range. A malformed batch raises a ProtocolError that names the offset.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.columnar.record_starts import record_starts
from moldau.columnar.varints import decode_varints
from moldau.errors import ProtocolError
from moldau.types import Buffer, TopicPartition
from moldau.wire.records.batch import HEADER_SIZE, BatchHeader, is_crc_valid, iterate_batches
from moldau.wire.records.compression import COMPRESSION_MASK, MAX_EXPANDED_BYTES, decompress
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.record import iterate_fields, read_payload
from moldau.wire.records.varint import decode_varint

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

TOPIC_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""The columns of a topic. `headers` is null for a record without headers."""

TIMESTAMP_TYPE_SCHEMA = TOPIC_SCHEMA.append(pa.field("timestampType", pa.int32(), nullable=False))
"""The same, with the type of the timestamp: 0 for the record's creation, 1 for the broker's append."""

MAX_OFFSET = 0x7FFFFFFFFFFFFFFF
MAX_CHUNK_BYTES = 64 * 1024 * 1024
"""The most decompressed bytes in one Arrow batch (a larger record batch still becomes one)."""

MAX_PAYLOAD_BYTES = 0x7FFFFFFF

_MAX_PARALLEL_HEADERS = 64

ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
AbortedTransaction = tuple[int, int]
"""(producer id, first offset)"""


class DecodeSettings(msgspec.Struct, frozen=True):
    """A reader's options. Without `include_headers`, the column is always null, and costs nothing;
    `include_timestamp_type` adds a last column `timestampType` (TIMESTAMP_TYPE_SCHEMA)."""

    include_headers: bool = True
    include_timestamp_type: bool = False
    check_crcs: bool = True
    max_expanded_bytes: int = MAX_EXPANDED_BYTES
    max_chunk_bytes: int = MAX_CHUNK_BYTES


def next_fetch_offset(records: Buffer) -> int | None:
    """The offset after the last whole batch; None without one. Cheap, because it reads only headers."""
    last: BatchHeader | None = None
    for _, header in iterate_batches(records):
        last = header
    return None if last is None else last.next_offset


def decode_records(
    records: Buffer,
    topic_partition: TopicPartition,
    *,
    start_offset: int = 0,
    end_offset: int = MAX_OFFSET,
    aborted: Sequence[AbortedTransaction] = (),
    settings: DecodeSettings = DecodeSettings(),  # noqa: B008  # a frozen value
) -> Iterator[pa.RecordBatch]:
    """The records of a fetch response with `start_offset <= offset < end_offset`, as TOPIC_SCHEMA.

    `records` has whole batches, and perhaps an incomplete one at the end, which is ignored. `aborted` is the list of
    the same response. The Arrow batches share no memory with `records`, and are not empty. Raises ProtocolError.
    """
    try:
        visible = _visible_batches(records, start_offset, end_offset, aborted, settings)
        for chunk in _chunks(records, visible, settings):
            decoded = _decode_chunk(chunk, topic_partition.partition, start_offset, end_offset, settings)
            if decoded.num_rows:
                yield decoded
    except ProtocolError as error:
        raise ProtocolError(f"{topic_partition}: {error}") from error


# --- selection of batches ---

_Batch = tuple[int, BatchHeader]


def _visible_batches(
    records: Buffer,
    start_offset: int,
    end_offset: int,
    aborted: Sequence[AbortedTransaction],
    settings: DecodeSettings,
) -> Iterator[_Batch]:
    """The batches with visible records: without control batches, aborted batches, and those outside of the range."""
    coming = deque(sorted(aborted, key=lambda row: row[1]))
    aborted_producers: dict[int, None] = {}
    for position, header in iterate_batches(records):
        if settings.check_crcs and not is_crc_valid(records, position, header.size):
            raise ProtocolError(f"the CRC of the batch at offset {header.base_offset} does not match")
        while coming and coming[0][1] <= header.last_offset:
            aborted_producers[coming.popleft()[0]] = None
        if header.is_control:
            if header.producer_id in aborted_producers and _is_abort(records, position, header):
                del aborted_producers[header.producer_id]
            continue
        if header.is_transactional and header.producer_id in aborted_producers:
            continue
        if header.last_offset < start_offset or header.record_count == 0:
            continue
        if header.base_offset >= end_offset:
            return
        yield position, header


def _is_abort(records: Buffer, position: int, header: BatchHeader) -> bool:
    payload = read_payload(memoryview(records)[position : position + header.size], header)
    return any(
        decode_control_key(fields.key) is ControlType.ABORT for fields in iterate_fields(payload, header.record_count)
    )


# --- adjacent payloads ---


class _Chunk(msgspec.Struct):
    """Payloads to decode together: [starts[i], ends[i]) of `data` is the payload of `headers[i]`."""

    data: Buffer
    headers: list[BatchHeader]
    starts: list[int]
    ends: list[int]


def _chunks(records: Buffer, visible: Iterator[_Batch], settings: DecodeSettings) -> Iterator[_Chunk]:
    """Uncompressed batches are decoded in place; from the first compressed batch on, payloads are joined."""
    in_place = _Chunk(records, [], [], [])
    for position, header in visible:
        if header.attributes & COMPRESSION_MASK:
            if in_place.headers:
                yield in_place
            yield from _expanded_chunks(records, (position, header), visible, settings)
            return
        in_place.headers.append(header)
        in_place.starts.append(position + HEADER_SIZE)
        in_place.ends.append(position + header.size)
        if position + header.size - in_place.starts[0] >= settings.max_chunk_bytes:
            yield in_place
            in_place = _Chunk(records, [], [], [])
    if in_place.headers:
        yield in_place


def _expanded_chunks(
    records: Buffer, first: _Batch, rest: Iterator[_Batch], settings: DecodeSettings
) -> Iterator[_Chunk]:
    view = memoryview(records)
    payloads: list[Buffer] = []
    chunk = _Chunk(b"", [], [], [])
    expanded_bytes = 0
    batch: _Batch | None = first
    while batch is not None:
        position, header = batch
        payload: Buffer = view[position + HEADER_SIZE : position + header.size]
        if header.attributes & COMPRESSION_MASK:
            try:
                payload = decompress(header.compression, payload, settings.max_expanded_bytes)
            except ProtocolError as error:
                raise ProtocolError(f"batch at offset {header.base_offset}: {error}") from error
        payloads.append(payload)
        chunk.headers.append(header)
        chunk.starts.append(expanded_bytes)
        expanded_bytes += len(payload)
        chunk.ends.append(expanded_bytes)
        batch = next(rest, None)
        if batch is None or expanded_bytes >= settings.max_chunk_bytes:
            chunk.data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
            yield chunk
            payloads, chunk, expanded_bytes = [], _Chunk(b"", [], [], []), 0


# --- one chunk ---


def _decode_chunk(
    chunk: _Chunk, partition: int, start_offset: int, end_offset: int, settings: DecodeSettings
) -> pa.RecordBatch:
    headers = chunk.headers
    if len(chunk.data) > MAX_PAYLOAD_BYTES:
        raise ProtocolError(f"{len(chunk.data)} bytes in one chunk: Arrow's offsets end at {MAX_PAYLOAD_BYTES}")
    data = np.frombuffer(chunk.data, dtype=np.uint8)
    source = pa.py_buffer(chunk.data)
    starts = _record_starts(chunk)
    counts = np.array([header.record_count for header in headers])
    try:
        columns = _decode_fields(data, starts, np.repeat(np.array(chunk.ends), counts))
        offsets = np.repeat(np.array([header.base_offset for header in headers]), counts) + columns.offset_deltas
        timestamps = _timestamps(headers, counts, columns.timestamp_deltas)
        shown: IntArray | None = None
        if headers[0].base_offset < start_offset or headers[-1].last_offset >= end_offset:
            shown = np.flatnonzero((offsets >= start_offset) & (offsets < end_offset))
            if shown.size < offsets.size:
                offsets, timestamps, columns = offsets[shown], timestamps[shown], columns.take(shown)
        record_headers = pa.nulls(len(offsets), HEADERS_TYPE)
        if settings.include_headers and columns.header_counts.any():
            record_headers = _decode_headers(chunk.data, data, source, columns)
    except (IndexError, ProtocolError) as error:
        first, last = headers[0].base_offset, headers[-1].last_offset
        raise ProtocolError(f"malformed records in offsets {first} to {last}: {error}") from error
    arrays = [
        gather(source, columns.key_starts, columns.key_lengths),
        gather(source, columns.value_starts, columns.value_lengths),
        pa.array(np.full(len(offsets), partition, dtype=np.int32)),
        pa.array(offsets),
        pa.array(timestamps).cast(TOPIC_SCHEMA.field("timestamp").type),
        record_headers,
    ]
    if not settings.include_timestamp_type:
        return pa.RecordBatch.from_arrays(arrays, schema=TOPIC_SCHEMA)
    types = np.repeat(np.array([header.is_log_append_time for header in headers], dtype=np.int32), counts)
    arrays.append(pa.array(types if shown is None else types[shown]))
    return pa.RecordBatch.from_arrays(arrays, schema=TIMESTAMP_TYPE_SCHEMA)


def _timestamps(headers: list[BatchHeader], counts: IntArray, deltas: IntArray) -> IntArray:
    """A broker's append time is in the header, and applies to every record of the batch."""
    bases = np.array([h.max_timestamp if h.is_log_append_time else h.base_timestamp for h in headers])
    if any(header.is_log_append_time for header in headers):
        deltas = np.where(np.repeat(np.array([h.is_log_append_time for h in headers]), counts), 0, deltas)
    return np.repeat(bases, counts) + deltas


class _Columns(msgspec.Struct, frozen=True):
    """The fields of records, one row each, as positions in the chunk's data; a length below 0 means null."""

    timestamp_deltas: IntArray
    offset_deltas: IntArray
    key_starts: IntArray
    key_lengths: IntArray
    value_starts: IntArray
    value_lengths: IntArray
    header_counts: IntArray
    headers_starts: IntArray
    ends: IntArray

    def take(self, rows: IntArray) -> _Columns:
        return _Columns(*[getattr(self, name)[rows] for name in self.__struct_fields__])


def _decode_fields(data: ByteArray, starts: IntArray, payload_ends: IntArray) -> _Columns:
    """Raises IndexError or ProtocolError for records whose lengths exceed the record."""
    lengths, position = decode_varints(data, starts)
    ends = position + lengths
    timestamp_deltas, position = decode_varints(data, position + 1, max_bytes=10)
    offset_deltas, position = decode_varints(data, position)
    key_lengths, key_starts = decode_varints(data, position)
    value_lengths, value_starts = decode_varints(data, key_starts + np.maximum(key_lengths, 0))
    header_counts, position = decode_varints(data, value_starts + np.maximum(value_lengths, 0))
    no_headers = header_counts == 0
    fits = (lengths > 0) & (ends <= payload_ends) & (header_counts >= 0)
    fits &= np.where(no_headers, position == ends, position + 2 * header_counts <= ends)
    if not fits.all():
        raise ProtocolError(f"the fields of record {int(np.argmin(fits))} do not fit its length")
    return _Columns(
        timestamp_deltas,
        offset_deltas,
        key_starts,
        key_lengths,
        value_starts,
        value_lengths,
        header_counts,
        position,
        ends,
    )


def gather(source: pa.Buffer, starts: IntArray, lengths: IntArray) -> pa.Array:
    """A binary array of slices of `source`, which are ascending and disjoint; null for a length below 0."""
    count = len(starts)
    is_null = lengths < 0
    has_nulls = bool(is_null.any())
    if has_nulls and is_null.all():
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count + 1, dtype=np.int32)
    bounds[0] = 0
    bounds[1::2] = starts
    bounds[2::2] = starts + (np.maximum(lengths, 0) if has_nulls else lengths)
    slices = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), source])
    odd = np.arange(1, 2 * count, 2, dtype=np.int32)
    return slices.take(pa.array(odd, mask=is_null) if has_nulls else pa.array(odd))


def _record_starts(chunk: _Chunk) -> IntArray:
    """The position of each record's length, in order. Raises ProtocolError if lengths and counts disagree."""
    counts = [header.record_count for header in chunk.headers]
    starts, wrong = record_starts(chunk.data, counts, chunk.starts, chunk.ends)
    if wrong is not None:
        size = chunk.ends[wrong] - chunk.starts[wrong]
        raise ProtocolError(
            f"batch at offset {chunk.headers[wrong].base_offset}: "
            f"the lengths of {counts[wrong]} records do not add up to {size} bytes"
        )
    return starts


# --- headers ---


def _decode_headers(raw: Buffer, data: ByteArray, source: pa.Buffer, columns: _Columns) -> pa.Array:
    counts = columns.header_counts
    offsets = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    if int(counts.max()) <= _MAX_PARALLEL_HEADERS:
        fields = _parallel_headers(data, columns, offsets)
    else:
        fields = _scalar_headers(bytes(raw), columns)
    key_starts, key_lengths, value_starts, value_lengths = fields
    if (key_lengths < 0).any():
        raise ProtocolError("a record header without a key")
    structs = pa.StructArray.from_arrays(
        [_as_text(gather(source, key_starts, key_lengths)), gather(source, value_starts, value_lengths)],
        fields=list(HEADERS_TYPE.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=HEADERS_TYPE, mask=pa.array(counts == 0))


def _parallel_headers(data: ByteArray, columns: _Columns, offsets: npt.NDArray[np.int32]) -> tuple[IntArray, ...]:
    """Decodes the n-th header of every record at once, for n up to the largest count."""
    fields = tuple(np.empty(int(offsets[-1]), dtype=np.int64) for _ in range(4))
    rows = np.flatnonzero(columns.header_counts)
    position = columns.headers_starts[rows]
    targets = offsets[:-1][rows].astype(np.int64)
    remaining = columns.header_counts[rows]
    ends = columns.ends[rows]
    while len(remaining):
        key_lengths, key_starts = decode_varints(data, position)
        value_lengths, value_starts = decode_varints(data, key_starts + np.maximum(key_lengths, 0))
        position = value_starts + np.maximum(value_lengths, 0)
        if (position > ends).any():
            raise ProtocolError("a record header reaches past its record")
        for field, values in zip(fields, (key_starts, key_lengths, value_starts, value_lengths), strict=True):
            field[targets] = values
        targets += 1
        remaining = remaining - 1
        if (position[remaining == 0] != ends[remaining == 0]).any():
            raise ProtocolError("a record is longer than its fields")
        more = remaining > 0
        position, targets, remaining, ends = position[more], targets[more], remaining[more], ends[more]
    return fields


def _scalar_headers(data: bytes, columns: _Columns) -> tuple[IntArray, ...]:
    """Decodes headers one by one, for a chunk with a record of very many headers, each of which would need a round."""
    fields = tuple(array("q") for _ in range(4))
    rows = zip(columns.headers_starts.tolist(), columns.header_counts.tolist(), columns.ends.tolist(), strict=True)
    for position, count, end in rows:
        for _ in range(count):
            for lengths, starts in ((fields[1], fields[0]), (fields[3], fields[2])):
                length, position = decode_varint(data, position)
                starts.append(position)
                lengths.append(length)
                position += max(length, 0)
            if position > end:
                raise ProtocolError("a record header reaches past its record")
        if count and position != end:
            raise ProtocolError("a record is longer than its fields")
    return tuple(np.frombuffer(values, dtype=np.int64) for values in fields)


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys as strings. Replaces invalid UTF-8, as Kafka's clients do."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
