"""Converts rows and columns to JSON in SQL. Spark's `to_json` alone cuts times to milliseconds.

A time of whole milliseconds has three digits of a second, as in `to_json`. A row with any finer time has six digits in
all of its times, because no pattern in Spark chooses the digits by the value. So has a row with a time in one of
several fields of the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.products.pipelines.core.statement import literal, quoted

if TYPE_CHECKING:
    from moldau.spark import DataFrame

SIX_DIGITS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TIMES = ("timestamp", "timestamp_ntz")

Kind = str | Mapping[str, Any]
"""A Spark type, as its `jsonValue`."""


def json_of_row(rows: DataFrame, *, with_nulls: bool = False) -> str:
    """A row as one object. `with_nulls`: includes null fields."""
    return _json("struct(*)", _any_is_finer("", rows.schema.jsonValue(), 0), with_nulls)


def json_of_column(rows: DataFrame, name: str, *, with_nulls: bool = False) -> str:
    """A struct, array or map as JSON. `with_nulls`: includes null fields."""
    return _json(quoted(name), _is_finer(quoted(name), rows.schema[name].dataType.jsonValue(), 0), with_nulls)


def _json(sql: str, is_finer: str, with_nulls: bool) -> str:
    plain = _to_json(sql, with_nulls, {})
    return f"if({is_finer}, {_to_json(sql, with_nulls, SIX_DIGITS)}, {plain})" if is_finer else plain


def _to_json(sql: str, with_nulls: bool, options: Mapping[str, str]) -> str:
    if with_nulls:
        options = {**options, "ignoreNullFields": "false"}
    texts = ", ".join(f"{literal(name)}, {literal(text)}" for name, text in options.items())
    return f"to_json({sql}, map({texts}))" if options else f"to_json({sql})"


def _is_finer(sql: str, kind: Kind, depth: int) -> str:
    """A SQL condition: whether a time in it is finer than milliseconds. Empty for a type without times. `depth`: the
    number of enclosing lambdas, whose variables need different names."""
    if isinstance(kind, str):
        return f"unix_micros(cast({sql} as timestamp)) % 1000 <> 0" if kind in _TIMES else ""
    if kind["type"] == "struct":
        return _any_is_finer(f"{sql}.", kind, depth)
    if kind["type"] == "array":
        return _some_is_finer(sql, kind["elementType"], depth)
    if kind["type"] == "map":
        # a time as a map key is written as its number of microseconds
        return _some_is_finer(f"map_values({sql})", kind["valueType"], depth)
    return ""


def _any_is_finer(before: str, struct: Mapping[str, Any], depth: int) -> str:
    """`before`: the text before the names of the fields. SQL cannot select one of two fields of the same name, and
    ignores case in names: a time in such a field counts as finer."""
    count = Counter(field["name"].lower() for field in struct["fields"])
    conditions: list[str] = []
    for field in struct["fields"]:
        is_finer = _is_finer(f"{before}{quoted(field['name'])}", field["type"], depth)
        conditions.append("true" if is_finer and count[field["name"].lower()] > 1 else is_finer)
    return _either(*conditions)


def _some_is_finer(sql: str, element: Kind, depth: int) -> str:
    variable = f"_moldau_{depth}"
    is_finer = _is_finer(variable, element, depth + 1)
    return f"exists({sql}, {variable} -> {is_finer})" if is_finer else ""


def _either(*conditions: str) -> str:
    return " or ".join(f"({one})" for one in conditions if one)
