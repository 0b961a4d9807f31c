"""One streaming query of a task: started, watched, stopped. Its checkpoint is a folder that ends with it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.errors import MoldauError
from moldau.spark.queries.query_set import QuerySet, QueryStart
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.sink.checkpoint_offsets import source_ends

if TYPE_CHECKING:
    from moldau.spark import DataFrame, StreamingQuery

LOOK_S: Final = 0.1
STOP_WITHIN_S: Final = 15.0
"""For the batch that is being written at a stop; less than the process has (`moldau.connect.running.process`). Then it
is cut off: its transaction is aborted."""

End = Mapping[str, Any]
"""The offset of the source at the end of a batch."""


class QueryError(MoldauError):
    """The query has failed. The message is Spark's report."""


class Stream:
    """`load`: the rows, from the place that is committed. `write`: a batch, in a thread of Spark. The other methods are
    for one thread."""

    def __init__(self, name: str, load: Callable[[], DataFrame], write: Callable[[DataFrame, End], None]) -> None:
        self._name = name
        self._load = load
        self._write = write
        self._queries = QuerySet()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._has_written = threading.Event()
        self._query: StreamingQuery | None = None
        self._has_looked = False
        self._error: BaseException | None = None

    @property
    def is_open(self) -> bool:
        return self._folder is not None

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="moldau-connector-", ignore_cleanup_errors=True)
        folder = self._folder.name

        def begin() -> StreamingQuery:
            rows = self._load()
            writer = rows.writeStream.foreachBatch(lambda batch, number: self._batch(folder, batch, number))
            self._query = writer.queryName(self._name).option("checkpointLocation", folder).start()
            return self._query

        self._has_looked = False
        self._queries.start(QueryStart(self._name, begin, _Progress(self._name)))

    def look(self) -> None:
        """Raises the error of a batch, and QueryError. The worker starts the task again, so a query is not."""
        self._queries.supervise(also_given_up=False)
        [state] = self._queries.states()
        if self._error is not None:
            raise self._error
        if state.trouble is not None:
            raise QueryError(state.trouble)

    def wait(self, seconds: float) -> bool:
        """Waits for the end of a batch. Returns whether there may be more to write: the query has not found yet that
        its source has nothing new."""
        has_written = self._has_written.wait(seconds)
        self._has_written.clear()
        return has_written or not self._is_idle()

    def _is_idle(self) -> bool:
        if self._query is None or not self._query.isActive:
            return False
        has_data = self._query.status["isDataAvailable"]  # as of the newest look at the source
        self._has_looked = self._has_looked or has_data or self._query.lastProgress is not None
        return self._has_looked and not has_data

    def stop(self) -> None:
        """Returns when the batch that is being written is done or cut off. Does nothing without a query."""
        if self._folder is None:
            return
        urgent_s = time.monotonic() + STOP_WITHIN_S
        self._queries.stop([self._name], lambda: time.monotonic() > urgent_s)
        self._queries.remove(self._name)
        self._folder.cleanup()
        self._folder = self._error = None  # a batch that was cut off has failed by that

    def _batch(self, folder: str, batch: DataFrame, number: int) -> None:
        try:
            self._write(batch, source_ends(folder, number)[0])
        except BaseException as error:
            self._error = error
            raise
        self._has_written.set()


class _Progress:
    """The task counts its records itself."""

    batches = 0
    reaches_clusters = True

    def __init__(self, name: str) -> None:
        self._name = name

    def count(self, running: StreamingQuery) -> None:
        pass

    def look(self, state: str, *, is_last: bool = False) -> SupervisedState:
        return self.state(state)

    def state(self, state: str, *, behind: int | None = None, trouble: str | None = None) -> SupervisedState:
        return SupervisedState(self._name, 0, 0, behind, 0, state, trouble=trouble)

    def reason(self, error: Exception) -> str:
        return str(error)

    def explain(self, text: str) -> str:
        return text

    def begin_search(self, text: str) -> None:
        pass

    def is_searching(self) -> bool:
        return False

    def end_search(self) -> None:
        pass

    def close(self) -> None:
        pass
