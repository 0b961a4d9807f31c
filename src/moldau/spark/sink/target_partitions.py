"""Distributes rows so that one task writes each target partition of a transaction.

A Python sink cannot ask Spark for a distribution of its rows: a helper before the sink does. Which partition a record
belongs to is Kafka's own choice (murmur2 of the key), which Spark cannot compute: a step over Arrow columns adds it as
the column `partition`, and `repartitionById` brings equal numbers to one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.encode import binary_column
from moldau.columnar.partitioner import partitions_of_keys
from moldau.columnar.varints import IntArray
from moldau.spark.options import DEFAULT_CLIENT_ID, OptionError
from moldau.spark.session.connect import is_connect
from moldau.transport.access import open_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = "partition"


def by_target_partition(frame: DataFrame, access: ClusterAccess | str, topic: str) -> DataFrame:
    """The rows of `frame`, which are to be written to `topic`, so distributed that each target partition has one task.

    For batches and for streams. A result with a column `key` or `partition` gets a `partition` for each row: a
    partition that a row names already stays, and any other row goes where Kafka's default partitioner sends its key, or
    where its value decides. Rows of a result with neither are not moved: there are only as many tasks as target
    partitions afterwards, and the sink gives each task its own.

    The number of partitions is that of now: after it has been raised, a running stream goes on with the old number.
    `access`: how the cluster is reached; a text is the bootstrap servers. Raises KafkaError where the topic or the
    cluster is not there.
    """
    with open_client(ClusterAccess.of(access).named(DEFAULT_CLIENT_ID)) as client:
        count = len(client.topic_to_write(topic).partitions)
    return spread(frame, count)


def spread(frame: DataFrame, partition_count: int) -> DataFrame:
    """As `by_target_partition`, of a topic of so many partitions."""
    types = dict(frame.dtypes)
    if "topic" in types:
        raise OptionError("the rows have a column 'topic': give each topic's rows to by_target_partition on their own")
    if partition_count == 1 or ("key" not in types and PARTITION not in types):
        return frame.coalesce(partition_count)
    columns = [f"{name} {kind}" for name, kind in types.items() if name != PARTITION]
    frame = frame.mapInArrow(_Partitions(partition_count), ", ".join([*columns, f"{PARTITION} int"]))
    return frame.repartitionById(min(partition_count, tasks_of(frame.sparkSession)), PARTITION)


def tasks_of(spark: SparkSession) -> int:
    """How many tasks run at once."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    # to ask a Spark Connect server how many tasks it runs at once would cost a job in each batch
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


class _Partitions(msgspec.Struct, frozen=True):
    """Adds the column `partition` to Arrow batches, in a task.

    It depends on the row alone: Spark runs a task again whose output was lost with an executor, perhaps in other
    batches and beside tasks that have read the first output already. Where a row has no key, its value decides.
    """

    partition_count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self._add, batches)

    def _add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        partitions: IntArray = np.full(batch.num_rows, -1, dtype=np.int64)
        if "key" in batch.schema.names:
            partitions = partitions_of_keys(binary_column(batch, "key"), self.partition_count)
        keyless = np.flatnonzero(partitions < 0)
        if keyless.size:
            values = binary_column(batch, "value").take(pa.array(keyless)).to_pylist()
            partitions[keyless] = [crc32(value or b"") % self.partition_count for value in values]
        column = pa.array(partitions, pa.int32())
        if PARTITION in batch.schema.names:
            column = pc.coalesce(batch.column(PARTITION).cast(pa.int32()), column)
        others = [name for name in batch.schema.names if name != PARTITION]
        return pa.RecordBatch.from_arrays([*(batch.column(name) for name in others), column], [*others, PARTITION])
