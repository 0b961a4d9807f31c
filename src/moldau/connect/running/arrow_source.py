"""The output of a source that gives record batches of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.running.arrow import keep_pandas_out
from moldau.connect.running.arrow_path import access_of
from moldau.connect.running.arrow_transactions import ArrowTransactions
from moldau.connect.running.clients import COMPRESSION, PRODUCER_OVERRIDES, overrides
from moldau.connect.running.memory import check_memory
from moldau.connect.running.output import Sent
from moldau.connect.running.protocol import Task
from moldau.connect.running.transactions import StoppedError


class ArrowOutput:
    def __init__(self, task: Task, memory_mb: int, is_stopping: Callable[[], bool]) -> None:
        keep_pandas_out()
        self._offsets_topic = task.offsets_topic
        self._memory_mb = memory_mb
        self._is_stopping = is_stopping
        compression = overrides(task.config, PRODUCER_OVERRIDES).get(COMPRESSION, "none")
        self._transactions = ArrowTransactions(access_of(task), task.transactional_id, compression, is_stopping)

    def start(self) -> None:
        self._transactions.start()

    def write(self, rows: Iterator[pa.RecordBatch]) -> Sent:
        sent = Sent()
        self._transactions.begin()
        for batch in rows:
            check_memory(self._memory_mb)
            if self._is_stopping():
                raise StoppedError("stopped in mid-batch")
            self._transactions.write(batch)
            size = pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
            sent.count(batch.num_rows, size, batch.column("topic").unique().to_pylist())
        return sent

    def commit(self, key: bytes, place: bytes) -> None:
        self._transactions.send(self._offsets_topic, place, key)
        self._transactions.commit()

    def close(self) -> None:
        """Ends an open transaction."""
        try:
            self._transactions.abort()
        finally:
            self._transactions.close()
