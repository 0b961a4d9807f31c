"""A page that runs while something else fails: it goes on when that is over, and says what it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import polars
import pytest
from rich.console import Console

from moldau.products.pipelines.page.page import parse_page
from moldau.products.pipelines.running.progress import PipelineState
from moldau.products.pipelines.running.runner import run_pipeline

MOST_LOOKS = 3_000
"""Of a run that hangs: ten minutes of looks."""


class Steps:
    """Does one thing after the other while a page of one query runs: each when the state is what it waits for. Behind
    the last one the run is asked to stop."""

    def __init__(self, *steps: tuple[Callable[[PipelineState], bool], Callable[[], object]]) -> None:
        self._steps = [*steps]
        self._looks = 0
        self.troubles: list[str] = []

    def show(self, states: Sequence[PipelineState]) -> None:
        (state,) = states
        self._looks += 1
        assert self._looks < MOST_LOOKS, state
        if state.trouble is not None:
            self.troubles.append(state.trouble)
        if self._steps and self._steps[0][0](state):
            self._steps.pop(0)[1]()
            if not self._steps:
                signal.raise_signal(signal.SIGTERM)


def nothing() -> None:
    pass


@pytest.fixture
def run_through(spark, bootstrap_servers, tmp_path):
    """`run_through(text, steps)`: a page that runs until its steps are done; gives the last state."""

    def run(text: str, steps: Steps, more: str = "", name: str = "pipe") -> PipelineState:
        head = f"name: {name}\nbootstrap_servers: {bootstrap_servers}\ncheckpoint: state\n{more}"
        page = parse_page(head + text, file_name="page.yaml", directory=tmp_path)
        with open(os.devnull, "w") as nowhere:
            (state,) = run_pipeline(page, console=Console(file=nowhere), onlookers=[steps], retry_first_seconds=0.3)
        return state

    return run


def test_a_restart_that_finds_no_target_is_a_failure_like_any_other(run_through, new_topic, produce, tmp_path: Path):
    source, out = new_topic(), tmp_path / "out"
    produce(source, [(None, b"a")])

    def take_the_target_away() -> None:
        out.rename(tmp_path / "kept")
        out.write_text("no directory")
        produce(source, [(None, b"b")])

    def bring_it_back() -> None:
        out.unlink()
        (tmp_path / "kept").rename(out)

    steps = Steps(
        (lambda state: state.records_read == 1, take_the_target_away),
        (lambda state: "(3 of 4)" in (state.trouble or ""), bring_it_back),
        (lambda state: state.records_read == 2, nothing),
    )
    page = f"source: {{topic: {source}, format: string}}\nsql: select value from source\nsink: {{path: out}}\n"
    assert run_through(page, steps).state == "stopped"
    assert any("out is not a directory; started again in" in trouble for trouble in steps.troubles)
    assert sorted(polars.read_parquet(out)["value"].to_list()) == ["a", "b"]
