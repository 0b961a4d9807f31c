"""Writes the batches of a query to its target, in the driver or on a Spark Connect server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.products.pipelines.checkpoints.lease import WriterLease
from moldau.products.pipelines.core.patience import patient_until
from moldau.products.pipelines.targets.target import Target, TargetQuery
from moldau.spark import spark_error

if TYPE_CHECKING:
    from moldau.spark import DataFrame

logger = logging.getLogger("moldau.pipelines")

WRITE_ATTEMPTS = 3
"""The most attempts to write one batch if a task or an executor is lost; then the query ends with the reason."""

_MAY_PASS = ("BatchAbortedError", "ExecutorLostFailure", "FetchFailed", "Python worker exited unexpectedly")
"""Parts of Spark's report of such a loss."""


class BatchWriter:
    """Writes in this process. `may_start` is called before a batch writes its first record, and raises to stop the
    query. `is_cut`: whether a batch stops waiting for an unavailable target."""

    def __init__(
        self,
        target: Target,
        query: TargetQuery,
        may_start: Callable[[], None],
        is_cut: Callable[[], bool] = lambda: False,
    ) -> None:
        """Raises MoldauError."""
        self._write = target.writer(query)
        self._query = query
        self._may_start = may_start
        self._is_cut = is_cut

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            self._may_start()
            try:
                with patient_until(self._is_cut):
                    self._write(batch, batch_id)
                return
            except spark_error() as error:
                if attempt == WRITE_ATTEMPTS or not any(reason in str(error) for reason in _MAY_PASS):
                    raise
                logger.warning("batch %d of %s is written again: %s", batch_id, self._query.pipeline, error)


class ServedBatchWriter:
    """Sent to the process that a Spark Connect server starts for one run of a query, and writes there. Holds only plain
    values until the first batch. `token`: of the driver's lease on the query's checkpoint."""

    def __init__(self, target: Target, query: TargetQuery, token: str) -> None:
        self._target = target
        self._query = query
        self._token = token
        self._writer: BatchWriter | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if self._writer is None:
            lease = WriterLease(self._query.checkpoint, self._token)
            self._writer = BatchWriter(self._target, self._query, lease.check)
        self._writer(batch, batch_id)
