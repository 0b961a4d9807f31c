"""The live table of a run."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from moldau.cli.pipelines.pipeline_files import exit_code_of
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.running.progress import ProgressDisplay, details_of
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import Bounds, QueryState
from moldau.types import TopicPartition

PHASES = {"latest": 1, "plan": 20, "work": 1_300, "checkpoint": 5}


def report(**fields: object) -> QueryState:
    return QueryState("totals", batch_ms=1_326, phases_ms=PHASES, **fields)  # type: ignore[arg-type]


def state(name: str, lag: int, report: QueryState | None) -> SupervisedState:
    return SupervisedState(name, 1, 100, lag, 1_326, "running", report=report)


def test_the_table_shows_the_last_batch_its_state_and_the_slowest_partitions() -> None:
    partitions = {TopicPartition("events", number): Bounds(100, 100 + number * 1_000) for number in range(7)}
    told = details_of(state("totals", 0, report(state_rows=12_000, state_bytes=3 << 20, partitions=partitions)))
    assert told == (
        "totals: batch 1,326 ms = latest 1 + plan 20 + work 1,300 + checkpoint 5; state 12,000 rows, 3.0 MiB; "
        "behind events-6 by 6,000, events-5 by 5,000, events-4 by 4,000, events-3 by 3,000, and 2 more partitions"
    )


def test_of_a_query_without_state_that_has_read_everything_the_times_alone_are_told() -> None:
    caught_up = report(partitions={TopicPartition("events", 0): Bounds(100, 100)})
    assert details_of(state("totals", 0, caught_up)) == (
        "totals: batch 1,326 ms = latest 1 + plan 20 + work 1,300 + checkpoint 5"
    )
    assert details_of(state("totals", 0, None)) == ""


def test_a_terminal_shows_the_details_of_the_slowest_queries_under_the_table() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    states = [state(f"query-{number}", lag=number, report=report()) for number in range(5)]
    with ProgressDisplay({"pipeline": "shop"}, console) as display:
        display.show(states)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert all(f"query-{number}: batch 1,326 ms" in shown for number in (4, 3, 2))
    assert "query-1: batch" not in shown


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_trouble_does_nothing_to_the_terminal(is_terminal: bool) -> None:
    """It may contain a record's value, or a server's message."""
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=160)
    with ProgressDisplay({"pipeline": "shop"}, console) as display:
        display.show([replace(state("totals", 0, None), trouble="the value 'a\x1b]0;title\x07' is no number")])
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "\x1b]0;" not in shown
    assert r"the value 'a\x1b]0;title\x07' is no number" in shown


def test_an_error_does_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise PipelineFailedError("spec.yaml:3: it answered 400 \x1b[2J\nand more")

    assert exit_code_of(fail) == 1
    assert capsys.readouterr().err == "moldau pipeline: spec.yaml:3: it answered 400 \\x1b[2J\nand more\n"
