"""Which batch a sink writes: what Spark, and the light task, tell the tasks that write."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.taskcontext import TaskContext

from moldau.connect.running.contexts import BATCH_ID, QUERY_ID


class WrittenBatch(NamedTuple):
    """The same when the batch is repeated. `query`: the connector and the slot, or the query of Spark. `part`: the
    partition of Spark."""

    query: str
    batch: int
    part: int


def written_batch() -> WrittenBatch | None:
    """In `write`. None outside of a streaming query."""
    context = TaskContext.get()
    query = batch = None
    if context is not None:
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if context is None or query is None or batch is None:
        return None
    return WrittenBatch(query, int(batch), context.partitionId())
