"""Reads a type, with the names of ksqlDB or of Spark, as Spark's name of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.products.pipelines.core.column_types import (
    MICROSECONDS,
    MOST_DIGITS,
    NANOSECONDS,
    SYNONYMS,
    nearest_type,
)
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.tokens import Token
from moldau.types import nearest

MAX_DEPTH = 50
"""How deep types may be nested."""

_OWN = {"bytes": "binary", "string": "string"}
"""ksqlDB's names that Spark does not have, and those of one word without a length."""
_DECIMALS = ("decimal", "dec", "numeric")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KNOWN = "BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, BYTES, DATE, TIME, TIMESTAMP, ARRAY, MAP and STRUCT"


def read_type(cursor: Cursor, named: Mapping[str, str], depth: int = 0) -> str:
    """Takes a type and returns its name in Spark's DDL. `named`: the types of CREATE TYPE, by their names in lower
    case. Raises SqlError."""
    if depth > MAX_DEPTH:
        raise cursor.error(f"types are nested deeper than {MAX_DEPTH}")
    token = cursor.next
    if not token.is_name:
        raise cursor.unexpected("a type")
    name = token.value.lower()
    if name in named:
        cursor.take()
        return named[name]
    found = _of_one_word(cursor, name) or _with_numbers(cursor, name) or _nested(cursor, name, named, depth)
    if found is None:
        raise _unknown(cursor, token, named)
    return found


def _of_one_word(cursor: Cursor, name: str) -> str | None:
    if name.startswith("timestamp"):
        return None
    found = _OWN.get(name) or SYNONYMS.get(name)
    if found is not None:
        cursor.take()
    return found


def _with_numbers(cursor: Cursor, name: str) -> str | None:
    """A type that may have numbers in parentheses."""
    if name in ("varchar", "char", "character"):
        cursor.take()
        if cursor.says("("):
            raise cursor.error(f"a text has no length: write STRING, or {name.upper()} alone")
        return "string"
    if name in _DECIMALS:
        return _decimal(cursor)
    if name == "time" or (name in SYNONYMS and name.startswith("timestamp")):
        cursor.take()
        digits = MICROSECONDS
        if cursor.takes("("):
            digits = cursor.whole_number("the digits of a second", most=NANOSECONDS)
            cursor.expect(")")
        kind = SYNONYMS.get(name, name)
        return kind if digits == MICROSECONDS and kind != "time" else f"{kind}({digits})"
    return None


def _decimal(cursor: Cursor) -> str:
    cursor.take()
    if not cursor.takes("("):
        return "decimal(10,0)"
    precision = cursor.whole_number("the number of digits", least=1, most=MOST_DIGITS)
    scale = 0
    if cursor.takes(","):
        scale = cursor.whole_number("the digits after the point", most=precision)
    cursor.expect(")")
    return f"decimal({precision},{scale})"


def _nested(cursor: Cursor, name: str, named: Mapping[str, str], depth: int) -> str | None:
    if name not in ("array", "map", "struct"):
        return None
    cursor.take()
    if name == "struct" and cursor.takes("<>"):
        return "struct<>"
    cursor.expect("<")
    if name == "struct":
        inner = _fields(cursor, named, depth)
    else:
        inner = read_type(cursor, named, depth + 1)
        if name == "map":
            cursor.expect(",")
            inner = f"{inner},{read_type(cursor, named, depth + 1)}"
    cursor.expect(">")
    return f"{name}<{inner}>"


def _fields(cursor: Cursor, named: Mapping[str, str], depth: int) -> str:
    """The fields of a struct: `a INT, b: STRING`."""
    fields: dict[str, str] = {}
    while not cursor.says(">"):
        name = cursor.name("the name of a field")
        if name.key in fields:
            raise cursor.error(f"the field `{name.text}` stands twice", at=name)
        cursor.takes(":")
        fields[name.key] = f"{in_ddl(name.text)}:{read_type(cursor, named, depth + 1)}"
        if not cursor.takes(","):
            break
    return ",".join(fields.values())


def in_ddl(name: str) -> str:
    """A name as it stands in a text of DDL."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _unknown(cursor: Cursor, token: Token, named: Mapping[str, str]) -> Exception:
    near = nearest(token.value, named, cutoff=0.7) or nearest_type(token.value)
    problem = f"there is no type `{token.value}`"
    if near is None:
        problem += f"; known are {_KNOWN}"
    return cursor.error(problem, expected="a type", near=near and near.upper())
