"""The base of PostgreSQL and SQLite targets.

The table `moldau_batches` has the newest batch of each checkpoint, written in the batch's transaction; `moldau_owners`
has the pipeline of each table.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.pipelines.databases.names import listed, quoted
from moldau.products.pipelines.targets.target import Owner

BATCHES = "moldau_batches"
BATCHES_COLUMNS = (
    "(pipeline text not null, checkpoint text not null, batch bigint not null, primary key (pipeline, checkpoint))"
)

OWNERS = "moldau_owners"
OWNERS_COLUMNS = '("table" text primary key, pipeline text not null)'
"""`moldau_batches` does not name the table of a batch."""

NESTED = ("struct", "array", "map")
"""The beginnings of Spark types whose values are stored as JSON."""


def owner_in(row: Sequence[str] | None, table: str) -> Owner | None:
    """`row`: the column `pipeline` of a row in OWNERS."""
    return None if row is None else Owner(row[0], f"delete the row of {table!r} in {OWNERS}")


def on_conflict(columns: Sequence[str], key: Sequence[str]) -> str:
    """The end of an INSERT that upserts by `key`; empty for one that appends."""
    if not key:
        return ""
    changes = ", ".join(f"{name} = excluded.{name}" for name in map(quoted, columns))
    return f" on conflict ({listed(key)}) do update set {changes}"


def primary_key(key: Sequence[str]) -> str:
    """The end of the column list of a new table."""
    return f", primary key ({listed(key)})" if key else ""
