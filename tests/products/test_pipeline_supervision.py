"""Queries that do not do as asked. Without Spark: the test's classes replace Spark's part."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.spark.queries.supervision import MOST_RETRIES, Supervised
from tests.support.streaming_queries import SPEC, Ended, Running, Unstoppable


@pytest.fixture
def progress(tmp_path: Path) -> QueryProgress:
    spec = parse_spec(SPEC, file_name="spec.yaml", directory=tmp_path)
    return QueryProgress(None, spec, spec.queries[0], "")


def test_a_query_that_does_not_stop_is_told_and_hides_nothing_else(
    progress: QueryProgress, caplog: pytest.LogCaptureFixture
):
    supervised = Supervised(Unstoppable, progress)
    supervised.end()
    assert "a query did not stop: " in caplog.text
    caplog.clear()
    assert supervised.stop(lambda: True).state == "failed"
    assert "failed to stop within" in supervised.error
    supervised.end()
    assert caplog.text == "", "nobody waits a second time"


def test_a_query_that_was_given_up_is_started_again_while_another_one_runs(progress: QueryProgress):
    is_full, starts = [True], []

    def start() -> Running:
        starts.append(is_full[0])
        return Ended() if is_full[0] else Running()

    supervised = Supervised(start, progress, retry_first_seconds=0.0, retry_given_up_seconds=0.0)
    while supervised.error is None:
        supervised.supervise()
    given_up = len(starts)
    assert (given_up, supervised.supervise().state) == (1 + MOST_RETRIES, "failed"), "where no other runs"
    for state in ("starting", "failed"):
        assert supervised.supervise(also_given_up=True).state == state
    is_full[0] = False
    assert [supervised.supervise(also_given_up=True).state for _ in range(2)] == ["starting", "running"]
    assert len(starts) == given_up + 2
    assert "No space left" in supervised.error, "no batch is finished yet"
    assert not supervised.is_kept
    assert supervised.stop(lambda: True).state == "stopped"
    assert "No space left" in supervised.error, "a stop during the try hides nothing"


def test_a_query_that_was_given_up_has_its_pause(progress: QueryProgress):
    supervised = Supervised(Ended, progress, retry_first_seconds=0.0)
    while supervised.error is None:
        supervised.supervise()
    assert supervised.supervise(also_given_up=True).state == "failed"
