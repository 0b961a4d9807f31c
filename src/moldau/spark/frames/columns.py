"""Computes columns in Python in the tasks, thousands of values at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa  # Spark reads the hints of a function's types
from pyspark.sql.functions import expr
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from moldau.columnar.texts import valid_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_column(
    frame: DataFrame, name: str, sql: str, function: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> DataFrame:
    """Adds the column `name`, of the Arrow type `kind`: what `function` gives for the column that `sql` says. The
    function travels to the tasks, and is called once for each value, whatever reads the new column. Texts that it gets
    are UTF-8: other bytes in them are replaced."""

    def made(values: pa.Array) -> pa.Array:
        return function(valid_texts(values))

    # a deterministic one is put in the place of every mention of the column, and called for each
    user_function = arrow_udf(made, from_arrow_type(kind)).asNondeterministic()  # type: ignore[call-overload]
    return frame.withColumn(name, user_function(expr(sql)))


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], columns: str
) -> DataFrame:
    """`DataFrame.mapInArrow` of a frame whose columns have any names: Spark looks for each column by its name, in which
    it takes a dot for a field of a struct."""
    numbered = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    return numbered.mapInArrow(partial(_named, function, frame.columns), columns)


def _named(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    names: Sequence[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    return function(batch.rename_columns(list(names)) for batch in batches)
