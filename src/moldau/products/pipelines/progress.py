"""How a pipeline is doing, for people: a live table on a terminal, one line a second anywhere else."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from moldau.spark import StreamingQuery

LINE_EVERY_SECONDS = 1.0
TROUBLE_LINE_EVERY_SECONDS = 10.0
RATE_OVER_SECONDS = 10.0


class PipelineState(msgspec.Struct, frozen=True):
    """What is shown. `lag`: records of the source's topic that no finished batch has read, None before the first look;
    `batch_ms`: how long the newest batch took; `dead_letters`: records that did not parse, None where all do;
    `trouble`: what keeps the pipeline from going on, None if nothing does."""

    batches: int
    records_read: int
    lag: int | None
    batch_ms: int
    state: str
    dead_letters: int | None = None
    trouble: str | None = None


class Rate:
    """Records a second over the last RATE_OVER_SECONDS."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=1_000)

    def per_second(self, now: float, total: int) -> float:
        """`now`: seconds of a clock that never goes back; `total`: records so far."""
        self._seen.append((now, total))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_OVER_SECONDS:
            self._seen.popleft()
        began, before = self._seen[0]
        return (total - before) / (now - began) if now > began else 0.0


class BatchCounter:
    """Adds up a streaming query's progress reports; Spark itself keeps only the newest hundred.

    `reported_to`: the newest batch that is reported. `dead_letters`: for each batch, how many of its records did not
    parse; the code that has dealt with a batch takes it out.
    """

    def __init__(self, dead_letters_metric: str | None = None) -> None:
        self.records = 0
        self.batches = 0
        self.batch_ms = 0
        self.reported_to = -1
        self.dead_letters: dict[int, int] = {}
        self._metric = dead_letters_metric

    def look(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            # an idle query reports too, with the number of the batch that it will run next
            if progress["batchId"] <= self.reported_to or "addBatch" not in progress["durationMs"]:
                continue
            self.reported_to = progress["batchId"]
            if self._metric is not None:
                row = progress["observedMetrics"].get(self._metric)
                if row is not None:
                    self.dead_letters[self.reported_to] = row[self._metric]
            if progress["numInputRows"] > 0:
                self.records += progress["numInputRows"]
                self.batches += 1
                self.batch_ms = int(progress["batchDuration"] or 0)


class ProgressDisplay:
    """Shows states as they come, as a context manager: it gives the terminal back whole."""

    def __init__(self, facts: Mapping[str, str], console: Console | None = None) -> None:
        self._facts = facts
        self._console = console or Console()
        self._rate = Rate()
        self._line_due = 0.0
        self._trouble: str | None = None
        self._live: Live | None = None

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        else:
            for name, fact in self._facts.items():
                self._say(f"{name}: {fact}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, state: PipelineState, *, force: bool = False) -> None:
        """Draws the table anew, or prints a line if the last one is a second old (10 s where there is trouble, and
        the trouble is said already) or `force`."""
        now = time.monotonic()
        is_new_trouble = (state.trouble is None) != (self._trouble is None)
        if self._live is None and now < self._line_due and not force and not is_new_trouble:
            return
        self._trouble = state.trouble
        per_second = self._rate.per_second(now, state.records_read)
        if self._live is not None:
            self._live.update(self._table(state, per_second), refresh=True)
            return
        self._line_due = now + (LINE_EVERY_SECONDS if state.trouble is None else TROUBLE_LINE_EVERY_SECONDS)
        lag = "?" if state.lag is None else f"{state.lag:,}"
        self._say(
            f"{self._facts['pipeline']}: {state.state}, batch {state.batches}, read {state.records_read:,} records, "
            f"{per_second:,.0f}/s, lag {lag}, last batch {state.batch_ms:,} ms"
            + (f", dead letters {state.dead_letters:,}" if state.dead_letters else "")
            + (f"; {state.trouble}" if state.trouble else "")
        )

    def _say(self, line: str) -> None:
        print(line, file=self._console.file, flush=True)

    def _table(self, state: PipelineState, per_second: float) -> Table:
        table = Table(title=f"moldau pipeline · {self._facts['pipeline']}", show_header=False, min_width=64)
        table.add_column(style="dim")
        table.add_column()
        for name, fact in self._facts.items():
            if name != "pipeline":
                table.add_row(name, fact)
        table.add_section()
        table.add_row("state", state.state)
        table.add_row("read", f"[bold]{state.records_read:,}[/] records in {state.batches:,} batches")
        table.add_row("rate", f"[bold]{per_second:,.0f}[/] records/s")
        behind = "not known yet" if state.lag is None else f"{state.lag:,} records"
        table.add_row("lag", f"[{'green' if not state.lag else 'yellow'}]{behind}[/]")
        table.add_row("last batch", f"{state.batch_ms:,} ms")
        if state.dead_letters is not None:
            table.add_row(
                "did not parse", f"[{'red' if state.dead_letters else 'green'}]{state.dead_letters:,}[/] records"
            )
        if state.trouble is not None:
            table.add_row("trouble", Text(state.trouble, style="red"))
        return table
