"""Rows of /inserts-stream as INSERT statements.

A row becomes an INSERT with a literal of the column's type for each value, so what a row may hold and how it is written
is decided in one place, where INSERT ... VALUES runs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.parser.script import Parsed, parse_script
from moldau.products.sql.language.statements import Role
from moldau.products.sql.serving.http.errors import BAD_REQUEST, RejectedRequest
from moldau.products.sql.serving.http.schemas import KsqlType, ksql_type
from moldau.products.sql.serving.http.values import encoded
from moldau.types import nearest

MAX_ROWS = 500
"""Of one INSERT."""
_NOT_WRITTEN = (Role.HEADERS, Role.HEADER)
_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Bits of Spark's types."""

_ROW = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
"""Keeps all digits of a number."""

Literals = Mapping[str, str]
"""The columns of a row with their values in SQL."""


def literals_of(line: bytes, relation: Relation) -> Literals:
    """Of the JSON object of a row. Raises RejectedRequest."""
    try:
        row = _ROW.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectedRequest(BAD_REQUEST, f"the row is no JSON object: {error}") from error
    if relation.columns is None:
        raise RejectedRequest(BAD_REQUEST, f"the columns of {relation.name} are not known yet: try again")
    columns = {column.name.key: column for column in relation.columns if column.role not in _NOT_WRITTEN}
    found: dict[str, str] = {}
    for name, value in row.items():
        key = name.strip("`").lower()
        if key not in columns:
            near = nearest(key, columns)
            hint = "" if near is None else f"; did you mean {columns[near].name.text}?"
            raise RejectedRequest(BAD_REQUEST, f"{relation.name} has no column {name}{hint}")
        column = columns[key]
        found[column.name.text] = _literal(value, ksql_type(column.type), column.name.text)
    if not found:
        raise RejectedRequest(BAD_REQUEST, "the row has no column")
    return found


def insert_of(relation: Relation, rows: Sequence[Literals]) -> Parsed:
    """One INSERT of rows that name the same columns. Raises SqlError."""
    names = ", ".join(_quoted(name) for name in rows[0])
    values = ", ".join(f"({', '.join(row.values())})" for row in rows)
    text = f"INSERT INTO {_quoted(relation.name)} ({names}) VALUES {values}"
    return parse_script(text, substitutes=False)[0]


def batches(rows: Sequence[Literals]) -> list[list[Literals]]:
    """Neighbours that name the same columns, at most MAX_ROWS in each."""
    found: list[list[Literals]] = []
    for row in rows:
        if found and len(found[-1]) < MAX_ROWS and list(found[-1][0]) == list(row):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _literal(value: object, kind: KsqlType, place: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind.spark})"
    match kind.base, value:
        case "STRUCT", dict():
            return _struct(value, kind, place)
        case "MAP", dict() if kind.key is not None and kind.member is not None:
            pairs = [
                f"{_literal(key, kind.key, place)}, {_literal(one, kind.member, f'{place}[{key!r}]')}"
                for key, one in value.items()
            ]
            return f"CAST(map({', '.join(pairs)}) AS {kind.spark})"
        case "ARRAY", list() if kind.member is not None:
            member = kind.member
            parts = [_literal(one, member, f"{place}[{index}]") for index, one in enumerate(value)]
            return f"CAST(array({', '.join(parts)}) AS {kind.spark})"
        case "BYTES", _:
            return _bytes(value, place)
    return f"CAST({text_literal(_scalar(value, kind, place))} AS {kind.spark})"


def _struct(value: dict[str, object], kind: KsqlType, place: str) -> str:
    fields = {name.lower(): (name, one) for name, one in kind.fields}
    given = {name.lower(): one for name, one in value.items()}
    for name in value:
        if name.lower() not in fields:
            raise RejectedRequest(BAD_REQUEST, f"{place} has no field {name}")
    parts = [
        f"{text_literal(name)}, {_literal(given.get(key), one, f'{place}.{name}')}"
        for key, (name, one) in fields.items()
    ]
    return f"named_struct({', '.join(parts)})"


def _scalar(value: object, kind: KsqlType, place: str) -> str:
    """The text of the value, which a CAST reads."""
    is_text, is_number = (
        isinstance(value, str),
        isinstance(value, int | float | Decimal) and not isinstance(value, bool),
    )
    match kind.base:
        case "BOOLEAN" if isinstance(value, bool):
            return "true" if value else "false"
        case "INTEGER" | "BIGINT" if isinstance(value, int) and not isinstance(value, bool):
            bits = _WHOLE.get(kind.spark.lower(), 64)
            if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
                return str(value)
            raise RejectedRequest(BAD_REQUEST, f"{place} is {kind.spark}: {value} is out of range")
        case "DOUBLE" | "DECIMAL" if is_number or (is_text and _is_number(str(value))):
            return str(value)
        case "STRING" | "DATE" | "TIME" | "TIMESTAMP" if is_text:
            return str(value)
    raise RejectedRequest(BAD_REQUEST, f"{place} is {kind.text}, and the row gives {encoded(value).decode()[:100]}")


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def _bytes(value: object, place: str) -> str:
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except binascii.Error:
        data = None
    if data is None:
        raise RejectedRequest(BAD_REQUEST, f"{place} is BYTES: give it in base64")
    return f"unbase64('{base64.b64encode(data).decode()}')"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def text_literal(text: str) -> str:
    """A string of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
