"""Distributes rows so that one task writes each target partition of a transaction.

A Python sink cannot ask Spark to distribute its rows, so this helper does it before the sink. Spark cannot compute
Kafka's partition of a record (murmur2 of the key). A step over Arrow columns adds it as the column `partition`, and
`repartitionById` sends equal numbers to one task.
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
    """The rows of `frame`, distributed for a write to `topic` so that each target partition has one task.

    For batches and streams. A frame with a column `key` or `partition` gets a `partition` for each row: the partition
    that the row already names, otherwise that of Kafka's default partitioner for its key, or one chosen by its value.
    Rows of a frame with neither column are not moved: the number of tasks is reduced to that of target partitions, and
    the sink assigns one to each task.

    Uses the current number of partitions; after an increase, a running stream continues with the old number. `access`:
    to the cluster; a text is its bootstrap servers. Raises KafkaError if the topic does not exist or the cluster is
    unreachable.
    """
    with open_client(ClusterAccess.of(access).named(DEFAULT_CLIENT_ID)) as client:
        count = len(client.topic_to_write(topic).partitions)
    return spread(frame, count)


def spread(frame: DataFrame, partition_count: int) -> DataFrame:
    """As `by_target_partition`, for a topic with this number of partitions."""
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
    # on a Spark Connect server, asking for the number of tasks would cost a job in each batch
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


class _Partitions(msgspec.Struct, frozen=True):
    """Adds the column `partition` to Arrow batches, in a task.

    The partition depends only on the row: if the output of a task is lost with an executor, Spark repeats the task,
    perhaps in other batches, while other tasks have already read the first output. For a row without a key, its value
    decides.
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
