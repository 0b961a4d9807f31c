"""The queries of a session. Without Spark: the test's classes replace Spark's part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.spark.queries.query_set import LOOKS_AT_ONCE, QueryExistsError, QuerySet, QueryStart
from tests.support.streaming_queries import SPEC, Ended, Running, Unstoppable


class Closed(QueryProgress):
    """Notes that it was closed."""

    closed = 0

    def close(self) -> None:
        super().close()
        self.closed += 1


@pytest.fixture
def query(tmp_path: Path) -> Callable[..., QueryStart]:
    """`query(name, start)`."""
    spec = parse_spec(SPEC, file_name="spec.yaml", directory=tmp_path)

    def make(name: str, start: Callable[[], Running]) -> QueryStart:
        return QueryStart(name, start, Closed(None, spec, spec.queries[0], ""))

    return make


def test_a_query_that_fails_stops_no_neighbour(query):
    with QuerySet(retry_first_seconds=0.0) as queries:
        queries.start(query("good", Running))
        queries.start(query("bad", Ended))
        while queries.has_kept(["bad"]):
            queries.supervise(also_given_up=False)
        good, bad = queries.states()
        assert (good.state, bad.state) == ("running", "failed")
        assert queries.errors(["good", "bad"])[0] is None
        assert "No space left" in queries.errors(["bad"])[0]
        assert queries.has_kept()


def test_a_name_is_free_again_when_its_query_is_removed_and_closed(query):
    with QuerySet() as queries:
        first, second = query("one", Running), query("one", Running)
        queries.start(first)
        with pytest.raises(QueryExistsError, match="'one' runs already"):
            queries.start(second)
        assert queries.remove("one")
        assert queries.remove("one"), "nothing is left to end"
        queries.start(second)
        assert queries.states(["other"]) == []
    assert (first.progress.closed, second.progress.closed) == (1, 1)


def test_a_query_that_cannot_start_leaves_nothing(query):
    def start() -> Running:
        raise ZeroDivisionError

    with QuerySet() as queries:
        refused = query("one", start)
        with pytest.raises(ZeroDivisionError):
            queries.start(refused)
        assert (queries.states(), refused.progress.closed) == ([], 1)
        queries.start(query("one", Running))


def test_a_query_that_does_not_stop_is_told(query):
    queries = QuerySet()
    queries.start(query("one", Unstoppable))
    queries.start(query("two", Running))
    assert [state.state for state in queries.stop(None, lambda: True)] == ["failed", "stopped"]
    assert (queries.remove("one"), queries.remove("two")) == (False, True)


def test_a_stopped_query_is_not_started_again(query):
    """Its owner may stop it in one thread while another one supervises all."""
    starts = []

    def start() -> Running:
        starts.append(None)
        return Running()

    with QuerySet(retry_first_seconds=0.0, retry_given_up_seconds=0.0) as queries:
        queries.start(query("one", start))
        queries.start(query("two", Ended))
        queries.stop(["one", "two"], lambda: True)
        before = queries.states()
        for _ in range(3):
            queries.supervise(also_given_up=True)
        assert queries.states() == before
        assert len(starts) == 1


def test_many_queries_are_looked_at_in_turn(query):
    with QuerySet(retry_first_seconds=0.0) as queries:
        for number in range(2 * LOOKS_AT_ONCE):
            queries.start(query(f"q{number}", Running))
        queries.supervise(also_given_up=False)
        looked = [state.state for state in queries.states()]
        assert looked == ["running"] * LOOKS_AT_ONCE + ["starting"] * LOOKS_AT_ONCE
        queries.supervise(also_given_up=False)
        assert {state.state for state in queries.states()} == {"running"}
