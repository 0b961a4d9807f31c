"""A column that a function makes of another one, some thousand values at a time, in the tasks' Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def with_column(
    frame: DataFrame, name: str, sql: str, function: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> DataFrame:
    """Adds the column `name`, of the Arrow type `kind`: what `function` gives for the column that `sql` says. The
    function travels to the tasks, and is called once for each value, whatever reads the new column."""
    # a deterministic one is put in the place of every mention of the column, and called for each
    made = arrow_udf(function, from_arrow_type(kind), ArrowUDFType.SCALAR).asNondeterministic()
    return frame.withColumn(name, made(expr(sql)))
