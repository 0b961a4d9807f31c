"""The output of commands: a table for people, JSON for programs, one sentence for an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

Row = Mapping[str, object]


class CommandError(Exception):
    """A command cannot be carried out: one sentence for the user, exit code 1."""


def print_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    *,
    as_json: bool,
    empty: str = "nothing to show",
    are_names: bool = False,
) -> None:
    """Prints `rows` as a table of `columns` (keys of the rows), or as one JSON array with all keys. `are_names`: prints
    the column names unchanged, because people use them elsewhere, such as `_key` in SQL."""
    if as_json:
        print_json(rows)
        return
    if not rows:
        print(empty, file=sys.stderr)
        return
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    titles = [_cell(column) if are_names else column.replace("_", " ") for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    is_number = [all(isinstance(row.get(column), int | float) for row in rows) for column in columns]
    print(_line(titles, widths, is_number))
    rule = "─" if _can_print("─") else "-"
    print("  ".join(rule * width for width in widths))
    for line in cells:
        print(_line(line, widths, is_number))


def drop_output() -> None:
    """Discards buffered output after standard output failed. Otherwise Python would write it at exit, complain again,
    and exit with code 120."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, is_number, strict=True)
    )
    return "  ".join(padded).rstrip()


def print_json(value: object) -> None:
    """Prints a value and flushes: the reader of a pipe sees each value at once."""
    print(json.dumps(value, ensure_ascii=not _can_print("ü─"), default=str), flush=True)


def _can_print(text: str) -> bool:
    """Whether standard output can encode these letters: in the C locale it may have only ASCII."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = ",".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)
    return printable(text)


def printable(text: str) -> str:
    """Escapes all control characters: a name or record from elsewhere must not control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
