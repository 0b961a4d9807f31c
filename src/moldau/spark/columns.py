"""A column that a function makes of another one, some thousand values at a time, in the tasks' Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa  # Spark reads the hints of a function's types
from pyspark.sql.functions import expr
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_column(
    frame: DataFrame, name: str, sql: str, function: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> DataFrame:
    """Adds the column `name`, of the Arrow type `kind`: what `function` gives for the column that `sql` says. The
    function travels to the tasks, and is called once for each value, whatever reads the new column."""

    def made(values: pa.Array) -> pa.Array:
        return function(values)

    # a deterministic one is put in the place of every mention of the column, and called for each
    user_function = arrow_udf(made, from_arrow_type(kind)).asNondeterministic()  # type: ignore[call-overload]
    return frame.withColumn(name, user_function(expr(sql)))
