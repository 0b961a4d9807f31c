"""The rows of a planned query as a DataFrame.

The session has a view for each relation that the query reads, named by `plan.rows_view`, with its columns and HIDDEN,
and for a table of a live query with the column DELETED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.compiling.composed import Composed
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.over_tables import frame_over_tables
from moldau.products.sql.compiling.plan import HOLDS, QueryPlan, rows_view
from moldau.products.sql.compiling.scope import EVENT_TIME, HIDDEN, names_of
from moldau.spark import spark_error
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
    needless = [name for name in HIDDEN if name != EVENT_TIME and name.lower() not in kept]
    return frame.drop(*needless) if plan.outputs else frame


def sql_frame(spark: SparkSession, text: Composed, writing: Writing) -> DataFrame:
    """Raises SqlError."""
    try:
        return spark.sql(text.text)
    except spark_error() as error:
        raise text.error(writing.source, str(error)) from error
