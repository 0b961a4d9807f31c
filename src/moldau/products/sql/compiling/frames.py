"""The rows of a planned query as a DataFrame.

The session has a view for each relation that the query reads, named by `plan.rows_view`, with its columns, those of
PSEUDO_COLUMNS, and for a table of a live query DELETED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.over_tables import frame_over_tables
from moldau.products.sql.compiling.plan import QueryPlan, rows_view
from moldau.products.sql.compiling.select_text import HOLDS
from moldau.products.sql.compiling.spark_text import sql_frame
from moldau.products.sql.records.layout import EVENT_TIME, PSEUDO_COLUMNS, names_of
from moldau.spark.tables.aggregates import having

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession


def make_frame(spark: SparkSession, plan: QueryPlan, writing: Writing) -> DataFrame:
    """The result's columns; besides them EVENT_TIME where the rows have a time, and DELETED if they are changes. Raises
    SqlError, at the place of the statement that Spark does not take."""
    for relation in plan.reads:
        rows = spark.table(quoted(rows_view(relation)))
        plain = rows.select(*map(quoted, names_of(relation.columns or ())))
        plain.createOrReplaceTempView(quoted(relation.name))
    if plan.text is not None:
        frame = sql_frame(spark, plan.text, writing)
    elif plan.select is not None:
        frame = frame_over_tables(spark, plan, plan.select, writing)
    else:
        raise TypeError(plan)
    if plan.deletes:
        frame = having(frame, plan.key, HOLDS).drop(HOLDS)
    kept = {one.name.lower() for one in plan.outputs}
    needless = [name for name in PSEUDO_COLUMNS if name != EVENT_TIME and name.lower() not in kept]
    return frame.drop(*needless) if plan.outputs else frame
