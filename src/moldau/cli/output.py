"""How commands answer: a table for people, JSON for programs, one sentence for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

Row = Mapping[str, object]


class CommandError(Exception):
    """A command cannot do what was asked: one sentence for the user, exit code 1."""


def print_rows(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool, empty: str = "nothing to show") -> None:
    """Prints `rows` as a table of `columns` (keys of the rows), or as one JSON array with all keys."""
    if as_json:
        print_json(rows)
        return
    if not rows:
        print(empty, file=sys.stderr)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a topic's name or a record may hold square brackets.
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    console = Console()
    # A pipe has no width to fold at: programs get each row whole on one line.
    console.print(table, width=console.width if sys.stdout.isatty() else 10_000, no_wrap=not sys.stdout.isatty())


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, default=str))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
