"""Shows the demo: a live table on a terminal, otherwise one line a second."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from moldau.products.pipelines.running.progress import Rate

LINE_EVERY_SECONDS = 1.0
LINES_OF_ALERTS = 3
MOST_ALERTS = 1_000


class QueryView(msgspec.Struct, frozen=True):
    """The state of one query at a moment."""

    name: str
    records: int
    lag: int
    batch_ms: int
    rows: int
    rows_are: str


class DemoView(msgspec.Struct, frozen=True):
    """The state of the demo at a moment. `newest`: (label, text) lines to show; `alerts`: anomalies found so far."""

    phase: str
    elapsed: float
    seconds: int
    sent: int
    queries: tuple[QueryView, ...]
    newest: tuple[tuple[str, str], ...]
    alerts: tuple[str, ...]


class DemoDisplay:
    """A context manager; restores the terminal at its end."""

    def __init__(self, facts: Sequence[tuple[str, str]], console: Console | None = None) -> None:
        self._console = console or Console()
        self._facts = facts
        self._rate = Rate()
        self._live: Live | None = None
        self._line_due = 0.0
        self._phase = ""
        self._said: list[str] = []

    def __enter__(self) -> DemoDisplay:
        for name, fact in self._facts:
            self.say(f"{name:<10} {fact}")
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """Prints a permanent line."""
        if self._live is not None:
            self._console.print(Text(line))
        else:
            print(line, file=self._console.file, flush=True)

    def show(self, view: DemoView) -> None:
        """Redraws the table, or prints a line if the last one is a second old."""
        now = time.monotonic()
        if self._live is None and now < self._line_due:
            return
        if view.phase != self._phase:
            self._phase, self._rate = view.phase, Rate()
        rate = self._rate.per_second(now, view.sent)
        if self._live is not None:
            self._live.update(_draw(view, rate), refresh=True)
            return
        self._line_due = now + LINE_EVERY_SECONDS
        self._say_alerts(view.alerts)
        queries = " | ".join(
            f"{query.name}: {query.records:,} read, lag {query.lag:,}, {query.rows:,} {query.rows_are}"
            for query in view.queries
        )
        self.say(f"{view.elapsed:5.1f} s {view.phase}: {view.sent:,} sent, {rate:,.0f}/s | {queries}")

    def _say_alerts(self, alerts: Sequence[str]) -> None:
        new = [alert for alert in alerts if alert not in self._said]
        self._said = (self._said + new)[-MOST_ALERTS:]
        for alert in new[-LINES_OF_ALERTS:]:
            self.say(f"        anomaly: {alert}")
        if len(new) > LINES_OF_ALERTS:
            self.say(f"        anomaly: and {len(new) - LINES_OF_ALERTS} more of the machine's own")


def _draw(view: DemoView, rate: float) -> Group:
    head = Table.grid(expand=True, padding=(0, 2))
    head.add_column(ratio=1)
    head.add_column(justify="right")
    done = min(view.elapsed, view.seconds)
    head.add_row(ProgressBar(total=view.seconds, completed=done), f"{view.phase} · {view.elapsed:.0f} s")
    head.add_row(Text.assemble((f"{view.sent:,}", "bold"), " records sent"), f"[bold]{rate:,.0f}[/] records/s")
    return Group(
        Panel(head, title="moldau demo", border_style="cyan"),
        _draw_queries(view.queries),
        _draw_newest(view),
    )


def _draw_queries(queries: Sequence[QueryView]) -> Table:
    table = Table(expand=True, border_style="dim", header_style="dim")
    table.add_column("on Spark")
    for name in ("read", "lag", "last batch", "into topic and Parquet"):
        table.add_column(name, justify="right")
    for query in queries:
        lag = f"[{'green' if query.lag == 0 else 'yellow'}]{query.lag:,}[/]"
        rows = f"{query.rows:,} {query.rows_are}"
        table.add_row(query.name, f"{query.records:,}", lag, f"{query.batch_ms:,} ms", rows)
    return table


def _draw_newest(view: DemoView) -> Table:
    table = Table.grid(expand=True, padding=(0, 2))
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    left = Table.grid(padding=(0, 2))
    left.add_row("[dim]newest closed window[/]")
    for label, text in view.newest:
        left.add_row(label, text)
    right = Table.grid()
    if view.alerts:
        right.add_row("[dim]anomalies, newest last[/]")
        for alert in view.alerts[-6:]:
            right.add_row(Text(alert, style="red"))
    table.add_row(left, right)
    return table
