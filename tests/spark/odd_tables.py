"""Odd values and odd names, and the result in each target. A new target needs a row of TARGETS and its reader in
`test_odd_tables`; a new source or format needs a row there.

A cell is right, or its column is rejected before the first batch, with its name, its type, and a remedy.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

NO_UTF8 = "cast(X'62fffe' as string)"
LARGE = 1 << 20
_FIRST, _LAST = "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


VALUES: Mapping[str, Mapping[str, Any]] = {
    "boolean": {"true": True, "false": False},
    "tinyint": {"'-128'": -128, "'127'": 127},
    "smallint": {"'-32768'": -32768, "'32767'": 32767},
    "int": {"'-2147483648'": -(2**31), "'2147483647'": 2**31 - 1},
    "bigint": {"'-9223372036854775808'": -(2**63), "'9223372036854775807'": 2**63 - 1},
    "float": {
        "'-3.4028235E38'": -3.4028234663852886e38, "'1.4E-45'": 1.401298464324817e-45, "'NaN'": math.nan,
        "'-0.0'": -0.0, "'Infinity'": math.inf,
    },
    "double": {
        "'-1.7976931348623157E308'": -1.7976931348623157e308, "'4.9E-324'": 5e-324, "'NaN'": math.nan, "'-0.0'": -0.0,
        "'-Infinity'": -math.inf,
    },
    "decimal(38,10)": {
        "'-9999999999999999999999999999.9999999999'": Decimal("-9999999999999999999999999999.9999999999"),
        "'0.0000000001'": Decimal("0.0000000001"),
    },
    "string": {
        "''": "", f"repeat('x', {LARGE})": "x" * LARGE, NO_UTF8: "b\ufffd\ufffd",
        "'\u00e9\U0001f600\u2028'": "\u00e9\U0001f600\u2028",
        "char(0)": "\0", "'\"a\", ''b''\n\r'": "\"a\", 'b'\n\r", r"r'\u0000'": r"\u0000",
    },
    "binary": {"''": b"", "X'62fffe00'": b"b\xff\xfe\0", f"cast(repeat('x', {LARGE}) as binary)": b"x" * LARGE},
    "date": {"'0001-01-01'": date(1, 1, 1), "'9999-12-31'": date(9999, 12, 31)},
    "timestamp": {
        f"'{_FIRST}Z'": at(f"{_FIRST}+00:00"), f"'{_LAST}Z'": at(f"{_LAST}+00:00"),
        "'1969-12-31T23:59:59.999999Z'": at("1969-12-31T23:59:59.999999+00:00"),
    },
    "timestamp_ntz": {f"'{_FIRST}'": at(_FIRST), f"'{_LAST}'": at(_LAST)},
    "time(6)": {"'00:00:00'": time(0), "'23:59:59.999999'": time(23, 59, 59, 999_999)},
    "array<string>": {f"array('', null, {NO_UTF8}, char(0))": ["", None, "b\ufffd\ufffd", "\0"], "array()": []},
    "map<string,string>": {f"map('k', {NO_UTF8})": {"k": "b\ufffd\ufffd"}, "map()": {}},
    "struct<a:array<struct<b:string>>>": {
        f"named_struct('a', array(named_struct('b', {NO_UTF8})))": {"a": [{"b": "b\ufffd\ufffd"}]},
        "named_struct('a', array())": {"a": []},
    },
}  # fmt: skip
"""By column type: SQL of a value, and the value. Each column has a null too."""

MORE_TYPES = (
    "interval year to month", "interval day to second", "variant", "void", "time(9)", "struct<x:time(9)>",
    "array<interval day to second>", "map<string,variant>",
)  # fmt: skip
"""Types without a cell in VALUES: a target that supports one stores its null."""

ODD_NAMES = (
    "log.level", "a b", "größe", 'say "x"', "it's", "back`tick", "select", "UP", "a,b", "a;b", "{x}", "(y)", "tab\tin",
    "line\nin", "a=b", "100%", "🌊", "-", "1st", "_x", "a.b.c", "$ref", "a/b", "back\\slash", "?", "*", "x" * 60,
)  # fmt: skip
"""Of columns."""


def column_of(kind: str) -> str:
    return "c_" + "".join(letter if letter.isalnum() else "_" for letter in kind)


def rows_of(kinds: Iterable[str]) -> str:
    """SQL of the values of these types: a column for each type, a row for each value, and a row of nulls."""
    kinds = list(kinds)
    count = 1 + max(len(VALUES[kind]) for kind in kinds)
    rows = []
    for place in range(count):
        cells = [f"{place} as id"]
        for kind in kinds:
            values = list(VALUES[kind])
            cells.append(f"cast({values[place] if place < len(values) else 'null'} as {kind}) as {column_of(kind)}")
        rows.append(f"select {', '.join(cells)}")
    return " union all ".join(rows)


@dataclass(frozen=True)
class OddTarget:
    """`stored`: how a place without room for a value stores it, by the name of its type; unchanged if not listed.
    `refused`: types of VALUES and of MORE_TYPES that have no columns there."""

    refused: tuple[str, ...] = ()
    stored: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


def _of_sqlite(value: float) -> float | None:
    """It has no NaN, and no signed zero."""
    return None if math.isnan(value) else value + 0.0


def _without_zero(value: Any) -> Any:
    """PostgreSQL texts cannot contain the character 0."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    return [_without_zero(one) for one in value] if isinstance(value, list) else value


_NO_COLUMN = ("variant", "map<string,variant>", "time(9)", "struct<x:time(9)>")
_INTERVALS = ("interval year to month", "interval day to second", "array<interval day to second>")

TARGETS: Mapping[str, OddTarget] = {
    "path": OddTarget((*_NO_COLUMN, "interval year to month")),
    "delta": OddTarget((*_NO_COLUMN, *_INTERVALS, "void", "time(6)")),
    "iceberg": OddTarget((*_NO_COLUMN, *_INTERVALS, "void")),
    "sqlite": OddTarget((*_NO_COLUMN, *_INTERVALS), {"float": _of_sqlite, "double": _of_sqlite}),
    "postgresql": OddTarget(
        ("time(9)", "struct<x:time(9)>", *_INTERVALS[:2], "variant", "void"),
        {"string": _without_zero, "array<string>": _without_zero},
    ),
    "topic": OddTarget(),
    "webhook": OddTarget(),
    "terminal": OddTarget(),
}


def same(kind: str, found: Any, expected: Any) -> bool:
    """Whether a cell is the value. A place without the type has a text, which the guide specifies: JSON, or a time."""
    if expected is None or found is None:
        return found is expected
    if isinstance(expected, float):
        found = float(found)
        if kind == "float":
            found, expected = float(np.float32(found)), float(np.float32(expected))
        return repr(found) == repr(expected)
    if isinstance(found, str):
        if isinstance(expected, date | time):  # a datetime is a date
            found = type(expected).fromisoformat(found)
        elif isinstance(expected, Decimal):
            assert "E" not in found
            found = Decimal(found)
        elif isinstance(expected, bytes):
            found = b64decode(found)
        elif isinstance(expected, list | dict):
            found = of_json(found)
    return bool(found == expected)


def of_json(text: str) -> Any:
    """Strict, as other programs read it."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse, parse_float=Decimal)
