"""Gives values that are equal in SQL the same key: 0.0 equals -0.0, and NaN equals NaN.

Arrow compares bits to group and join, and so do the indexes of some tables.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def with_equal_keys(rows: Rows, key: Collection[str]) -> Rows:
    """`key`: the columns to normalize; others stay unchanged."""
    for name in key:
        place = rows.schema.get_field_index(name)
        column = rows.column(place)
        if pa.types.is_floating(column.type):
            rows = rows.set_column(place, rows.schema.field(place), _one_form(column))
    return rows


def _one_form(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    kind = column.type
    sum_with_zero = pc.add(column, pa.scalar(0.0, kind))
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), kind), sum_with_zero)
