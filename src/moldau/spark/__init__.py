"""Topics in Apache Spark: the one room that imports pyspark.

`open_session()` gives a SparkSession with no Java to install; `register(spark)` makes `format("moldau")` known to any
session.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # the words that products need for what they are given; they do not import pyspark themselves
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.streaming.query import StreamingQuery as StreamingQuery

from moldau.extras import require_extra

require_extra("moldau.spark", "spark", ("numpy", "pyarrow", "pyspark", "pandas"))

from moldau.spark.session import open_session

__all__ = ["expression", "open_session", "register", "spark_error", "spark_loggers"]


def spark_error() -> tuple[type[Exception], ...]:
    """The classes of what Spark itself raises: for `except spark_error() as error`, without an import of pyspark."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def spark_loggers() -> list[logging.Logger]:
    """What Spark's Python side and its bridge to the JVM log with; the first prints JSON lines to the terminal."""
    from pyspark.logger import PySparkLogger

    # made by its own class: logging.getLogger would make one that refuses the arguments that Spark gives it
    own = PySparkLogger.getLogger("SQLQueryContextLogger")
    return [own, logging.getLogger("pyspark"), logging.getLogger("py4j")]


def expression(sql: str) -> Column:
    """A column from SQL."""
    from pyspark.sql.functions import expr

    return expr(sql)


def register(spark: SparkSession) -> None:
    """Makes `format("moldau")` known to this session, for reading and writing."""
    # pyspark takes a while to import: only a caller pays for it
    from moldau.spark import source

    source.register(spark)
