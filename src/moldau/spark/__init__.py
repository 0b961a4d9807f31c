"""Topics in Apache Spark: the only package that imports pyspark.

`open_session()` returns a SparkSession and needs no installed Java. `register(spark)` adds `format("moldau")` to any
session.

queries/: the queries of a session: started, supervised, stopped
session/: the session, its Java and Python processes, the state of its queries
source/: topics, and other places, as streams
sink/: topics as a sink
frames/: columns and files of DataFrames
definitions/: reads a pipeline that is a Python module
tables/: operators over tables that change
in_words: our errors without Python's traceback
options: options of readers and writers
pipelines: the functions `pipeline` and `source` for pipeline modules
refused_options: options that are rejected, and what to use
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    # the names that products need for frames and sessions; they do not import pyspark themselves
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.datasource import DataSource as DataSource
    from pyspark.sql.streaming.query import StreamingQuery as StreamingQuery
    from pyspark.sql.types import StructType as StructType
    from rich.console import Console

    from moldau.client.protocol.access import ClusterAccess
    from moldau.spark.session.query_watch import QueryWatch

from moldau.extras import require_extra

require_extra("moldau.spark", "spark", ("numpy", "pyarrow", "pyspark", "pandas"))

from moldau.spark.session.session import QUICK_START, available_cores, open_session

__all__ = [
    "QUICK_START",
    "available_cores",
    "by_target_partition",
    "check_stream",
    "decoding_format",
    "expression",
    "is_connect",
    "lacks_type",
    "open_session",
    "register",
    "spark_error",
    "spark_loggers",
    "spark_type",
    "watch",
]


def by_target_partition(frame: DataFrame, access: ClusterAccess | str, topic: str) -> DataFrame:
    """The rows, distributed so that each partition of `topic` has one task (`sink.target_partitions`)."""
    from moldau.spark.sink import target_partitions

    return target_partitions.by_target_partition(frame, access, topic)


def decoding_format(
    spark: SparkSession, column: str, function: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> str:
    """The name of a streaming format like "moldau", with an additional column that `function` computes from the values
    in the tasks that read them: see `moldau.spark.source.reading.Decoding`."""
    from moldau.spark.source import reading, source

    return source.decoding_format(spark, reading.Decoding(column, kind, function))


def spark_error() -> tuple[type[Exception], ...]:
    """The classes of Spark's own errors: for `except spark_error() as error`, without an import of pyspark."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def lacks_type(kind: pa.DataType) -> bool:
    """Whether Spark has no column type for Arrow's `kind`."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        from_arrow_type(kind)
    except PySparkException:
        return True
    return False


def spark_type(kind: pa.DataType) -> str:
    """The name of Spark's column type for Arrow's `kind`, as in DDL."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind).simpleString()


def spark_loggers() -> list[logging.Logger]:
    """The loggers of Spark's Python side and its bridge to the JVM; the first prints JSON lines to the terminal."""
    from pyspark.logger import PySparkLogger

    # created by its own class, because logging.getLogger's would reject the arguments that Spark passes
    own = PySparkLogger.getLogger("SQLQueryContextLogger")
    return [own, logging.getLogger("pyspark"), logging.getLogger("py4j")]


def expression(sql: str) -> Column:
    """A column from SQL."""
    from pyspark.sql.functions import expr

    return expr(sql)


def check_stream(rows: DataFrame, mode: str) -> None:
    """Raises Spark's error (`spark_error`) for operations that a streaming query in this output mode does not support,
    as the query's start would. A Spark Connect server checks that only at the start."""
    if is_connect(rows.sparkSession):
        return
    rows.writeStream.outputMode(mode)
    is_checked = str(rows.sparkSession.conf.get("spark.sql.streaming.unsupportedOperationCheck"))
    if is_checked.strip().lower() == "false":
        return
    jvm: Any = rows.sparkSession._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
        rows._jdf.queryExecution().analyzed(), {"append": modes.Append, "update": modes.Update}[mode]()
    )


def register(spark: SparkSession) -> None:
    """Adds `format("moldau")` to this session, for reading and writing: see `moldau.spark.source.source`."""
    # the import of pyspark takes a while, so only callers pay for it
    from moldau.spark.source import source

    source.register(spark)


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of a Spark Connect server."""
    from moldau.spark.session import connect

    return connect.is_connect(spark)


def watch(spark: SparkSession, *, console: Console | None = None, metrics_port: int | None = None) -> QueryWatch:
    """Watches the session's streaming queries from now on: a table on `console` (lines if it is not a terminal), and
    `http://127.0.0.1:<metrics_port>/metrics` for Prometheus (0: a free port). Close it, or use it as a context manager.

    Raises OSError if the port is taken, and MissingExtraError.
    """
    require_extra("moldau.spark.watch", "spark", ("rich",))
    from moldau.spark.session.query_watch import QueryWatch

    return QueryWatch(spark, console=console, metrics_port=metrics_port)
