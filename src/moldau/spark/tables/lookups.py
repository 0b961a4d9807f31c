"""Joins the rows of a stream with a table as it is when they are processed.

State: the newest row of each key of the table. A row of the stream is joined once: a later change of the table does not
change its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from moldau.spark.tables.buckets import DELETED, Change, Processor, Side, Values, bytes_of, in_buckets
from moldau.spark.tables.joins import both, joined_type
from moldau.spark.tables.newest import newest_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def look_up(stream: Side, table: Side, how: Literal["inner", "left"] = "inner") -> DataFrame:
    """The stream's rows, each with the row of its key in the table, after the micro-batch's changes of the table: two
    structs with the names of the sides. `stream.key`: its columns that hold the key of the table."""
    joined = in_buckets(both(stream, stream.key, table), _LookUp(how), joined_type(stream, table))
    return joined.drop(DELETED)


class _LookUp(Processor):
    def __init__(self, how: Literal["inner", "left"]) -> None:
        self._keeps_left = how == "left"

    def changes(self, group: Values, rows: Iterable[Values]) -> Iterator[Change]:
        sides: tuple[list[Values], list[Values]] = [], []
        for row in rows:
            sides[row[3] is None].append(row)
        changed = newest_of(sides[1], 4)
        self.slots.put(changed)
        looked_up = [bytes_of(row[0].values()) for row in sides[0]]
        others = list(dict.fromkeys(key for key in looked_up if key not in changed))
        table = changed | dict(zip(others, self.slots.get(others), strict=True))
        for key, row in zip(looked_up, sides[0], strict=True):
            if self._keeps_left or table[key] is not None:
                yield (tuple(row[3].values()), table[key]), False
