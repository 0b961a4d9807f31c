"""Repairs text columns for targets that accept valid UTF-8 only.

Keys and values of records are bytes, and so are texts in Spark, so a text may have invalid UTF-8. Arrow and Polars
cannot read a Parquet file with such a text, and no database accepts it.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from moldau.columnar.nested import has_inside, rebuilt

REPLACE, ESCAPE = "replace", "backslashreplace"
"""Error handlers of Python for such bytes. They become U+FFFD, or `\\xff`, which keeps different texts different."""
_ZERO = {REPLACE: "\ufffd", ESCAPE: r"\x00"}
_ZERO_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""After an even number of backslashes, because an odd number would escape the last one."""


def with_valid_texts(
    rows: pa.RecordBatch, keys: Collection[str] = (), *, takes_zero: bool = True, json: Collection[str] = ()
) -> pa.RecordBatch:
    """The rows with every text as UTF-8. `keys`: the columns that identify rows, whose texts are escaped. `takes_zero`:
    whether the target stores the character 0; `json`: the columns of JSON, in which it is escaped."""
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        errors = ESCAPE if name in keys else REPLACE
        column = valid_texts(column, errors)
        if not takes_zero and pa.types.is_string(column.type):
            column = _without_zero(column, errors, is_json=name in json)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def valid_texts(column: pa.Array, errors: str = REPLACE) -> pa.Array:
    """The array with valid UTF-8 in all texts, at any depth."""
    if not has_inside(column.type, pa.types.is_string):
        return column
    try:
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        return rebuilt(column, pa.types.is_string, lambda texts: _decoded(texts, errors))


def _decoded(texts: pa.Array, errors: str) -> pa.Array:
    values = texts.view(pa.binary()).to_pylist()
    return pa.array([None if value is None else value.decode("utf-8", errors) for value in values], pa.string())


def _without_zero(texts: pa.Array, errors: str, *, is_json: bool) -> pa.Array:
    zero = "\\u0000" if is_json else "\0"
    if not pc.any(pc.match_substring(texts, zero)).as_py():
        return texts
    if not is_json:
        return pc.replace_substring(texts, zero, _ZERO[errors])
    values = texts.to_pylist()
    return pa.array([value and _ZERO_IN_JSON.sub(r"\1" + _ZERO[REPLACE], value) for value in values], pa.string())
