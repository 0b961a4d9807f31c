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
"""`moldau_batches` does not say which table a batch went to."""

NESTED = ("struct", "array", "map")
"""How those types of Spark begin whose values are stored as JSON."""


def owner_in(row: Sequence[str] | None, table: str) -> Owner | None:
    """`row`: of OWNERS, its column `pipeline`."""
    return None if row is None else Owner(row[0], f"delete the row of {table!r} in {OWNERS}")


def on_conflict(columns: Sequence[str], key: Sequence[str]) -> str:
    """How an INSERT ends that upserts by `key`; nothing for one that appends."""
    if not key:
        return ""
    changes = ", ".join(f"{name} = excluded.{name}" for name in map(quoted, columns))
    return f" on conflict ({listed(key)}) do update set {changes}"


def primary_key(key: Sequence[str]) -> str:
    """How the columns of a new table end."""
    return f", primary key ({listed(key)})" if key else ""
