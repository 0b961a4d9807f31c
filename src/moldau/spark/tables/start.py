"""Settings of the session when a query over these operators starts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from moldau.spark.session.settings_during import ROCKSDB, settings_during

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    **ROCKSDB,
    # a batch stores what it changed, and not whole files of RocksDB: a tenth of a second instead of one
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # After an aggregate in the mode update Spark allows no operator that would leave late rows out. These leave none.
    "spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false",
}


def for_tables(spark: SparkSession) -> AbstractContextManager[None]:
    """Start a query over these operators in this context. The query keeps the settings, the session does not."""
    return settings_during(spark, SETTINGS)
