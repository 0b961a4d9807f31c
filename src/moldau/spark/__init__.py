"""Topics in Apache Spark: the only package that imports pyspark.

`open_session()` gives a SparkSession and needs no installed Java. `register(spark)` adds `format("moldau")` to any
session.

session/: the session, its Java and Python processes, the state of its queries
source/: topics, and other places, as streams
sink/: topics as a sink
frames/: columns and files of DataFrames
definitions/: reads a pipeline that is a Python module
in_words: our errors without Python's traceback
options: options of readers and writers
pipelines: words for pipeline modules next to Spark's
refused_options: options that are rejected, and what to use
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    # the words that products need for what they are given; they do not import pyspark themselves
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
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
    "watch",
]


def by_target_partition(frame: DataFrame, access: ClusterAccess | str, topic: str) -> DataFrame:
    """The rows, distributed so that one task has each partition of `topic` (`sink.target_partitions`)."""
    from moldau.spark.sink import target_partitions

    return target_partitions.by_target_partition(frame, access, topic)


def decoding_format(
    spark: SparkSession, column: str, function: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> str:
    """The name of a format as "moldau", for streams, with the column that `function` makes of the values where they are
    read: see `moldau.spark.source.reading.Decoding`."""
    from moldau.spark.source import reading, source

    return source.decoding_format(spark, reading.Decoding(column, kind, function))


def spark_error() -> tuple[type[Exception], ...]:
    """The classes of what Spark itself raises: for `except spark_error() as error`, without an import of pyspark."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def lacks_type(kind: pa.DataType) -> bool:
    """Whether Spark has no type for columns of Arrow's `kind`."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        from_arrow_type(kind)
    except PySparkException:
        return True
    return False


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


def check_stream(rows: DataFrame, mode: str) -> None:
    """Raises an error of Spark (`spark_error`) for what no streaming query in this output mode can do: what the query's
    start would raise. A Spark Connect server looks for that at the start only."""
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
    """Makes `format("moldau")` known to this session, for reading and writing: see `moldau.spark.source.source`."""
    # pyspark takes a while to import: only a caller pays for it
    from moldau.spark.source import source

    source.register(spark)


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of a Spark Connect server."""
    from moldau.spark.session import connect

    return connect.is_connect(spark)


def watch(spark: SparkSession, *, console: Console | None = None, metrics_port: int | None = None) -> QueryWatch:
    """Watches the session's streaming queries from now on: a table on `console` (where that is no terminal, lines), and
    `http://127.0.0.1:<metrics_port>/metrics` for Prometheus (0: a free port). Close it, or use it as a context manager.

    Raises OSError for a port that is taken, MissingExtraError.
    """
    require_extra("moldau.spark.watch", "spark", ("rich",))
    from moldau.spark.session.query_watch import QueryWatch

    return QueryWatch(spark, console=console, metrics_port=metrics_port)
