"""Shows the rows of a query as they come: as lines, or as a table that updates in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from moldau.products.sql.engine.answers import ChangedRow, Rows, RowStream
from moldau.products.sql.terminal.values import cell, json_line, named
from moldau.types import counted

READ_ROWS, READ_SECONDS = 1_000, 0.2
MAX_KEYS = 10_000
"""Keys of a table that are kept; those that did not change for the longest time are forgotten first."""
_WIDEST = 40
"""The most characters that a column of lines is padded to."""
_LINES_AROUND = 8
"""Lines of the terminal that a live table leaves free."""


class RowView(Protocol):
    """A form of showing rows. A context manager, which restores the terminal."""

    def __enter__(self) -> RowView: ...

    def __exit__(self, *_: object) -> None: ...

    def take(self, rows: Sequence[ChangedRow]) -> None:
        """Shows the next rows."""


def follow(answer: Rows, view: RowView, is_cut: Callable[[], bool]) -> int:
    """Shows rows until the query is over or `is_cut`; closes the stream. Returns the number of rows. Raises MoldauError
    if the query has failed."""
    count, stream = 0, answer.stream
    try:
        with view:
            while not stream.is_over and not is_cut():
                rows = stream.read(READ_ROWS, READ_SECONDS)
                count += len(rows)
                if rows:
                    view.take(rows)
    finally:
        stream.close()
    return count


def view_for(stream: RowStream, console: Console, *, as_json: bool) -> RowView:
    """JSON lines; on a terminal a table that updates in place for the rows of a table; otherwise lines."""
    if as_json:
        return JsonLines(stream, console)
    return LiveTable(stream, console) if stream.key and console.is_terminal else RowLines(stream, console)


class JsonLines:
    """`{"columns": ...}`, then `{"row": {...}}` for each row, and `{"deleted": {...}}` for a row of a table that is
    gone."""

    def __init__(self, stream: RowStream, console: Console) -> None:
        self._stream, self._file = stream, console.file

    def __enter__(self) -> JsonLines:
        columns = [{"name": name, "type": kind} for name, kind in self._stream.columns]
        self._print({"query_id": self._stream.query_id, "columns": columns, "key": list(self._stream.key)})
        return self

    def __exit__(self, *_: object) -> None: ...

    def take(self, rows: Sequence[ChangedRow]) -> None:
        for row in rows:
            self._print({"deleted" if row.is_deleted else "row": named(self._stream.columns, row.values)})

    def _print(self, value: object) -> None:
        print(json_line(value), file=self._file, flush=True)


class RowLines:
    """A line for each row. Of a table, each line begins with `+` for a new or changed row, and `-` for a deleted one.
    The first rows decide the widths."""

    def __init__(self, stream: RowStream, console: Console) -> None:
        self._stream, self._console = stream, console
        self._widths: list[int] = []

    def __enter__(self) -> RowLines:
        return self

    def __exit__(self, *_: object) -> None: ...

    def take(self, rows: Sequence[ChangedRow]) -> None:
        cells = [[cell(value) for value in row.values] for row in rows]
        if not self._widths:
            names = [cell(name) for name, _ in self._stream.columns]
            self._widths = [
                max(len(name), *(min(len(line[place]), _WIDEST) for line in cells)) for place, name in enumerate(names)
            ]
            self._print("  " if self._stream.key else "", names, "bold")
        for row, line in zip(rows, cells, strict=True):
            sign = ("- " if row.is_deleted else "+ ") if self._stream.key else ""
            self._print(sign, line, "red" if row.is_deleted else "")

    def _print(self, sign: str, cells: Sequence[str], style: str) -> None:
        padded = "  ".join(text.ljust(width) for text, width in zip(cells, self._widths, strict=True)).rstrip()
        self._console.print(Text(sign + padded, style=style), soft_wrap=True)


class LiveTable:
    """The newest row of each key, as a table that updates in place. Shows the keys that changed last, as many as the
    terminal has lines."""

    def __init__(self, stream: RowStream, console: Console) -> None:
        self._stream, self._console = stream, console
        names = [name for name, _ in stream.columns]
        self._key = [names.index(name) for name in stream.key if name in names]
        self._rows: dict[tuple[str, ...], list[str]] = {}
        self._changes = 0
        # it redraws when rows come
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> LiveTable:
        self._live.start()
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def take(self, rows: Sequence[ChangedRow]) -> None:
        for row in rows:
            cells = [cell(value) for value in row.values]
            key = tuple(cells[place] for place in self._key)
            self._rows.pop(key, None)
            if not row.is_deleted:
                self._rows[key] = cells
        while len(self._rows) > MAX_KEYS:
            del self._rows[next(iter(self._rows))]
        self._changes += len(rows)
        self._draw()

    def _draw(self) -> None:
        most = max(1, self._console.height - _LINES_AROUND)
        newest = list(self._rows.items())[-most:]
        more = len(self._rows) - len(newest)
        caption = counted(self._changes, "change") + (f"; {more:,} more keys" if more else "")
        table = Table(box=SIMPLE_HEAD)
        for name, kind in self._stream.columns:
            is_number = kind.startswith(("int", "bigint", "smallint", "tinyint", "double", "float", "decimal"))
            table.add_column(Text(cell(name)), justify="right" if is_number else "left")
        for _, cells in sorted(newest):
            table.add_row(*map(Text, cells))
        self._live.update(Group(table, Text(caption, style="dim")), refresh=True)
