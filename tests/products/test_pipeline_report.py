"""A run as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.looking.report import FIRST_INTERVAL_S, MOST_SAMPLES, RunReport
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import QueryState


def state(name: str, records: int) -> SupervisedState:
    phases = {"latest": 1, "plan": 20, "work": 300, "checkpoint": 5}
    return SupervisedState(name, 1, records, None, 0, "running", report=QueryState(name, phases_ms=phases))


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_run_is_drawn_when_it_is_over_also_one_that_fails(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"run.{kind}"

    def run() -> None:
        with RunReport("shop", file) as report:
            for number in range(10):
                report.note(float(number), [state("totals", number * 100), state("visits", number)])
            assert not file.exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert file.stat().st_size > 5_000
    if kind == "svg":
        text = file.read_text("utf-8")
        assert all(f"<!-- {word} -->" in text for word in ("shop", "records/s", "records behind", "totals", "visits"))


def test_a_picture_that_cannot_be_written_hides_no_failure_of_the_run(tmp_path: Path) -> None:
    directory = tmp_path / "pictures"
    directory.mkdir()

    def run(error: Exception | None) -> None:
        with RunReport("shop", directory / "run.png"):
            directory.rename(tmp_path / "elsewhere")
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError) as failed:
        run(ZeroDivisionError())
    assert "could not be written either" in failed.value.__notes__[0]
    (tmp_path / "elsewhere").rename(directory)
    with pytest.raises(FileNotFoundError):
        run(None)


def test_a_run_without_a_batch_is_drawn_too(tmp_path: Path) -> None:
    with RunReport("shop", tmp_path / "run.png"):
        pass
    assert (tmp_path / "run.png").exists()


def test_a_lag_that_is_not_known_is_no_number(tmp_path: Path) -> None:
    with RunReport("shop", tmp_path / "run.svg") as report:
        for number, lag in enumerate((None, 40, None, 20, 10)):
            report.note(float(number), [replace(state("totals", number), lag=lag)])
        assert [sample.lag for sample in report.samples["totals"]] == [None, 40, None, 20, 10]
    drawn = (tmp_path / "run.svg").read_text("utf-8")
    _, lag_line, *_ = re.findall(r'<path d="([^"]*)" clip-path="[^"]*" style="fill: none; stroke: #1f77b4', drawn)
    assert lag_line.count("M") == 2, "a gap between what is known"


def test_of_a_long_run_samples_become_fewer_and_span_all_of_it(tmp_path: Path) -> None:
    report = RunReport("shop", tmp_path / "run.png")
    for number in range(5 * MOST_SAMPLES):
        report.note(number * FIRST_INTERVAL_S, [state("totals", number)])
    samples = report.samples["totals"]
    assert MOST_SAMPLES / 2 < len(samples) <= MOST_SAMPLES
    assert (samples[0].at_s, samples[-1].at_s) == (0.0, 5 * MOST_SAMPLES - 1)


@pytest.mark.parametrize("file", ["run.txt", "no/such/run.png"])
def test_a_report_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path, file: str) -> None:
    with pytest.raises(PipelineFailedError):
        RunReport("shop", tmp_path / file)
