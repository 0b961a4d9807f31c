"""Computes the defaults of Avro fields as Apache Avro for Java does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from moldau.products.pipelines.formats.avro_schema import NO_DEFAULT, AvroField, AvroType, Json

Branch = Callable[[AvroType, int, Any], Any]
"""Builds the value of a union from the type, the place and the value of a branch."""

INTEGERS = {"int": 31, "long": 63}
"""The number of bits, without the sign."""
_NAMED_NUMBERS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def default_of(field: AvroField, branch: Branch) -> Any:
    """The default as an encoded value, without its logical type: an enum is a place, a time a number. Raises ValueError
    for a default that is absent or does not fit the field's type."""
    default = field.default
    if default is NO_DEFAULT:
        raise ValueError(f"{field.name} has no default")
    try:
        if field.type.kind in ("float", "double") and isinstance(default, str):
            default = _number(default)
        return _value(field.type, default, branch)
    except ValueError as error:
        raise ValueError(f"the default of {field.name}: {error}") from error


def _number(text: str) -> float:
    if text not in _NAMED_NUMBERS and not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    return float(_NAMED_NUMBERS.get(text, text))


def _value(kind: AvroType, default: Json, branch: Branch) -> Any:
    if kind.kind == "union":
        return _union(kind, default, branch)
    if kind.kind == "record" and isinstance(default, dict):
        return {one.name: _inner(one, default, branch) for one in kind.fields}
    if kind.kind == "array" and isinstance(default, list):
        return [_value(kind.inner, one, branch) for one in default]
    if kind.kind == "map" and isinstance(default, dict):
        return {key: _value(kind.inner, one, branch) for key, one in default.items()}
    if kind.kind == "enum" and default in kind.symbols:
        return kind.symbols.index(default)
    if kind.kind in ("bytes", "fixed") and isinstance(default, str):
        return _bytes(kind, default)
    if _is_primitive(kind.kind, default):
        return float(default) if kind.kind in ("float", "double") else default
    raise ValueError(f"{str(default)[:100]!r} is no {kind.name or kind.kind}")


def _is_primitive(kind: str, default: Json) -> bool:
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if kind in INTEGERS:
        return is_number and isinstance(default, int) and -(1 << INTEGERS[kind]) <= default < 1 << INTEGERS[kind]
    if kind in ("float", "double"):
        return is_number
    known = {"null": default is None, "boolean": isinstance(default, bool), "string": isinstance(default, str)}
    return known.get(kind, False)


def _inner(field: AvroField, given: dict[str, Json], branch: Branch) -> Any:
    return _value(field.type, given[field.name], branch) if field.name in given else default_of(field, branch)


def _union(kind: AvroType, default: Json, branch: Branch) -> Any:
    for place, one in enumerate(kind.branches):
        try:
            return branch(kind, place, _value(one, default, branch))
        except ValueError:
            continue
    raise ValueError(f"{str(default)[:100]!r} is of no type of the union")


def _bytes(kind: AvroType, text: str) -> bytes:
    try:
        found = text.encode("iso-8859-1")
    except UnicodeEncodeError:
        raise ValueError("bytes are code points up to 255") from None
    if kind.kind == "fixed" and len(found) != kind.size:
        raise ValueError(f"{len(found)} bytes are no {kind.name} of {kind.size}")
    return found
