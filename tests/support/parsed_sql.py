"""Statements of streaming SQL as text, and files of golden cases."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from moldau.products.sql.language.queries import Duration, Fragment, Name
from moldau.products.sql.language.statements import Column, Property, Role

_PLACES = ("line", "column")


class Case(NamedTuple):
    """A text of SQL, the lines that are expected, and the line of the file where it begins."""

    text: str
    expected: list[str]
    line: int

    def __str__(self) -> str:
        return f"line-{self.line}"


def cases_of(path: Path, mark: str) -> list[Case]:
    """The cases of a file: SQL, then its expected lines, each after `mark`. Blank lines between cases; `##` begins a
    comment."""
    found = []
    sql: list[str] = []
    expected: list[str] = []
    start = 1
    for number, line in enumerate([*path.read_text("utf-8").split("\n"), ""], start=1):
        if line.startswith(mark):
            expected.append(line.removeprefix(mark))
        elif expected:
            found.append(Case("\n".join(sql), expected, start))
            sql, expected = [], []
        if not line.startswith((mark, "##")) and (line or sql):
            if not sql:
                start = number
            sql.append(line)
    return found


def shown(value: Any) -> str:
    """A statement or a part of one, without places. Expressions stand in «»; absent parts are left out, and so is the
    source of what is taken apart."""
    if isinstance(value, Fragment):
        return f"«{value.text}»".replace("\n", "\\n")
    if isinstance(value, Name):
        return value.text
    if isinstance(value, Duration):
        return f"{value.amount} {value.unit.name}"
    if isinstance(value, Column):
        role = "" if value.role is Role.VALUE else f" {value.role.name}"
        return f"{value.name.text} {value.type}{role}{'' if value.header is None else f' {value.header!r}'}"
    if isinstance(value, Property):
        return f"{value.name.text}={value.value!r}"
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    hidden = {*_PLACES, "source"} if getattr(value, "name", None) or getattr(value, "selects", ()) else set(_PLACES)
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in hidden}
    told = [f"{name}={shown(one)}" for name, one in fields.items() if one not in (None, (), False)]
    return f"{type(value).__name__}({', '.join(told)})"
