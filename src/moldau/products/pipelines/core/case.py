"""A test in a pipeline file: input records of sources, and the expected rows of flows or targets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

Row = Mapping[str, object]

_JSON = msgspec.json.Encoder(decimal_format="number")


class Expected(msgspec.Struct, frozen=True):
    """`name`: a flow or target. `rows`: in any order; columns that no row names are not compared. Numbers with a
    fraction are Decimals, because floats can make different numbers equal."""

    name: str
    line: int
    rows: tuple[Row, ...]


class Case(msgspec.Struct, frozen=True):
    """`given`: micro-batches of records, by source. A source that is not listed has no records."""

    name: str
    line: int
    given: Mapping[str, tuple[tuple[object, ...], ...]]
    expected: tuple[Expected, ...]


class Difference(msgspec.Struct, frozen=True):
    """Expected rows that are absent, and rows that were not expected."""

    absent: tuple[Row, ...]
    surplus: tuple[Row, ...]

    def lines(self) -> list[str]:
        """As a diff: `-` marks an absent row, `+` an unexpected one."""
        texts = [("-", row) for row in self.absent] + [("+", row) for row in self.surplus]
        return [f"{sign} {_JSON.encode(row).decode()}" for sign, row in texts]


def compare(expected: Sequence[Row], found: Sequence[Row]) -> Difference | None:
    """None if both have the same rows, in any order. Ignores columns that no expected row names."""
    columns = dict.fromkeys(name for row in expected for name in row)
    if columns:
        found = [{name: row[name] for name in columns if name in row} for row in found]
    left = [_normal_row(row) for row in found]
    known = [_marked(row) for row in left]
    absent = []
    for row in map(_normal_row, expected):
        if (wanted := _marked(row)) in known:
            place = known.index(wanted)
            del known[place], left[place]
        else:
            absent.append(row)
    return Difference(tuple(absent), tuple(left)) if absent or left else None


def _normal_row(row: Row) -> Row:
    # JSON keys are texts, but YAML may have read them as numbers
    return {_text_of_key(name): _normal(value) for name, value in row.items()}


def _text_of_key(name: object) -> str:
    return str(name) if isinstance(name, str | Decimal) else json.dumps(name)


def _marked(value: object) -> object:
    """`value` in a form in which `true` differs from 1, and numbers are compared by their digits."""
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {name: _marked(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_marked(one) for one in value]
    return value


def _normal(value: object) -> object:
    """Times are compared as moments, however they are written. A time without a zone is UTC."""
    if isinstance(value, str) and len(value) >= len("2026-01-01T00:00") and value[4:5] == value[7:8] == "-":
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return value
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        digits = "microseconds" if moment.microsecond % 1_000 else "milliseconds"
        return moment.isoformat(timespec=digits).replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return _normal_row(value)
    if isinstance(value, list | tuple):
        return [_normal(one) for one in value]
    return value
