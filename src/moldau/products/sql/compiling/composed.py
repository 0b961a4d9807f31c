"""A text for Spark, made of parts of a statement, so that Spark's errors have the statement's places."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.products.sql.language.errors import SqlError, error_at, place_of
from moldau.products.sql.language.pieces import offset_of
from moldau.products.sql.language.rewrites import Rewritten

Part = str | Rewritten

_PLACE = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_CLASS = re.compile(r"^(?:\S+: )?\[([A-Z][A-Z0-9_.]*)\]\s*")


class Composed:
    """Parts in their order. A part that is a plain text comes from no place of its own."""

    def __init__(self, *parts: Part | Composed) -> None:
        self._parts: list[Part] = []
        for part in parts:
            self.add(part)

    def add(self, part: Part | Composed) -> None:
        if isinstance(part, Composed):
            self._parts += part._parts
        else:
            self._parts.append(part)

    @property
    def text(self) -> str:
        return "".join(_text(part) for part in self._parts)

    def place_in_source(self, line: int, column: int) -> tuple[int, int] | None:
        """The place of the statement from which this place of the text comes, both from 1; None if there is none."""
        offset, start = offset_of(self.text, line, column), 0
        found: tuple[int, int] | None = None
        for part in self._parts:
            text = _text(part)
            if isinstance(part, Rewritten):
                within = min(max(0, offset - start), max(0, len(text) - 1))
                found = part.place_in_source(*place_of(text, within))
            if offset < start + len(text):
                break
            start += len(text)
        return found

    def error(self, source: str, said: str) -> SqlError:
        """Spark's error about this text as one of the statement `source`."""
        place = next(
            (found for line, at in _PLACE.findall(said) if (found := self.place_in_source(int(line), int(at) + 1))),
            (1, 1),
        )
        return error_at(source, place, _sentence(said))


def joined(parts: Iterable[Part | Composed], between: str) -> Composed:
    found = Composed()
    for place, part in enumerate(parts):
        if place:
            found.add(between)
        found.add(part)
    return found


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part.text


def _sentence(said: str) -> str:
    """Spark's own sentence, without its error class and the tree after it."""
    first = _SQLSTATE.sub("", _CLASS.sub("", said.strip())).split(";\n")[0]
    lines = [line for line in first.splitlines() if line.strip() and not line.startswith("==")]
    return " ".join(lines[:3]).strip() or "Spark does not take this query"
