"""Rows as records: the columns `key`, `value` and `timestamp` of the sink, from the columns of a relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.statements import Column, Role
from moldau.products.sql.records.layout import (
    EVENT_TIME,
    ROW_TIME,
    columns_of,
    is_table,
    key_columns,
    nearest_name,
    time_column,
    time_of,
    value_columns,
)
from moldau.products.sql.records.part import KEY, VALUE, Encoding, Part
from moldau.products.sql.records.parts import key_part, value_part

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

TIMESTAMP = "timestamp"
_KEY, _VALUE = "_moldau_key", "_moldau_value"
_NOTHING = "cast('{}' as binary)"
"""The value of a row without value columns: null would delete it."""


class EncodedRows(msgspec.Struct, frozen=True):
    """`rows`: with the columns KEY, VALUE, DELETED, and TIMESTAMP if the rows have times. KEY and VALUE are bytes after
    their function, if they have one."""

    rows: DataFrame
    functions: dict[str, Callable[[pa.Array], pa.Array]]

    def in_tasks(self) -> DataFrame:
        """The records: deleted rows have the value null."""
        rows = self.rows
        for name, function in self.functions.items():
            import pyarrow as pa

            from moldau.spark.frames.columns import with_column  # a statement is checked without Spark

            rows = with_column(rows, name, name, function, pa.binary())
        others = [name for name in rows.columns if name not in (VALUE, DELETED)]
        return rows.selectExpr(*others, f"if({DELETED}, cast(null as binary), {VALUE}) as {VALUE}")


def encode(rows: DataFrame, relation: Relation, registry: Registry | None) -> EncodedRows:
    """`rows`: some of the relation's columns, in any order and case; the others are null. Optionally EVENT_TIME or
    ROW_TIME, the time of the record, and DELETED. A column in `timestamp` of the relation is the time instead. Raises
    FlowError for any other column."""
    names = rows.columns
    _check_names(names, relation)
    key, value = key_part(relation, registry), value_part(relation, registry)
    deleted = f"coalesce({DELETED}, false)" if DELETED in names else "false"
    time = _time_of_rows(names, relation)
    structs = [_struct(key_columns(relation), names, _KEY), _struct(value_columns(relation), names, _VALUE)]
    times = [] if time is None else [f"{time} as {TIMESTAMP}"]
    found = rows.selectExpr(*(one for one in structs if one), f"{deleted} as {DELETED}", *times)
    encodings = {KEY: _encoding(key, found, _KEY, "cast(null as binary)")}
    encodings[VALUE] = _encoding(value, found, _VALUE, _NOTHING)
    found = found.selectExpr(
        *(f"{one.sql} as {name}" for name, one in encodings.items()), DELETED, *([] if time is None else [TIMESTAMP])
    )
    functions = {name: one.function for name, one in encodings.items() if one.function is not None}
    return EncodedRows(found, functions)


def _encoding(part: Part | None, rows: DataFrame, struct: str, otherwise: str) -> Encoding:
    return Encoding(otherwise) if part is None else part.encoded(rows, struct)


def _check_names(names: Sequence[str], relation: Relation) -> None:
    columns = {column.name.key: column for column in columns_of(relation)}
    for name in names:
        if name in (DELETED, EVENT_TIME) or name.upper() == ROW_TIME:
            continue
        column = columns.get(name.lower())
        if column is None:
            known = ", ".join(column.name.text for column in columns.values())
            raise FlowError(f"{relation.name} has no column {name!r}; it has {known}")
        if column.role in (Role.HEADERS, Role.HEADER):
            raise FlowError(f"the column {name!r} of {relation.name} is read from headers, which are not written")


def _struct(columns: Sequence[Column], names: Sequence[str], into: str) -> str | None:
    if not columns:
        return None
    fields = [f"{_value(column, names)} as {quoted(column.name.text)}" for column in columns]
    return f"struct({', '.join(fields)}) as {into}"


def _value(column: Column, names: Sequence[str]) -> str:
    given = nearest_name(names, column.name.text)
    return f"cast({'null' if given is None else quoted(given)} as {column.type})"


def _time_of_rows(names: Sequence[str], relation: Relation) -> str | None:
    """SQL: the record's timestamp; None: the time of writing."""
    column = time_column(relation)
    if column is not None:
        return time_of(relation, column, _value(column, names))
    if EVENT_TIME in names:
        return EVENT_TIME
    given = nearest_name(names, ROW_TIME)
    return None if given is None else f"timestamp_millis({given})"


def needs_key(relation: Relation) -> bool:
    """Whether a row without a key cannot be written: Kafka's compaction keeps one record of each key."""
    return is_table(relation)
