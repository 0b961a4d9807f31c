"""Values of rows as text for people, and as JSON."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import msgspec

from moldau.products.service.look.words import visible

MAX_CELL = 200
"""The most characters of a cell in a table for people."""
_ENCODER = msgspec.json.Encoder(enc_hook=str)
"""Decimals are strings, times in UTC, bytes base64."""


def cell(value: object) -> str:
    """One line for people, shortened."""
    match value:
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case str():
            text = value
        case datetime.datetime():
            text = value.isoformat(" ")
        case bytes() | bytearray():
            text = f"0x{bytes(value).hex()}"
        case list() | tuple() | dict():
            text = json_line(value)
        case _:
            text = str(value)
    shown = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= MAX_CELL else f"{shown[: MAX_CELL - 1]}…"


def json_line(value: object) -> str:
    """One line of JSON. Numbers that JSON has not, such as NaN, are null."""
    return _ENCODER.encode(value).decode()


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with each column as wide as its longest cell."""
    lines = [columns, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def named(columns: Sequence[tuple[str, str]], values: Sequence[object]) -> Mapping[str, object]:
    """The values by the names of their columns; a name that stands twice gets a number."""
    found: dict[str, object] = {}
    for (name, _), value in zip(columns, values, strict=True):
        given, number = name, 2
        while given in found:
            given, number = f"{name}_{number}", number + 1
        found[given] = value
    return found
