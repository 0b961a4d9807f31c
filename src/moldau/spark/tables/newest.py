"""The changes of a table, from its changelog; and one row for each key of a batch, from changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # Spark reads the type hints of a function
from pyspark.sql import functions as f

from moldau.spark.tables.buckets import BUCKETS, DELETED, Change, Processor, Side, Values, bytes_of, column, in_buckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BUCKET = "_moldau_bucket"


def newest(table: Side) -> DataFrame:
    """The changes of the table whose changelog this is. A row that is as before is no change. State: the newest row of
    each key that is not deleted."""
    rows = table.rows.select(*table.inputs(table.key), table.row())
    return in_buckets(rows, _Newest(), table.row_type)


def as_changes(table: Side) -> Side:
    """The table with its changes in the place of its changelog."""
    return table if table.order is None else Side(newest(table), table.key, name=table.name)


def upserts(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """One row for each key of a micro-batch, for a target that replaces rows by key: the added row, or the removed one
    if none is added. No state."""
    bucket = f.pmod(f.hash(*map(column, key)), f.lit(BUCKETS)).alias(_BUCKET)
    grouped = changes.select(bucket, *map(column, changes.columns)).groupBy(_BUCKET)
    names = tuple(key)

    def kept(rows: pa.Table) -> pa.Table:
        return _upserts(names, rows)

    return grouped.applyInArrow(kept, changes.schema)


def newest_of(rows: Iterable[Values], place: int) -> dict[bytes, Values | None]:
    """The newest row of each key in one micro-batch; None: it is deleted. `place`: of the row in the processor's
    columns."""
    found: dict[bytes, tuple[tuple[int, bool], Values]] = {}
    for row in rows:
        key, rank = bytes_of(row[0].values()), (row[1], not row[2])
        if key not in found or found[key][0] <= rank:
            found[key] = rank, row
    return {key: None if row[2] else tuple(row[place].values()) for key, (_, row) in found.items()}


def difference(before: Values | None, after: Values | None) -> Iterator[Change]:
    """The changes that make `after` of `before`; None: there is no row."""
    if before != after:
        if before is not None:
            yield before, True
        if after is not None:
            yield after, False


class _Newest(Processor):
    def changes(self, group: Values, rows: Iterable[Values]) -> Iterator[Change]:
        newest = newest_of(rows, 3)
        before = dict(zip(newest, self.slots.get(list(newest)), strict=True))
        changed = {key: row for key, row in newest.items() if row != before[key]}
        self.slots.put(changed)
        for key, row in changed.items():
            yield from difference(before[key], row)


def _upserts(key: Sequence[str], rows: pa.Table) -> pa.Table:
    rows = rows.drop_columns([_BUCKET])
    deleted = rows.column(DELETED).to_pylist()
    if not any(deleted):
        return rows
    keys = list(zip(*(rows.column(name).to_pylist() for name in key), strict=True))
    added = {one for one, is_deleted in zip(keys, deleted, strict=True) if not is_deleted}
    kept: list[Any] = [not gone or one not in added for one, gone in zip(keys, deleted, strict=True)]
    return rows.filter(pa.array(kept, pa.bool_()))
