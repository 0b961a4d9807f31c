"""Sessions with views and settings of their own, on the same Spark: two queries may name their views alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.spark.session import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_namespace(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """`settings`: those that can change at run time take effect in it. A session of a Spark Connect server is its own
    namespace already, and is returned."""
    from moldau.spark.source.source import register

    if connect.is_connect(spark):
        return spark
    own = spark.newSession()
    register(own)
    for name, value in (settings or {}).items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own
