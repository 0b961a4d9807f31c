"""Decodes Avro values of one schema as whole columns with `polars`, ten times faster than one by one.

The values of a batch become the only block of an Avro container file, which polars reads. A block does not say where a
value ends, so the module checks that afterwards: it computes the bytes that each row takes from its columns, which must
be the length of the row's value. If anything does not fit, the reader of single records reads the batch, and finds the
damage. (Avro specification, "Object Container Files", "Binary Encoding".)
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.products.pipelines.formats.avro_reading import UUID, range_of
from moldau.products.pipelines.formats.avro_schema import AvroType
from moldau.products.pipelines.formats.registry import HEADER_BYTES, MAGIC

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]

_SYNC_MARKER = bytes(16)
_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
_WHOLE_NUMBERS = ("int", "long")
_WITH_LENGTH = ("string", "bytes")
_LOGICAL = ("date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros", "uuid")


class FlatField(msgspec.Struct, frozen=True):
    """A field of a primitive type. `null`: the place of null in its union, None without one; `logical`: the reader's
    logical type, one of _LOGICAL or None."""

    kind: str
    null: int | None
    logical: str | None


def flat_fields(written: AvroType, read: AvroType) -> tuple[FlatField, ...] | None:
    """The fields, if the writer has the reader's fields in the same order, with types that this module supports:
    primitive ones, some logical types over them, and unions of either with null. Otherwise None."""
    if written.kind != "record" or [one.name for one in written.fields] != [one.name for one in read.fields]:
        return None
    found = [_flat(one.type, own.type) for one, own in zip(written.fields, read.fields, strict=True)]
    return None if None in found else tuple(one for one in found if one is not None)


def _flat(written: AvroType, read: AvroType) -> FlatField | None:
    kind, own = written.without_null(), read.without_null()
    if kind is None or own is None or kind.kind != own.kind or len(written.branches) > 2:
        return None
    if kind.kind not in (*_WIDTHS, *_WHOLE_NUMBERS, *_WITH_LENGTH) or own.logical not in (None, *_LOGICAL):
        return None
    null = next((place for place, one in enumerate(written.branches) if one.kind == "null"), None)
    if (null is None and written.kind == "union") or (null is not None and read.kind != "union"):
        return None
    return FlatField(kind.kind, null, own.logical)


def read_columns(
    fields: Sequence[FlatField], values: pa.Array, kind: pa.StructType, *, after: int = 0
) -> pa.Array | None:
    """`values`: binary, without nulls, each after `after` bytes of a header. Fills the first fields of `kind`; the
    others are null. None if a value does not decode or does not fit its column, or if polars cannot read the values."""
    import numpy as np
    import polars as pl
    import pyarrow as pa

    offsets, block = _bytes_of(values)
    if len(values) and after:
        is_body = np.ones(len(block), bool)
        is_body[offsets[:-1, None] + np.arange(after)] = False
        offsets, block = offsets - after * np.arange(len(offsets)), block[is_body]
    if not len(block):
        return None
    try:
        frame = pl.read_avro(io.BytesIO(_container(fields, len(values), block)))
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None  # polars panics at some damage, and writes two lines to the log
    if table.num_rows != len(values):
        return None
    columns = [column.combine_chunks() for column in table.columns]
    if not _is_whole(fields, columns, offsets, block):
        return None
    read = [
        _with_logical(field, column, kind.field(place).type)
        for place, (field, column) in enumerate(zip(fields, columns, strict=True))
    ]
    if any(column is None for column in read):
        return None
    others = [pa.nulls(len(values), field.type) for field in list(kind)[len(fields) :]]
    return pa.StructArray.from_arrays([*read, *others], fields=list(kind))


def _with_logical(field: FlatField, column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """None for a value that does not fit the column; the reader of single values rejects it too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if field.logical is None or field.logical == "uuid":
            text = column.cast(kind)
            is_there = field.logical is None or pc.all(pc.match_substring_regex(text, f"^{UUID}$")).as_py() is not False
            return text if is_there else None
        first, last, unit = range_of(field.logical)
        numbers = column.cast(pa.int64())
        least, most = pc.min_max(numbers).as_py().values()
        if least is not None and not first <= least <= most <= last:
            return None
        return pc.multiply(numbers, unit).cast(pa.int32() if field.kind == "int" else pa.int64()).cast(kind)
    except pa.ArrowException:
        return None


def common_schema_id(values: pa.Array) -> int | None:
    """The registry's schema id that all values begin with; None if they differ. `values`: binary, without nulls."""
    import numpy as np

    offsets, block = _bytes_of(values)
    if not len(values) or np.diff(offsets).min() < HEADER_BYTES:
        return None
    heads = block[offsets[:-1, None] + np.arange(HEADER_BYTES)]
    if heads[0, 0] != MAGIC or (heads != heads[0]).any():
        return None
    return int.from_bytes(heads[0, 1:].tobytes(), "big")


def _bytes_of(values: pa.Array) -> tuple[Numbers, Bytes]:
    """The start of each value and the end of the last, in their bytes. `values`: binary, without nulls."""
    import numpy as np

    starts, data = values.buffers()[1:]
    if not len(values) or data is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(starts, np.int32, len(values) + 1, 4 * values.offset).astype(np.int64)
    return offsets - offsets[0], np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def _container(fields: Sequence[FlatField], count: int, block: Bytes) -> bytes:
    import fastavro

    # polars truncates larger numbers to an int, so each is read as a long, and cast afterwards
    plain = ["long" if field.kind == "int" else field.kind for field in fields]
    kinds: list[Any] = [
        kind if field.null is None else ["null", kind] if field.null == 0 else [kind, "null"]
        for field, kind in zip(fields, plain, strict=True)
    ]
    named = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(kinds)]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "Row", "fields": named}, [], sync_marker=_SYNC_MARKER)
    fastavro.schemaless_writer(out, "long", count)
    fastavro.schemaless_writer(out, "long", len(block))
    out.write(block.tobytes())
    out.write(_SYNC_MARKER)
    return out.getvalue()


def _is_whole(fields: Sequence[FlatField], columns: Sequence[pa.Array], offsets: Numbers, block: Bytes) -> bool:
    """Whether each row takes exactly the bytes between two offsets. Also checks the bytes that polars ignores: the
    place in a union, and a boolean's byte."""
    import numpy as np

    at = offsets[:-1].copy()
    for field, column in zip(fields, columns, strict=True):
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        if field.null is not None:
            places = np.where(is_there, 1 - field.null, field.null)
            if not np.array_equal(_bytes_at(block, at), 2 * places):  # places are zigzag numbers
                return False
            at += 1
        if field.kind == "boolean" and (_bytes_at(block, at)[is_there] > 1).any():
            return False
        at += np.where(is_there, _lengths(field.kind, column), 0)
    return np.array_equal(at, offsets[1:])


def _bytes_at(block: Bytes, places: Numbers) -> Bytes:
    """For a place after the end, the last byte: its row is too long, which is found later."""
    return block.take(places, mode="clip")


def _lengths(name: str, column: pa.Array) -> Numbers:
    """The number of bytes of each value."""
    import numpy as np
    import pyarrow.compute as pc

    if name in _WIDTHS:
        return np.full(len(column), _WIDTHS[name], np.int64)
    if name in _WITH_LENGTH:
        sizes: Numbers = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return sizes + _varint_lengths(sizes)
    return _varint_lengths(column.fill_null(0).to_numpy(zero_copy_only=False))


def _varint_lengths(numbers: Numbers) -> Numbers:
    import numpy as np

    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    found = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        found += zigzag >= np.uint64(1 << bits)
    return found
