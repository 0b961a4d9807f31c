"""The texts of statements that PostgreSQL and SQLite both know. A value is a placeholder, given by `Placeholder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Placeholder = Callable[[int], str]
"""The text of the n-th value, from 1."""

BATCHES = "moldau_connect_batches"
"""The newest batch of each writer, changed in the transaction of the batch."""


class IdentifierError(ValueError):
    """A name that no table or column can have."""


def quoted(name: str) -> str:
    """The name as an identifier. Raises IdentifierError for an empty one, or one with a NUL."""
    if not name or "\x00" in name:
        raise IdentifierError(f"{name!r} cannot be the name of a table or a column")
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def path_of(table: Sequence[str]) -> str:
    """A table's name, after its schema if it has one."""
    return ".".join(map(quoted, table))


def insert(table: Sequence[str], columns: Sequence[str], value: Placeholder) -> str:
    values = ", ".join(value(place) for place in range(1, len(columns) + 1))
    return f"INSERT INTO {path_of(table)} ({listed(columns)}) VALUES ({values})"


def upsert(table: Sequence[str], columns: Sequence[str], key: Sequence[str], value: Placeholder) -> str:
    others = [f"{quoted(name)} = excluded.{quoted(name)}" for name in columns if name not in key]
    change = f"UPDATE SET {', '.join(others)}" if others else "NOTHING"
    return f"{insert(table, columns, value)} ON CONFLICT ({listed(key)}) DO {change}"


def update(table: Sequence[str], columns: Sequence[str], key: Sequence[str], value: Placeholder) -> str:
    """The values are those of `columns` that are not in the key, then those of the key."""
    others = [name for name in columns if name not in key]
    changes = ", ".join(f"{quoted(name)} = {value(place)}" for place, name in enumerate(others, 1))
    return f"UPDATE {path_of(table)} SET {changes} WHERE {_where(table, key, value, len(others) + 1)}"


def delete(table: Sequence[str], key: Sequence[str], value: Placeholder) -> str:
    return f"DELETE FROM {path_of(table)} WHERE {_where(table, key, value, 1)}"


def create_table(table: Sequence[str], columns: Sequence[tuple[str, str]], key: Sequence[str]) -> str:
    """`columns`: names with their types, and NOT NULL."""
    parts = [f"{quoted(name)} {kind}" for name, kind in columns]
    if key:
        parts.append(f"PRIMARY KEY ({listed(key)})")
    return f"CREATE TABLE IF NOT EXISTS {path_of(table)} ({', '.join(parts)})"


def add_column(table: Sequence[str], name: str, kind: str) -> str:
    return f"ALTER TABLE {path_of(table)} ADD COLUMN {quoted(name)} {kind}"


def _where(table: Sequence[str], key: Sequence[str], value: Placeholder, first: int) -> str:
    """With the table in front: SQLite takes a quoted name that is no column for a text."""
    return " AND ".join(f"{path_of(table)}.{quoted(name)} = {value(place)}" for place, name in enumerate(key, first))
