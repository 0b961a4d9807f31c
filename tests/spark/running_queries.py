"""The streaming queries that run on a Spark, in all of its sessions."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def active_queries(spark: SparkSession) -> list[Any]:
    """As Java objects: `spark.streams.active` has only those of one session."""
    return list(spark._jsparkSession.sharedState().activeStreamingQueries().values())
