"""Shows the progress of a pipeline: a live table on a terminal, otherwise a line each second."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from moldau.products.pipelines.sources.source import DEAD_LETTERS_METRIC
from moldau.products.service.look.words import show_size, visible
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import QueryState, input_rows, observed_row

if TYPE_CHECKING:
    from moldau.spark import StreamingQuery

LINE_EVERY_SECONDS = 1.0
SAME_LINE_EVERY_SECONDS = 60.0
TROUBLE_LINE_EVERY_SECONDS = 10.0
RATE_OVER_SECONDS = 10.0
MOST_DETAILED = 3
"""Queries with details of their last batch, the slowest first."""
MOST_PARTITIONS = 4
"""Partitions listed for a query, those with the most lag."""


class Rate:
    """Records per second over the last RATE_OVER_SECONDS."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=1_000)

    def per_second(self, now: float, total: int) -> float:
        """`now`: seconds of a monotonic clock; `total`: records so far."""
        self._seen.append((now, total))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_OVER_SECONDS:
            self._seen.popleft()
        began, before = self._seen[0]
        return (total - before) / (now - began) if now > began else 0.0


class BatchCounter:
    """Adds up the progress reports of a streaming query; Spark itself keeps only the newest hundred.

    `reported_to`: the newest reported batch. `dead_letters`: the number of records that did not parse, by batch; the
    code that handles a batch removes it.
    """

    def __init__(self, dead_letters_metrics: Collection[str] = ()) -> None:
        self.records = 0
        self.batches = 0
        self.batch_ms = 0
        self.reported_to = -1
        self.dead_letters: dict[int, int] = {}
        self.report: QueryState | None = None
        self._metrics = dead_letters_metrics

    def look(self, query: StreamingQuery) -> None:
        for progress in self._new_reports(query):
            if progress["batchId"] <= self.reported_to:
                continue
            # an idle query reports too, with the number of its next batch and rates of 0
            is_batch = "addBatch" in progress["durationMs"]
            if is_batch or self.report is not None:
                self.report = (self.report or QueryState(progress["name"])).after(progress)
            if not is_batch:
                continue
            self.reported_to = progress["batchId"]
            observed = [observed_row(progress, name) for name in self._metrics]
            counts = [row[DEAD_LETTERS_METRIC] for row in observed if row is not None]
            if counts and len(counts) == len(observed):
                self.dead_letters[self.reported_to] = sum(counts)
            rows = input_rows(progress)
            if rows > 0:
                self.records += rows
                self.batches += 1
            # also for a batch without rows, such as a watermark's: the report has the phases of this one
            self.batch_ms = int(progress["batchDuration"] or 0)

    def _new_reports(self, query: StreamingQuery) -> Sequence[Mapping[str, Any]]:
        """All reports that may be new. Each report costs two calls to the JVM: a hundred of them, several times a
        second, would cost more than the rest of the driver. Batch numbers have no gaps, so the newest report shows
        whether others came before it since the last look."""
        newest = query.lastProgress
        if newest is None:
            return ()
        return (newest,) if newest["batchId"] <= self.reported_to + 1 else query.recentProgress


class ProgressDisplay:
    """Shows the states of a pipeline's queries as they change. A context manager, which restores the terminal."""

    def __init__(
        self,
        facts: Mapping[str, str],
        console: Console | None = None,
        *,
        title: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`title`: of the table; by default that of the pipeline in `facts`."""
        self._facts = facts
        self._title = title
        self._clock = clock
        self._console = console or Console()
        self._rates: defaultdict[str, Rate] = defaultdict(Rate)
        self._said: dict[str, tuple[float, SupervisedState]] = {}
        """The time and state of each query's last line."""
        self._live: Live | None = None

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        else:
            for name, fact in self._facts.items():
                self._say(f"{name}: {fact}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, states: Sequence[SupervisedState], *, force: bool = False) -> None:
        """Redraws the table; or prints a line for each query that changed, at most one per second (every 10 s during
        trouble that was already shown), and for each query whose last line is a minute old. `force`: for each that
        changed, at once."""
        now = self._clock()
        if self._live is not None:
            rates = {state.name: self._rates[state.name].per_second(now, state.records_read) for state in states}
            details = [line for state in slowest_first(states) if (line := details_of(state))]
            self._live.update(Group(self._table(states, rates), *map(Text, details[:MOST_DETAILED])), refresh=True)
            return
        for state in states:
            if self._is_due(state, now, at_once=force):
                self._show_line(state, now, is_last=force)

    def _is_due(self, state: SupervisedState, now: float, *, at_once: bool) -> bool:
        if state.name not in self._said:
            return True
        said_at, said = self._said[state.name]
        if (state.trouble is None) != (said.trouble is None):
            return True
        if _shown(state) == _shown(said):
            return now >= said_at + SAME_LINE_EVERY_SECONDS
        return at_once or now >= said_at + (LINE_EVERY_SECONDS if state.trouble is None else TROUBLE_LINE_EVERY_SECONDS)

    def _show_line(self, state: SupervisedState, now: float, *, is_last: bool = False) -> None:
        """`is_last`: the error that ended the query follows."""
        is_said = is_last and state.name in self._said and self._said[state.name][1].trouble == state.trouble
        self._said[state.name] = (now, state)
        per_second = self._rates[state.name].per_second(now, state.records_read)
        self._say(
            f"{state.name}: {state.state}, batch {state.batches}, read {state.records_read:,} records, "
            f"{per_second:,.0f}/s, lag {_lag(state)}, last batch {state.batch_ms:,} ms"
            + (f", dead letters {state.dead_letters:,}" if state.dead_letters else "")
            + (f"; {visible(state.trouble)}" if state.trouble and not is_said else "")
        )

    def _say(self, line: str) -> None:
        print(line, file=self._console.file, flush=True)

    def _table(self, states: Sequence[SupervisedState], rates: Mapping[str, float]) -> Table:
        facts = "\n".join(f"{name}: {fact}" for name, fact in self._facts.items() if name != "pipeline")
        table = Table(
            title=self._title or f"moldau pipeline · {self._facts['pipeline']}",
            caption=Text(facts, style="dim"),
            caption_justify="left",
        )
        for name in ("query", "state", "read", "batches", "records/s", "lag", "last batch", "did not parse"):
            table.add_column(name, justify="left" if name in ("query", "state") else "right")
        for state in slowest_first(states):
            letters = "" if state.dead_letters is None else f"{state.dead_letters:,}"
            table.add_row(
                Text(state.name),
                Text(state.state if state.trouble is None else f"{state.state}: {visible(state.trouble)}",
                     style="red" if state.trouble else ""),
                f"{state.records_read:,}",
                f"{state.batches:,}",
                f"[bold]{rates[state.name]:,.0f}[/]",
                f"[{'green' if not state.lag else 'yellow'}]{_lag(state)}[/]",
                f"{state.batch_ms:,} ms",
                f"[{'red' if state.dead_letters else 'green'}]{letters}[/]",
            )  # fmt: skip
        return table


def details_of(state: SupervisedState) -> str:
    """The phases of the last batch, the size of the state, and the partitions with the most lag; empty before the first
    report."""
    report = state.report
    if report is None:
        return ""
    spent = " + ".join(f"{name} {ms:,}" for name, ms in report.phases_ms.items())
    parts = [f"batch {report.batch_ms:,} ms = {spent}"]
    if report.state_rows:
        parts.append(f"state {report.state_rows:,} rows, {show_size(report.state_bytes)}")
    if report.late_rows:
        parts.append(f"{report.late_rows:,} rows came too late")
    behind = {partition: bounds.behind for partition, bounds in report.partitions.items() if bounds.behind}
    if behind:
        furthest = sorted(behind, key=lambda partition: (-behind[partition], partition))[:MOST_PARTITIONS]
        named = ", ".join(f"{partition} by {behind[partition]:,}" for partition in furthest)
        more = len(behind) - len(furthest)
        parts.append(f"behind {named}" + (f", and {more} more partitions" if more else ""))
    return f"{state.name}: {'; '.join(parts)}"


def slowest_first(states: Iterable[SupervisedState]) -> list[SupervisedState]:
    """By lag, then by the duration of a batch."""
    return sorted(states, key=lambda state: (state.lag or 0, state.batch_ms), reverse=True)


def _shown(state: SupervisedState) -> tuple[object, ...]:
    """The content of a line without the rate, which falls to 0 after the last record."""
    return state.state, state.batches, state.records_read, state.lag, state.dead_letters, state.trouble


def _lag(state: SupervisedState) -> str:
    return "?" if state.lag is None else f"{state.lag:,}"
