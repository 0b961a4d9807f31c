"""What Spark gives the writer of a sink: the query, the batch and the partition, in `pyspark.TaskContext.get()`.

`getLocalProperty("sql.streaming.queryId")` is the connector's id and the slot, because batches are counted by slot.
`getLocalProperty("streaming.sql.batchId")` is the batch, `partitionId()` the slot. They are set while `write`, `commit`
and `abort` run; Spark sets them for `write` alone.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.taskcontext import TaskContext

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


def set_batch(query_id: str, batch_id: int) -> None:
    """In a task of Spark: the batch of the connector, in the place of that of Spark's query."""
    context: Any = TaskContext.get()
    context._localProperties.update({QUERY_ID: query_id, BATCH_ID: str(batch_id)})


def set_context(query_id: str, batch_id: int, slot: int) -> None:
    """A process has one task, and pyspark one context for a process."""
    TaskContext(  # type: ignore[no-untyped-call, unused-ignore]
        partitionId=slot,
        stageId=0,
        attemptNumber=0,
        taskAttemptId=batch_id,
        cpus=1,
        resources={},
        localProperties={QUERY_ID: query_id, BATCH_ID: str(batch_id)},
    )
