"""Sessions with views and settings of their own, on the same Spark: two queries may name their views alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moldau.spark.session import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_namespace(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """`settings`: those that can change at run time take effect in it. A session of a Spark Connect server is its own
    namespace already, and is returned."""
    if connect.is_connect(spark):
        return spark
    own = spark.newSession()
    _register(own)
    for name, value in (settings or {}).items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


def copy_namespace(spark: SparkSession) -> SparkSession:
    """A session with the views, functions and settings that this one has now. Not for a Spark Connect server."""
    copied: Any = spark._jsparkSession
    own = type(spark)(spark.sparkContext, copied.cloneSession())
    _register(own)
    return own


@contextmanager
def as_active(spark: SparkSession) -> Iterator[None]:
    """Makes it the session in which the JVM looks for formats, in this thread. Another one may have made itself that:
    `createDataFrame` does so."""
    if connect.is_connect(spark):
        yield
        return
    sessions: Any = type(spark)._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _register(own: SparkSession) -> None:
    from moldau.spark.source.source import register

    with as_active(own):  # else Spark finds the format of the active session, and registers none
        register(own)
