"""Joins two tables where columns of the left one hold the key of the right one (a foreign key).

State, by the right key: the right row, and each left row that refers to it. A left row that moves from one right key to
another is removed at the one and added at the other. Both are changes of the same micro-batch, in which order does not
matter (`buckets`), so the addition wins at the target: no sequence number is needed, as it would be with an operator
that sends on one record after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as f

from moldau.spark.tables.buckets import DELETED, Change, Processor, Side, Values, bytes_of, column, in_buckets
from moldau.spark.tables.joins import both, joined_type
from moldau.spark.tables.newest import as_changes, newest_of
from moldau.spark.tables.state import Slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


def join_by_reference(
    left: Side, reference: tuple[str, ...], right: Side, how: Literal["inner", "left"] = "inner"
) -> DataFrame:
    """The changes of the join, as `joins.join` gives them; their key is that of the left table. `reference`: the
    columns of the left table that hold the key of the right one; a row with a null there refers to none."""
    left = as_changes(left)
    row_type = joined_type(left, right)
    refers = f.lit(True)
    for name in reference:
        refers = refers & column(name).isNotNull()
    referring = Side(left.rows.where(refers), left.key, name=left.name)
    own_key = [left.columns.index(name) for name in left.key]
    joined = in_buckets(both(referring, reference, right), _Join(own_key, how), row_type)
    if how == "inner":
        return joined
    alone = left.rows.where(~refers).select(
        left.row().alias(left.name), f.lit(None).cast(right.row_type).alias(right.name), column(DELETED)
    )
    return joined.union(alone)


class _Join(Processor):
    """`own_key`: the places of the left table's key in its row."""

    lefts: Slots

    def __init__(self, own_key: Sequence[int], how: Literal["inner", "left"]) -> None:
        self._own_key = tuple(own_key)
        self._keeps_left = how == "left"

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self.lefts = Slots(handle, "lefts")

    def changes(self, group: Values, rows: Iterable[Values]) -> Iterator[Change]:
        lefts: dict[bytes, list[Values]] = {}
        rights: list[Values] = []
        for row in rows:
            if row[3] is None:
                rights.append(row)
            else:
                lefts.setdefault(bytes_of(row[0].values()), []).append(row)
        newest = newest_of(rights, 4)
        keys = list(dict.fromkeys([*lefts, *newest]))
        before = dict(zip(keys, self.slots.get(keys), strict=True))
        changed = {key: right for key, right in newest.items() if right != before[key]}
        # every pair of a right row that changes is another pair
        pairs = dict(zip(changed, self.lefts.all_in([(group[0], key) for key in changed]), strict=True))
        left_changes = {}
        for key in keys:
            removed, added = self._by_own_key(lefts.get(key, ()))
            old, new = removed, added
            if key in changed:
                old = pairs.pop(key)
                new = {one: left for one, left in old.items() if one not in removed} | added
            yield from self._pairs(old, before[key], is_removed=True)
            yield from self._pairs(new, changed.get(key, before[key]), is_removed=False)
            left_changes[group[0], key] = dict.fromkeys(removed) | added
        self.lefts.put_in(left_changes)
        self.slots.put_in({group: changed})

    def _by_own_key(self, rows: Iterable[Values]) -> tuple[dict[bytes, Values], dict[bytes, Values]]:
        """The left rows that are removed, and those that are added."""
        removed: dict[bytes, Values] = {}
        added: dict[bytes, Values] = {}
        for row in rows:
            left = tuple(row[3].values())
            (removed if row[2] else added)[bytes_of(left[place] for place in self._own_key)] = left
        return removed, added

    def _pairs(self, lefts: dict[bytes, Values], right: Values | None, *, is_removed: bool) -> Iterator[Change]:
        if right is not None or self._keeps_left:
            yield from (((left, right), is_removed) for left in lefts.values())
