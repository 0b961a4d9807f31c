"""Checks the columns of a result against those of an existing table of files.

PostgreSQL and SQLite check rows themselves, with EXPLAIN, including defaults and conversions.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.products.pipelines.core.failures import FlowError


class TableColumn(msgspec.Struct, frozen=True):
    """`kind`: the type, in the library of the table; `shown`: the same for people."""

    kind: object
    shown: str
    is_nullable: bool


Columns = Mapping[str, TableColumn]


def check_columns(table: str, has: Columns, gives: Columns | None, *, shown: str = "") -> None:
    """`gives`: the columns of the SQL's result; None: the library of the table cannot compare them. `shown`: the same
    for people. Raises FlowError unless the table accepts files with these columns."""
    if gives is None or _kinds(has) != _kinds(gives):
        raise FlowError(f"{table} has the columns {_shown(has)}, but the SQL gives {shown or _shown(gives or {})}")
    strict = [name for name, one in has.items() if not one.is_nullable and gives[name].is_nullable]
    if strict:
        raise FlowError(f"the column {strict[0]!r} of {table} must not be null, but the SQL may give null")


def refuse_partitions(table: str, is_partitioned: bool) -> None:
    """Raises FlowError."""
    if is_partitioned:
        raise FlowError(f"{table} is partitioned, which a pipeline does not write; name another one")


def _kinds(columns: Columns) -> dict[str, object]:
    return {name: one.kind for name, one in columns.items()}


def _shown(columns: Columns) -> str:
    return ", ".join(f"{name} {one.shown}" for name, one in columns.items())
