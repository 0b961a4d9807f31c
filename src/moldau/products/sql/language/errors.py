"""An error at a place of a SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.errors import MoldauError
from moldau.types import nearest

_SHOWN = 60
"""The most characters of a token that a message quotes."""
_BEFORE, _WIDTH = 60, 100
"""The part of a long source line that is shown: characters before the column, and at most in all."""
_LIKENESS = 0.65
"""How like a word must be to be the one that was meant: SELECT is not LEFT."""
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class SqlError(MoldauError):
    """A SQL text is wrong at `line` and `column`, both from 1; a column is a character.

    `expected`: what may stand there; "" if the error is of another kind. `found`: the text that stands there, "" at the
    end of the statement. `nearest`: the allowed word that is most like it, or None. `source_line`: that line of the
    text. `str()` is one sentence without the source line; `picture` shows the line with a caret.
    """

    def __init__(
        self,
        problem: str,
        *,
        line: int,
        column: int,
        expected: str = "",
        found: str = "",
        nearest: str | None = None,
        source_line: str = "",
    ) -> None:
        near = "" if nearest is None else f"; did you mean {nearest}?"
        super().__init__(f"line {line}, column {column}: {problem}{near}")
        self.problem = problem
        self.line, self.column = line, column
        self.expected, self.found, self.nearest = expected, found, nearest
        self.source_line = source_line

    @property
    def picture(self) -> str:
        """The source line, and a caret below the column. Of a long line, the part around the column."""
        start = max(0, self.column - 1 - _BEFORE) if len(self.source_line) > _WIDTH else 0
        shown = self.source_line[start : start + _WIDTH]
        caret = "".join("\t" if one == "\t" else " " for one in shown[: self.column - 1 - start])
        return f"{shown}\n{caret}^"


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column of the character at `offset`, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def error_at(
    text: str, place: tuple[int, int], problem: str, *, expected: str = "", found: str = "", near: str | None = None
) -> SqlError:
    """An error at `place`, a line and a column of `text`. `near`: the word that was probably meant."""
    line, column = place
    lines = text.split("\n", line)
    source_line = lines[line - 1].rstrip("\r") if line <= len(lines) else ""
    return SqlError(
        problem,
        line=line,
        column=column,
        expected=expected,
        found=found,
        nearest=near,
        source_line=_UNPRINTABLE.sub("\ufffd", source_line),
    )


def unexpected(text: str, place: tuple[int, int], expected: str, found: str, known: Iterable[str] = ()) -> SqlError:
    """`expected` was to stand at `place`, and `found` stands there ("": the statement ends). `known`: the words from
    which the nearest is taken."""
    near = nearest(found, known, cutoff=_LIKENESS) if found else None
    if near is not None and near.lower() == found.lower():
        near = None
    return error_at(
        text, place, f"expected {expected}, found {quoted(found)}", expected=expected, found=found, near=near
    )


def quoted(found: str) -> str:
    """A token in a message: in backquotes, shortened, on one line."""
    if not found:
        return "the end of the statement"
    one_line = " ".join(found.split())
    shown = one_line if len(one_line) <= _SHOWN else f"{one_line[: _SHOWN - 3]}..."
    return shown if shown.startswith("`") else f"`{shown}`"
