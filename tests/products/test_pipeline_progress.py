"""Batches are counted from Spark's reports: each once, without reading all reports at each look."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql import Row

from moldau.products.pipelines.running.progress import BatchCounter
from moldau.products.pipelines.running.query_progress import QueryProgress
from moldau.products.pipelines.sources.source import DEAD_LETTERS_METRIC
from moldau.products.pipelines.spec.spec import parse_spec

if TYPE_CHECKING:
    from moldau.spark import SparkSession, StreamingQuery

SPEC = """\
name: shop
bootstrap_servers: 127.0.0.1:9092
sources:
  orders: {topic: orders, format: json, schema: n int}
targets:
  keeps: {from: orders, topic: keeps}
  other: {from: orders, topic: other}
"""
METRIC = "dead_letters_of_orders"


class Observed(dict[str, Any]):
    """`asked`: the names that were looked up."""

    def __init__(self, metrics: Mapping[str, Any]) -> None:
        super().__init__(metrics)
        self.asked: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.append(name)
        return super().get(name, default)


class Reports:
    """Spark's reports of a query: the newest hundred. `asked`: how many of them were read."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.asked = 0

    def batch(self, number: int, rows: int = 10, bad: int = 0, batch_ms: int = 9) -> None:
        durations = {"addBatch": 5, "triggerExecution": 9}
        self._keep(number, rows, durations, Observed({METRIC: Row(**{DEAD_LETTERS_METRIC: bad})}), batch_ms)

    def idle(self, next_number: int) -> None:
        self._keep(next_number, 0, {"latestOffset": 1, "triggerExecution": 1}, {})

    def _keep(
        self, number: int, rows: int, durations: dict[str, int], observed: dict[str, Any], batch_ms: int = 9
    ) -> None:
        report = {"name": "orders", "batchId": number, "sources": [{"numInputRows": rows}], "durationMs": durations}
        report |= {"inputRowsPerSecond": 2.0 * rows, "processedRowsPerSecond": 3.0 * rows}
        report |= {"stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 70}] if "addBatch" in durations else []}
        self.kept = [*self.kept[-99:], {**report, "batchDuration": batch_ms, "observedMetrics": observed}]

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        self.asked += 1
        return self.kept[-1] if self.kept else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        self.asked += len(self.kept)
        return self.kept


def look(counter: BatchCounter, reports: Reports) -> None:
    counter.look(cast("StreamingQuery", reports))


@pytest.mark.parametrize("looks_every", [1, 2, 7, 60])
def test_each_batch_counts_once_however_often_it_is_looked(looks_every: int) -> None:
    counter, reports = BatchCounter([METRIC]), Reports()
    look(counter, reports)
    for number in range(200):
        reports.batch(number, rows=0 if number % 3 == 2 else 10, bad=number)
        if number % 5 == 4:
            reports.idle(number + 1)
        if number % looks_every == looks_every - 1:
            look(counter, reports)
    look(counter, reports)
    look(counter, reports)
    with_rows = [number for number in range(200) if number % 3 != 2]
    assert (counter.batches, counter.records) == (len(with_rows), 10 * len(with_rows))
    assert counter.reported_to == 199
    assert counter.dead_letters == {number: number for number in range(200)}


def test_a_look_reads_one_report_where_no_more_are_new() -> None:
    counter, reports = BatchCounter(), Reports()
    for number in range(150):
        reports.batch(number)
    look(counter, reports)
    for number in range(150, 160):
        reports.batch(number)
        reports.asked = 0
        for _ in range(3):
            look(counter, reports)
        assert reports.asked == 3
    assert counter.reported_to == 159


def test_a_query_that_was_started_again_goes_on_being_counted() -> None:
    counter, first, second = BatchCounter(), Reports(), Reports()
    first.batch(0)
    look(counter, first)
    second.batch(1)
    second.batch(2)
    second.idle(3)
    look(counter, second)
    assert (counter.batches, counter.reported_to) == (3, 2)


def test_an_idle_query_has_no_rates_and_keeps_its_state() -> None:
    new, counter, first, second = BatchCounter(), BatchCounter(), Reports(), Reports()
    first.idle(0)
    look(new, first)
    assert new.report is None, "there was no batch yet"
    first.batch(0)
    look(counter, first)
    assert counter.report is not None
    assert (counter.report.input_rate, counter.report.processed_rate, counter.report.state_rows) == (20.0, 30.0, 7)
    for reports in (first, second):  # within one run of the query, and at the beginning of the next
        reports.idle(1)
        look(counter, reports)
        assert (counter.report.input_rate, counter.report.processed_rate) == (0.0, 0.0)
        assert (counter.report.batches, counter.report.batch_ms) == (1, 9)
        assert (counter.report.state_rows, counter.report.state_bytes) == (7, 70)


def test_what_a_batch_is_told_to_have_spent_its_time_on_is_all_of_its_time() -> None:
    """Also if the newest batch had no rows: a batch of a watermark."""
    counter, reports = BatchCounter(), Reports()
    reports.batch(0)
    look(counter, reports)
    reports.batch(1, rows=0, batch_ms=935)
    look(counter, reports)
    assert counter.report is not None
    assert (counter.batches, counter.batch_ms, sum(counter.report.phases_ms.values())) == (1, 935, 935)


def test_a_query_counts_those_dead_letters_that_it_keeps_and_no_others(tmp_path: Path) -> None:
    """Counts of dead letters that no query keeps would never be removed: they would grow with each batch."""
    spec = parse_spec(SPEC, file_name="spec.yaml", directory=tmp_path)
    for query, expected in zip(spec.queries, ([METRIC], []), strict=True):
        with closing(QueryProgress(cast("SparkSession", None), spec, query, "")) as progress:
            reports = Reports()
            reports.batch(0, bad=1)
            progress.count(cast("StreamingQuery", reports))
            assert (progress.batches, reports.kept[0]["observedMetrics"].asked) == (1, expected)
