"""Computes columns in Python in the tasks, thousands of values at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa  # Spark reads the type hints of a function
from pyspark.sql.functions import expr
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from moldau.columnar.texts import valid_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_column(
    frame: DataFrame, name: str, sql: str, function: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> DataFrame:
    """Adds the column `name`, of the Arrow type `kind`: the result of `function` for the SQL `sql`. The function is
    sent to the tasks, and is called once for each value, however often the new column is read. It gets texts as valid
    UTF-8: other bytes are replaced."""

    def made(values: pa.Array) -> pa.Array:
        return function(valid_texts(values))

    # Spark would inline a deterministic function at every use of the column, and call it for each
    user_function = arrow_udf(made, from_arrow_type(kind)).asNondeterministic()  # type: ignore[call-overload]
    return frame.withColumn(name, user_function(expr(sql)))


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], columns: str
) -> DataFrame:
    """`DataFrame.mapInArrow` for columns of any name: Spark looks up each column by name, where a dot would mean a
    field of a struct."""
    numbered = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    return numbered.mapInArrow(partial(_named, function, frame.columns), columns)


def _named(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    names: Sequence[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    return function(batch.rename_columns(list(names)) for batch in batches)
