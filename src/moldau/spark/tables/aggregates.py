"""Aggregates of a table or a stream by other columns than its key.

State: for each group that has rows, their number and the state of each aggregate (`totals`). Count, sum and avg need a
few numbers. Min, max, collect_list, collect_set and count_distinct of a table need the different values of the group
with the number of each: such a group is read and written as a whole in each micro-batch that changes it.

A HAVING is a WHERE over the changes: when it no longer holds, only the removal of the group's old row is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DecimalType, DoubleType, LongType, MapType, StructType

from moldau.errors import MoldauError
from moldau.spark.tables.buckets import DELETED, Change, Processor, Side, Values, bytes_of, column, in_buckets
from moldau.spark.tables.newest import difference, newest
from moldau.spark.tables.totals import Count, Distinct, Extreme, Sum, Total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Kind = Literal["count", "sum", "avg", "min", "max", "count_distinct", "collect_list", "collect_set"]


class AggregateError(MoldauError):
    """An aggregate has no meaning for its column. The message says what to write instead."""


class Aggregate(msgspec.Struct, frozen=True):
    """A column of the result, `name`. `column`: the one whose values it aggregates; None: all rows (`count(*)`)."""

    kind: Kind
    column: str | None
    name: str

    def native(self) -> Column:
        """Spark's own aggregate, for its type."""
        values = f.lit(1) if self.column is None else column(self.column)
        return getattr(f, self.kind)(values).alias(self.name)  # type: ignore[no-any-return]


def aggregate(rows: DataFrame, by: Sequence[str], aggregates: Sequence[Aggregate]) -> DataFrame:
    """The changes of the aggregate: the columns `by`, which are their key, and one of each aggregate. `rows`: changes;
    without DELETED a stream, whose groups stay. With `by` empty, the one row stays even if no row is left, as in SQL;
    before the first row comes, it is missing. Raises AggregateError."""
    kinds = {name: field.dataType for name, field in zip(rows.columns, rows.schema, strict=True)}
    row_type = _row_type(rows, by, aggregates)
    is_stream = DELETED not in rows.columns
    totals = [
        _total(one, kinds[one.column] if one.column else None, row_type[one.name].dataType, is_stream=is_stream)
        for one in aggregates
    ]
    values = [f.lit(True) if one.column is None else column(one.column) for one in aggregates] or [f.lit(True)]
    named = f.struct(*(value.alias(f"value{place}") for place, value in enumerate(values)))
    grouped = rows.select(*Side(rows, tuple(by)).inputs(by), named.alias("values"))
    return in_buckets(grouped, _Aggregate(totals, is_whole=not by), row_type)


def having(groups: DataFrame, by: Sequence[str], condition: str) -> DataFrame:
    """The changes of the groups of a stream for which the SQL `condition` holds, for aggregates that `aggregate` does
    not have. `groups`: Spark's own aggregate by the columns `by`, in a query in the mode update. State: the groups for
    which it holds, next to that of Spark's aggregate."""
    holds = f.coalesce(f.expr(condition), f.lit(False))
    return newest(Side(groups.withColumn(DELETED, ~holds), tuple(by)))


class _Aggregate(Processor):
    """`is_whole`: there is one group, of all rows."""

    def __init__(self, totals: Sequence[Total], *, is_whole: bool) -> None:
        self._totals = tuple(totals)
        self._is_whole = is_whole

    def changes(self, group: Values, rows: Iterable[Values]) -> Iterator[Change]:
        by: dict[bytes, Values] = {}
        entered: dict[bytes, list[tuple[int, Values]]] = {}
        for row in rows:
            key = bytes_of(row[0].values())
            by.setdefault(key, () if self._is_whole else tuple(row[0].values()))
            entered.setdefault(key, []).append((-1 if row[2] else 1, tuple(row[3].values())))
        changed = {}
        for key, state in zip(by, self.slots.get(list(by)), strict=True):
            before = None if state is None else self._row(by[key], state)
            after = self._after(state, entered[key])
            changed[key] = after
            yield from difference(before, None if after is None else self._row(by[key], after))
        self.slots.put(changed)

    def _after(self, state: Any, entered: Iterable[tuple[int, Values]]) -> Any:
        """The number of rows, and the states of the aggregates; None: the group is empty."""
        count, states = state or (0, [total.empty() for total in self._totals])
        for sign, values in entered:
            count += sign
            states = [
                total.changed(one, value, sign) for total, one, value in zip(self._totals, states, values, strict=False)
            ]
        return (count, states) if count or self._is_whole else None

    def _row(self, by: Values, state: Any) -> Values:
        return (*by, *(total.result(one) for total, one in zip(self._totals, state[1], strict=True)))


def _row_type(rows: DataFrame, by: Sequence[str], aggregates: Sequence[Aggregate]) -> StructType:
    """Of the result, from Spark's own aggregates over no rows."""
    none = rows.sparkSession.createDataFrame([], rows.schema).groupBy(*map(column, by))
    return none.agg(*(one.native() for one in aggregates)).schema if aggregates else none.count().drop("count").schema


def _total(one: Aggregate, kind: DataType | None, result: DataType, *, is_stream: bool) -> Total:
    """Raises AggregateError."""
    if isinstance(kind, ArrayType | MapType | StructType) and one.kind != "count":
        raise AggregateError(
            f"{one.kind}({one.column}) is not kept over changes for the type {kind.simpleString()}: "
            "aggregate a plain value, such as a field, or `to_json` of it"
        )
    match one.kind:
        case "count":
            return Count()
        case "sum" | "avg":
            if not isinstance(result, LongType | DoubleType | DecimalType):
                raise AggregateError(f"{one.kind}({one.column}) is kept over changes for numbers only: cast it to one")
            return Sum(result, is_average=one.kind == "avg")
        case "min" | "max" if is_stream:
            return Extreme(is_greatest=one.kind == "max")
        case _:
            return Distinct(one.kind)
