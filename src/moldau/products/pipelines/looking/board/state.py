"""The state of a run, which the runner updates several times a second."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from moldau.products.pipelines.running.progress import slowest_first
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.service.look.history import History, Series
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import QueryState

SAMPLE_EVERY_S = 2.0
MOST_ERRORS = 20


class Trouble(msgspec.Struct, frozen=True):
    """The reason why a query does not proceed. `since_s`: wall-clock time."""

    query: str
    since_s: float
    reason: str


class BoardState:
    """The current state, shared between threads: the runner writes, the board's pages read."""

    def __init__(self, spec: PipelineSpec) -> None:
        self.spec = spec
        self.began_s = time.time()
        self._lock = threading.Condition()
        self._version = 0
        self._is_closed = False
        self._states: tuple[SupervisedState, ...] = ()
        self._troubles: deque[Trouble] = deque(maxlen=MOST_ERRORS)
        self._history = History()
        self._sampled_s = float("-inf")

    def note(self, states: Sequence[SupervisedState]) -> None:
        """Sets the queries' current states. Wakes waiting readers at most once in SAMPLE_EVERY_S, or when trouble
        begins."""
        now = time.monotonic()
        with self._lock:
            before = {state.name: state.trouble for state in self._states}
            new = [state for state in states if state.trouble is not None and before.get(state.name) is None]
            self._troubles.extend(Trouble(state.name, time.time(), state.trouble or "") for state in new)
            self._states = tuple(states)
            if new or now - self._sampled_s >= SAMPLE_EVERY_S:
                self._sampled_s = now
                self._history.add(now, _samples(states))
                self._version += 1
                self._lock.notify_all()

    def queries(self) -> list[SupervisedState]:
        """The slowest first."""
        with self._lock:
            return slowest_first(self._states)

    def reports(self) -> list[QueryState]:
        """Of the queries with a report from Spark, in the order of the pipeline file."""
        with self._lock:
            return [_as_it_is_now(state, state.report) for state in self._states if state.report is not None]

    def troubles(self) -> list[Trouble]:
        """The newest first; the last MOST_ERRORS."""
        with self._lock:
            return list(reversed(self._troubles))

    @contextmanager
    def series(self, name: str) -> Iterator[Series]:
        """`records:QUERY`, `lag:QUERY` or `batch:QUERY`."""
        with self._lock:
            yield self._history.get(name)

    def close(self) -> None:
        """Ends all waits."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()

    def newer_than(self, version: int, timeout_s: float) -> int:
        """The version of the state, as soon as it differs from `version`, or after the timeout."""
        with self._lock:
            self._lock.wait_for(lambda: self._version != version or self._is_closed, timeout_s)
            return self._version


def _samples(states: Sequence[SupervisedState]) -> dict[str, float | None]:
    samples: dict[str, float | None] = {}
    for state in states:
        samples[f"records:{state.name}"] = state.records_read
        samples[f"lag:{state.name}"] = state.lag
        samples[f"batch:{state.name}"] = state.batch_ms
    return samples


def _as_it_is_now(state: SupervisedState, report: QueryState) -> QueryState:
    """A query that does not run has rates of 0, whatever its last batch had."""
    now = msgspec.structs.replace(report, is_running=state.state == "running", error=state.trouble)
    return now if now.is_running else msgspec.structs.replace(now, input_rate=0.0, processed_rate=0.0)
