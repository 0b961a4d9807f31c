"""Settings of the session when a query over these operators starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # Spark's transformWithState needs it
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    # a batch stores what it changed, and not whole files of RocksDB: a tenth of a second instead of one
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # After an aggregate in the mode update Spark allows no operator that would leave late rows out. These leave none.
    "spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false",
}


@contextmanager
def for_tables(spark: SparkSession) -> Iterator[None]:
    """Start a query over these operators in this context. The query keeps the settings, the session does not."""
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
