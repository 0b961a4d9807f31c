"""Encodes Arrow columns as record batches.

For speed, all fields between the payload bytes of a record (lengths, deltas, counts) are written for all records at
once, as columns of varint bytes. One C++ join of prefix, key, value length, value and headers then concatenates the
records. The payload of a record batch is a slice of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.columnar.origins import ORIGIN_COLUMNS, origin_text, origins_of
from moldau.columnar.varints import IntArray, UnsignedArray, VarintColumns, varint_widths, zigzag
from moldau.wire.records.batch import MAGIC, TRANSACTIONAL_FLAG, BatchHeader
from moldau.wire.records.builder import SET_LATER, assemble_batch
from moldau.wire.records.compression import Compression, compress

DEFAULT_BATCH_BYTES = 512 * 1024
"""Bytes of records in one record batch, before compression: well under `max.message.bytes`, 1 MiB."""

MAX_PAYLOAD_BYTES = 0x7FFFFFFF - 1024
RECORD_OVERHEAD = 36
"""The most that a record adds to key, value and headers, in bytes: five varints of 5, a timestamp of 10, attributes."""


RECORD_COLUMNS = ("topic", "partition", "key", "value", "timestamp", "headers")
"""The columns of a table that a TopicWriter reads."""


class RecordColumns(msgspec.Struct, frozen=True):
    """The columns of records, all of one length. `keys`, `headers` and `origins` may be absent. See `columns_of`."""

    keys: pa.Array | None
    values: pa.Array
    timestamps: IntArray
    headers: pa.Array | None
    origins: pa.StructArray | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def slice(self, start: int, length: int) -> RecordColumns:
        """`length` rows from `start`, without copying keys and values."""
        return RecordColumns(
            None if self.keys is None else self.keys.slice(start, length),
            self.values.slice(start, length),
            self.timestamps[start : start + length],
            None if self.headers is None else self.headers.slice(start, length),
            None if self.origins is None else self.origins.slice(start, length),
        )

    def take(self, rows: IntArray) -> RecordColumns:
        """The columns of these rows, in this order."""
        picked = pa.array(rows)
        return RecordColumns(
            None if self.keys is None else self.keys.take(picked),
            self.values.take(picked),
            self.timestamps[rows],
            None if self.headers is None else self.headers.take(picked),
            None if self.origins is None else self.origins.take(picked),
        )


class EncodedBatch(msgspec.Struct, frozen=True):
    """One record batch, ready to be produced, and its number of records."""

    data: bytes
    record_count: int


class BatchIdentity(msgspec.Struct, frozen=True):
    """The producer's ids in each batch's header. `base_sequence` is the sequence of the first record.

    `claim`: by how many ms a batch's base timestamp precedes its first record (see `claims`).
    """

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    claim: int = 0


def columns_of(batch: pa.RecordBatch, *, now_ms: int) -> RecordColumns:
    """The columns `key`, `value`, `timestamp`, `headers` of an Arrow batch; only `value` is required.

    Keys and values are binary or string. Timestamps have any unit, or are int64 milliseconds; null means `now_ms`.
    Headers are a list of structs of `key` and `value`, in either order. For `origins` see the module `origins`. Raises
    ValueError for other types.
    """
    names = batch.schema.names
    if "value" not in names:
        raise ValueError(f"the table needs a column named value; its columns are: {', '.join(names) or 'none'}")
    keys = binary_column(batch, "key") if "key" in names else None
    if keys is not None and keys.null_count == len(keys):
        keys = None
    timestamps: IntArray = np.full(batch.num_rows, now_ms, dtype=np.int64)
    if "timestamp" in names:
        timestamps = _as_timestamps(batch.column("timestamp"), now_ms)
    headers = _as_headers(batch.column("headers")) if "headers" in names else None
    return RecordColumns(keys, binary_column(batch, "value"), timestamps, headers, origins_of(batch))


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError if two columns of a record have the same name, because either could be meant."""
    for name in (*RECORD_COLUMNS, *ORIGIN_COLUMNS):
        if names.count(name) > 1:
            raise ValueError(f"the table has {names.count(name)} columns named {name}: give only one of them this name")


def binary_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column as binary, from bytes or text. Raises ValueError for other types."""
    return _as_binary(batch.column(name), name)


def _as_binary(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not is_bytes and not is_text and not pa.types.is_fixed_size_binary(kind):
        raise ValueError(f"column {name} is {kind}; it must be binary or string")
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        # the cast checks the offsets, and a slice has those of its column, which may exceed 2 GiB; a copy has its own,
        # from 0
        column = pa.concat_arrays([column])
    return column.cast(pa.binary())


def _as_timestamps(column: pa.Array, now_ms: int) -> IntArray:
    kind = column.type
    if pa.types.is_timestamp(kind):
        try:
            # the cast can overflow only for seconds; for smaller units it drops digits
            column = column.cast(pa.timestamp("ms", tz=kind.tz), safe=kind.unit == "s").cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ValueError(f"column timestamp has a time that is too far away for a record: {error}") from error
    elif pa.types.is_null(kind):
        column = column.cast(pa.int64())
    elif not pa.types.is_int64(kind):
        raise ValueError(f"column timestamp is {kind}; it must be a timestamp or int64 milliseconds")
    if column.null_count:
        column = column.fill_null(now_ms)
    result: IntArray = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return result


def _as_headers(column: pa.Array) -> pa.Array | None:
    kind = column.type
    if pa.types.is_null(kind) or column.null_count == len(column):
        return None
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    fields = list(kind.value_type) if is_list and pa.types.is_struct(kind.value_type) else []
    if sorted(field.name for field in fields) != ["key", "value"]:
        raise ValueError(f"column headers is {kind}; it must be list<struct<key: string, value: binary>>")
    return column


# --- batches ---


def encode_batches(
    columns: RecordColumns,
    *,
    identity: BatchIdentity = BatchIdentity(),  # noqa: B008  # a frozen value
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
) -> Iterator[EncodedBatch]:
    """The records in order, in batches of at most `batch_bytes` of records (a larger record is in a separate batch).

    Sequences continue from batch to batch. Raises ValueError for records of 2 GiB or more in total: slice the input.
    """
    count = len(columns)
    if not count:
        return
    value_lengths = _lengths(columns.values)
    key_lengths = None if columns.keys is None else _lengths(columns.keys)
    header_counts, header_bytes = _encode_headers(columns)
    sizes = np.maximum(value_lengths, 0) + RECORD_OVERHEAD
    if key_lengths is not None:
        sizes += np.maximum(key_lengths, 0)
    if header_bytes is not None:
        sizes += _lengths(header_bytes)
    bounds = _split(sizes, batch_bytes)
    first_rows = np.repeat(bounds[:-1], np.diff(bounds))
    lengths = _FieldLengths(key_lengths, value_lengths, header_counts, header_bytes)
    records = _join_records(columns, lengths, first_rows, identity.claim)
    ends = np.frombuffer(records.buffers()[1], dtype=np.int32, count=count + 1)
    data = memoryview(records.buffers()[2])
    largest = np.maximum.reduceat(columns.timestamps, bounds[:-1])
    sequence = identity.base_sequence
    for index in range(len(bounds) - 1):
        first, end = int(bounds[index]), int(bounds[index + 1])
        payload: bytes | memoryview = data[int(ends[first]) : int(ends[end])]
        if compression is not Compression.NONE:
            payload = compress(compression, payload, compression_level)
        batch = assemble_batch(
            payload,
            BatchHeader(
                base_offset=0,
                batch_length=SET_LATER,
                partition_leader_epoch=-1,
                magic=MAGIC,
                crc=SET_LATER,
                attributes=int(compression) | (TRANSACTIONAL_FLAG if identity.is_transactional else 0),
                last_offset_delta=end - first - 1,
                base_timestamp=int(columns.timestamps[first]) - identity.claim,
                max_timestamp=int(largest[index]),
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=sequence,
                record_count=end - first,
            ),
        )
        if sequence >= 0:
            sequence = (sequence + end - first) & 0x7FFFFFFF
        yield EncodedBatch(batch, end - first)


def _lengths(column: pa.Array) -> IntArray:
    """The length of each entry; -1 for null."""
    lengths: IntArray = pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _split(sizes: IntArray, batch_bytes: int) -> IntArray:
    """The first row of each batch, and the number of rows. Each batch has as many rows as fit, and at least one."""
    total = np.cumsum(sizes)
    if int(total[-1]) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"{int(total[-1])} bytes of records at once: slice the input")
    bounds = [0]
    while bounds[-1] < len(sizes):
        first = bounds[-1]
        before = int(total[first - 1]) if first else 0
        bounds.append(max(int(np.searchsorted(total, before + batch_bytes, side="right")), first + 1))
    return np.array(bounds, dtype=np.int64)


# --- records ---


class _FieldLengths(msgspec.Struct, frozen=True):
    keys: IntArray | None
    values: IntArray
    header_counts: IntArray | None
    header_bytes: pa.Array | None


def _join_records(columns: RecordColumns, lengths: _FieldLengths, first_rows: IntArray, claim: int) -> pa.Array:
    """Each record with its length before it, in one binary array."""
    count = len(columns)
    timestamp_deltas = zigzag(columns.timestamps - columns.timestamps[first_rows] + claim)
    offset_deltas = zigzag(np.arange(count) - first_rows)
    timestamp_widths, offset_widths = varint_widths(timestamp_deltas), varint_widths(offset_deltas)
    value_lengths = zigzag(lengths.values)
    value_widths = varint_widths(value_lengths)
    # one byte for attributes; one byte for a header count of 0, unless headers exist
    bodies = 1 + timestamp_widths + offset_widths + value_widths + np.maximum(lengths.values, 0)
    key_lengths: UnsignedArray | None = None
    if lengths.keys is None:
        bodies += 1
    else:
        key_lengths = zigzag(lengths.keys)
        key_widths = varint_widths(key_lengths)
        bodies += key_widths + np.maximum(lengths.keys, 0)
    if lengths.header_counts is None:
        bodies += 1
    else:
        counts = zigzag(lengths.header_counts)
        bodies += varint_widths(counts) + _lengths(lengths.header_bytes)
    zigzag_bodies = zigzag(bodies)

    prefix = VarintColumns(count)
    prefix.append_varints(zigzag_bodies, varint_widths(zigzag_bodies))
    prefix.append_byte(0)
    prefix.append_varints(timestamp_deltas, timestamp_widths)
    prefix.append_varints(offset_deltas, offset_widths)
    parts: list[pa.Array | pa.Scalar] = []
    if key_lengths is None:
        prefix.append_byte(1)  # zigzag of -1: null
        prefix.append_varints(value_lengths, value_widths)
        parts.append(_binary(prefix))
    else:
        prefix.append_varints(key_lengths, key_widths)
        middle = VarintColumns(count)
        middle.append_varints(value_lengths, value_widths)
        parts += [_binary(prefix), columns.keys, _binary(middle)]
    parts.append(columns.values)
    if lengths.header_counts is None:
        parts.append(pa.scalar(b"\x00"))
    else:
        tail = VarintColumns(count)
        tail.append_varints(counts, varint_widths(counts))
        parts += [_binary(tail), lengths.header_bytes]
    return _join(*parts)


def _binary(columns: VarintColumns) -> pa.Array:
    data, offsets = columns.flatten()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Concatenates the parts of each row; null counts as empty."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b""), null_handling="replace", null_replacement=b"")


def _encode_headers(columns: RecordColumns) -> tuple[IntArray | None, pa.Array | None]:
    """(The header count of each record, the bytes of all its headers), both None if no record has headers."""
    headers, count = columns.headers, len(columns)
    if headers is None:
        return None, None
    counts: IntArray = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not counts.any():
        return None, None
    structs = headers.flatten()
    # by name, because pa.table() orders the fields as in the first dict; a null's content is null
    keys, values = (_as_binary(pc.struct_field(structs, name), f"headers.{name}") for name in ("key", "value"))
    if keys.null_count:
        row = int(np.searchsorted(np.cumsum(counts), int(np.argmax(keys.is_null())), side="right"))
        raise ValueError(f"a record header without a key{origin_text(columns.origins, row)}")
    front, middle = VarintColumns(len(structs)), VarintColumns(len(structs))
    for part_columns, part in ((front, keys), (middle, values)):
        lengths = zigzag(_lengths(part))
        part_columns.append_varints(lengths, varint_widths(lengths))
    encoded = _join(_binary(front), keys, _binary(middle), values)
    # the headers of a record are already adjacent in the joined bytes, so only the borders between records remain
    borders = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(counts, out=borders[1:])
    offsets = np.frombuffer(encoded.buffers()[1], dtype=np.int32, count=len(structs) + 1)[borders]
    buffers = [None, pa.py_buffer(offsets), encoded.buffers()[2]]
    return counts, pa.BinaryArray.from_buffers(pa.binary(), count, buffers)
