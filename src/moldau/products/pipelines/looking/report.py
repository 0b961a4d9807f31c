"""Draws a run: the rate and the lag of its queries, and the time of its batches."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import PHASES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = (".png", ".svg", ".pdf")
FIRST_INTERVAL_S = 1.0
MOST_SAMPLES = 1_000
"""The most samples per query. Beyond that, every second sample is dropped, and the interval doubles."""
LEAST_S = 0.1
"""The least time between two samples in the computation of a rate."""
MOST_QUERIES = 8
"""The number of queries whose batches are drawn: those with the longest batches."""


class Sample(msgspec.Struct, frozen=True):
    """`at_s`: since the run began. `lag`: None if unknown. `phases_ms`: of the newest batch, by PHASES."""

    at_s: float
    records: int
    lag: int | None
    phases_ms: dict[str, int]


class RunReport:
    """Observes a run within its `with`, and draws it at the end, even if the run fails."""

    def __init__(self, name: str, file: Path) -> None:
        """`name`: of the pipeline. Raises PipelineFailedError if the file cannot be written."""
        if file.suffix not in KINDS:
            raise PipelineFailedError(f"{file}: a report is a picture whose name ends in {', '.join(KINDS)}")
        if not file.absolute().parent.is_dir():
            raise PipelineFailedError(f"{file}: there is no directory {file.absolute().parent}")
        self._name = name
        self._file = file
        self._began_s = time.monotonic()
        self._interval_s = FIRST_INTERVAL_S
        self._next_s = 0.0
        self._newest: tuple[float, Sequence[SupervisedState]] = (0.0, ())
        self.samples: dict[str, list[Sample]] = {}
        """By query name."""

    def show(self, states: Sequence[SupervisedState]) -> None:
        now_s = time.monotonic() - self._began_s
        self._newest = (now_s, states)
        if now_s >= self._next_s:
            self._next_s = now_s + self._interval_s
            self.note(*self._newest)

    def note(self, at_s: float, states: Sequence[SupervisedState]) -> None:
        for state in states:
            samples = self.samples.setdefault(state.name, [])
            phases = state.report.phases_ms if state.report is not None else {}
            samples.append(Sample(at_s, state.records_read, state.lag, phases))
        if any(len(samples) > MOST_SAMPLES for samples in self.samples.values()):
            self.samples = {name: samples[::2] for name, samples in self.samples.items()}
            self._interval_s *= 2

    def __enter__(self) -> RunReport:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.note(*self._newest)  # the final state, however soon after the last sample
        try:
            self.draw()
        except OSError as unwritten:
            if error is None:
                raise
            error.add_note(f"{self._file} could not be written either: {unwritten}")

    def draw(self) -> None:
        from matplotlib.figure import Figure

        slowest = sorted(self.samples, key=self._batch_ms, reverse=True)[:MOST_QUERIES]
        rows = 2 + len(slowest)
        figure = Figure(figsize=(9, 1 + 2 * rows), layout="constrained")
        rate, lag, *batches = figure.subplots(rows, 1, sharex=True)
        for name, samples in self.samples.items():
            times = [sample.at_s for sample in samples]
            rate.plot(times, _rates(samples), label=name)
            # a gap if it is unknown
            lag.plot(times, [math.nan if sample.lag is None else sample.lag for sample in samples], label=name)
        rate.set_ylabel("records/s")
        lag.set_ylabel("records behind")
        for axes, name in zip(batches, slowest, strict=True):
            _draw_batches(axes, self.samples[name])
            axes.set_ylabel(f"{name}\nbatch, ms")
        for axes in (rate, lag, *batches):
            axes.margins(x=0)
            axes.set_ylim(bottom=0)
        for axes in (rate, *batches[:1]) if self.samples else ():
            axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
        (batches or [lag])[-1].set_xlabel("seconds since the start")
        figure.suptitle(self._name)
        figure.savefig(self._file)

    def _batch_ms(self, name: str) -> int:
        return max((sum(sample.phases_ms.values()) for sample in self.samples[name]), default=0)


def _rates(samples: Sequence[Sample]) -> list[float]:
    """The rate since the sample before; 0 at the first sample, and if the count started again."""
    rates = [0.0]
    for before, now in pairwise(samples):
        rates.append(max(0, now.records - before.records) / max(now.at_s - before.at_s, LEAST_S))
    return rates


def _draw_batches(axes: Axes, samples: Sequence[Sample]) -> None:
    """The phases of the newest batch at each time, as stacked steps."""
    times = [sample.at_s for sample in samples]
    below = [0] * len(samples)
    for phase in PHASES:
        above = [low + sample.phases_ms.get(phase, 0) for low, sample in zip(below, samples, strict=True)]
        axes.fill_between(times, below, above, step="post", label=phase, linewidth=0)
        below = above
