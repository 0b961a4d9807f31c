"""A text of a statement, run by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.sql.compiling.composed import Composed
from moldau.products.sql.compiling.expressions import Writing
from moldau.spark import spark_error

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession


def sql_frame(spark: SparkSession, text: Composed, writing: Writing) -> DataFrame:
    """Raises SqlError, at the place of the statement that Spark does not take."""
    try:
        return spark.sql(text.text)
    except spark_error() as error:
        raise text.error(writing.source, str(error)) from error
