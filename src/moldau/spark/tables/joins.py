"""Joins two tables on their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from moldau.spark.tables.buckets import Change, Processor, Side, Values, column, in_buckets
from moldau.spark.tables.newest import difference, newest_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

How = Literal["inner", "left", "right", "full"]


def join(left: Side, right: Side, how: How = "inner") -> DataFrame:
    """The changes of the join of two tables on their keys. Each has, for each table, a struct of its columns with its
    name; null: it has no row of the key. State: the newest rows of each key."""
    return in_buckets(both(left, left.key, right), _Join(how), joined_type(left, right))


def joined_type(left: Side, right: Side) -> StructType:
    """The type of a row of a join."""
    return StructType([StructField(side.name, side.row_type) for side in (left, right)])


def both(left: Side, left_key: tuple[str, ...], right: Side) -> DataFrame:
    """The rows of both tables for a processor: after the columns of `Side.inputs` a struct of the left and one of the
    right table, of which one is null. Keys with a null meet no other, as in SQL."""
    no_left, no_right = (f.lit(None).cast(side.row_type) for side in (left, right))
    lefts = left.rows.select(
        *left.inputs(left_key), _apart(left_key, "left"), left.row().alias("left"), no_right.alias("right")
    )
    rights = right.rows.select(
        *right.inputs(right.key), _apart(right.key, "right"), no_left.alias("left"), right.row().alias("right")
    )
    return lefts.union(rights)


def _apart(key: tuple[str, ...], side: str) -> Column:
    """Makes the keys of this side that have a null differ from those of the other."""
    is_null = reduce(or_, (column(name).isNull() for name in key), f.lit(False))
    return f.when(is_null, f.lit(side)).alias("key_apart")


class _Join(Processor):
    def __init__(self, how: How) -> None:
        self._keeps_left, self._keeps_right = how in ("left", "full"), how in ("right", "full")

    def changes(self, group: Values, rows: Iterable[Values]) -> Iterator[Change]:
        sides: tuple[list[Values], list[Values]] = [], []
        for row in rows:
            sides[row[3] is None].append(row)
        lefts, rights = newest_of(sides[0], 3), newest_of(sides[1], 4)
        keys = list(dict.fromkeys([*lefts, *rights]))
        before = dict(zip(keys, self.slots.get(keys), strict=True))
        changed: dict[bytes, Values | None] = {}
        for key in keys:
            left, right = before[key] or (None, None)
            after = lefts.get(key, left), rights.get(key, right)
            if after != (left, right):
                changed[key] = None if after == (None, None) else after
        self.slots.put(changed)
        for key, pair in changed.items():
            yield from difference(self._joined(before[key]), self._joined(pair))

    def _joined(self, rows: Values | None) -> Values | None:
        left, right = rows or (None, None)
        if (left is None and not self._keeps_right) or (right is None and not self._keeps_left) or rows is None:
            return None
        return rows
