"""Owns the streaming queries of one Spark session.

It has no thread, handles no signal, and may be used from any thread: its owner calls `supervise` repeatedly. What one
query does never delays another for longer than a look at its cluster takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from moldau.errors import MoldauError
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.queries.supervision import RETRY_FIRST_SECONDS, RETRY_GIVEN_UP_SECONDS, Progress, Supervised

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


LOOKS_AT_ONCE = 5
"""Queries that one call of `supervise` looks at. Each look costs some calls to the JVM and a request to a broker."""


class QueryExistsError(MoldauError):
    """The set has a query of this name."""


class QueryStart(msgspec.Struct, frozen=True):
    """A query before its start. `name`: unique in the set. `start`: starts it in Spark, also after a failure.
    `progress`: closed when the query leaves the set."""

    name: str
    start: Callable[[], StreamingQuery]
    progress: Progress


class QuerySet:
    """Starts, supervises and stops queries; a context manager, which ends them."""

    def __init__(
        self,
        *,
        retry_first_seconds: float = RETRY_FIRST_SECONDS,
        retry_given_up_seconds: float = RETRY_GIVEN_UP_SECONDS,
    ) -> None:
        """`retry_first_seconds`, `retry_given_up_seconds`: the first pause before a failed query is started again, and
        that of one that was given up."""
        self._retry_first_seconds = retry_first_seconds
        self._retry_given_up_seconds = retry_given_up_seconds
        self._lock = threading.Lock()
        """Of the dictionary; never held while Spark or a cluster is asked."""
        self._queries: dict[str, Supervised] = {}
        self._starting: set[str] = set()
        self._next = -1

    def start(self, query: QueryStart) -> None:
        """Starts a query, and closes its progress if that fails. Raises QueryExistsError, and the errors of `start`."""
        with self._lock:
            if query.name in self._queries or query.name in self._starting:
                raise QueryExistsError(f"a query {query.name!r} runs already")
            self._starting.add(query.name)
        try:
            supervised = Supervised(
                query.start, query.progress, self._retry_first_seconds, self._retry_given_up_seconds
            )
            with self._lock:
                self._queries[query.name] = supervised
        except BaseException:
            query.progress.close()
            raise
        finally:
            with self._lock:
                self._starting.discard(query.name)

    def wait_until_reading(self, name: str) -> None:
        """See `Supervised.wait_until_reading`."""
        self._of([name])[0].wait_until_reading()

    def supervise(self, *, also_given_up: bool) -> None:
        """Updates the states, and starts failed queries again when that is due: of LOOKS_AT_ONCE queries, in turn.
        `also_given_up`: even those that were given up."""
        queries = self._of(None)
        for _ in range(min(len(queries), LOOKS_AT_ONCE)):
            self._next = (self._next + 1) % len(queries)
            queries[self._next].supervise(also_given_up=also_given_up)

    def states(self, names: Collection[str] | None = None) -> list[SupervisedState]:
        """The newest states, of all queries or of those, in the order of their start."""
        return [query.state for query in self._of(names)]

    def errors(self, names: Collection[str] | None = None) -> list[str | None]:
        """Why each of these queries was given up; None if it was not."""
        return [query.error for query in self._of(names)]

    def has_kept(self, names: Collection[str] | None = None) -> bool:
        """Whether one of these queries is neither over nor given up."""
        return any(query.is_kept for query in self._of(names))

    def end_searches(self, names: Collection[str] | None = None) -> None:
        """Stops the searches for records that fail."""
        for query in self._of(names):
            query.end_search()

    def stop(self, names: Collection[str] | None, is_urgent: Callable[[], bool]) -> list[SupervisedState]:
        """Stops queries, each after the batch that is being written, unless `is_urgent`; returns their last states.
        They stay in the set until `remove`."""
        return [query.stop(is_urgent) for query in self._of(names)]

    def remove(self, name: str) -> bool:
        """Ends a query in any state, and forgets it; returns whether it has ended. One that cannot be stopped runs on
        in Spark until the process ends."""
        with self._lock:
            query = self._queries.pop(name, None)
        return query is None or query.end()

    def close(self) -> None:
        for query in reversed(self._of(None)):
            query.end()
        with self._lock:
            self._queries.clear()

    def __enter__(self) -> QuerySet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of(self, names: Collection[str] | None) -> list[Supervised]:
        with self._lock:
            return [query for name, query in self._queries.items() if names is None or name in names]
