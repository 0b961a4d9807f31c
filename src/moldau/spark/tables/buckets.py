"""What the operators share: changes, and rows in buckets of keys.

A change is a row with the column DELETED: true removes the row, with all its columns, that a change before added; false
adds a row. In one micro-batch each key has at most one row that is removed and one that is added, so their order does
not matter: the removal comes first. Spark's SELECT and WHERE keep changes right, if their expressions give the same
result each time; a WHERE that no longer holds leaves a removal alone.

Spark calls a processor for each group of rows, and sends each group as a batch of its own, so a group is a bucket of
keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, BooleanType, Row, StructField, StructType

from moldau.spark.tables.state import Slots

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

DELETED = "_moldau_deleted"
"""The column that marks a removal. Targets of pipelines have the same name for it (`targets/changes.py`)."""

BUCKETS = 256
"""Of keys: the state of a key lies in its bucket, so this number cannot change. At most so many tasks share the work of
an operator."""

Values = tuple[Any, ...]
"""The values of a row, in the order of its columns."""
Change = tuple[Values, bool]
"""A row, and whether it is removed."""

_BUCKET, _GROUP = "_moldau_bucket", "_moldau_group"
_Changed = Row("row", "deleted")
_encode = msgspec.msgpack.Encoder().encode


class Side(msgspec.Struct, frozen=True):
    """One table of an operator. `rows`: its changes, or its changelog: rows with DELETED, of which those that are
    deleted need no values but those of the `key`. `order`: the column that orders the rows of a key in one micro-batch,
    such as the offset; None: they are changes. `name`: of the struct of its columns in the result of a join."""

    rows: DataFrame
    key: tuple[str, ...]
    order: str | None = None
    name: str = "row"

    @property
    def columns(self) -> list[str]:
        """Of the table: all but DELETED and `order`."""
        return [name for name in self.rows.columns if name not in (DELETED, self.order)]

    @property
    def row_type(self) -> StructType:
        """Of the table's rows."""
        return self.rows.select(self.row()).schema["row"].dataType  # type: ignore[return-value]

    def row(self) -> Column:
        """The columns as one struct."""
        return f.struct(*(column(name) for name in self.columns)).alias("row")

    def inputs(self, key: Sequence[str]) -> list[Column]:
        """The columns that every processor gets: the values of the columns `key`, the place in the order, and whether
        the row is removed."""
        keys = [column(name).alias(f"key{place}") for place, name in enumerate(key)]
        order = f.lit(0) if self.order is None else column(self.order)
        deleted = f.coalesce(column(DELETED), f.lit(False)) if DELETED in self.rows.columns else f.lit(False)
        return [*keys, order.cast("bigint").alias("order"), deleted.alias("deleted")]


class Processor(StatefulProcessor):
    """Handles the rows of a bucket. `slots`: its state."""

    slots: Slots

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it once for each task."""
        self.slots = Slots(handle, "rows")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Spark calls it once for each bucket of a micro-batch."""
        for row, deleted in self.changes(key, rows):
            yield _Changed(row, deleted)

    @abstractmethod
    def changes(self, group: Values, rows: Iterable[Values]) -> Iterable[Change]:
        """The changes of the result that `rows` cause. A row has the key, as a dictionary, the order, whether it is
        removed, and the columns that `in_buckets` got after these."""


def in_buckets(rows: DataFrame, processor: Processor, row_type: StructType) -> DataFrame:
    """The changes that the processor makes of the rows. `rows`: with the columns of `Side.inputs`, which are its first.
    `row_type`: of the result's rows."""
    keys = [name for name in rows.columns if name.startswith("key")]
    bucket = f.pmod(f.hash(*(column(name) for name in keys)), f.lit(BUCKETS)) if keys else f.lit(0)
    grouped = rows.select(
        f.struct(*(column(name) for name in keys)).alias("key") if keys else f.struct(f.lit(0)).alias("key"),
        *(column(name) for name in rows.columns if name not in keys),
        bucket.alias(_BUCKET),
        f.lit(None).cast(BinaryType()).alias(_GROUP),
    ).groupBy(_BUCKET, _GROUP)
    result = StructType([StructField("row", row_type), StructField("deleted", BooleanType())])
    made = grouped.transformWithState(processor, result, "Update", "None")
    return made.select("row.*", column("deleted").alias(DELETED))


def bytes_of(key: Iterable[Any]) -> bytes:
    """The same bytes for equal keys, in every process and release."""
    return bytes(_encode(list(key)))


def column(name: str) -> Column:
    """The column of this very name, which may have dots."""
    return f.col("`" + name.replace("`", "``") + "`")
