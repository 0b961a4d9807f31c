"""Columns with the origin of a row. They are not written; errors name them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

ORIGIN_COLUMNS = ("_topic", "_partition", "_offset")
"""The origin of a row: its input record."""

NAMES_THE_INPUT = "the input record is"
"""Part of an error message that names the input record."""


def origins_of(batch: pa.RecordBatch) -> pa.StructArray | None:
    """The three columns as one; None unless all are there."""
    if not set(ORIGIN_COLUMNS) <= set(batch.schema.names):
        return None
    return pa.StructArray.from_arrays([batch.column(name) for name in ORIGIN_COLUMNS], list(ORIGIN_COLUMNS))


def origin_text(origins: pa.StructArray | None, row: int) -> str:
    """The origin of the row, for the end of an error message; empty if unknown."""
    if origins is None or not 0 <= row < len(origins):
        return ""
    origin = origins[row].as_py()
    if origin is None or origin["_topic"] is None:
        return ""
    return f"; {NAMES_THE_INPUT} {origin['_topic']}-{origin['_partition']} at offset {origin['_offset']}"


def largest_row(keys: pa.Array | None, values: pa.Array) -> int:
    """The row with the most bytes of key and value."""
    sizes = pc.binary_length(values).fill_null(0)
    if keys is not None:
        sizes = pc.add(sizes, pc.binary_length(keys).fill_null(0))
    return int(pc.index(sizes, pc.max(sizes)).as_py())
