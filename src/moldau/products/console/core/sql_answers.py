"""Answers of a SQL service as text and tables for the editor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

MAX_CELL = 4_096
"""Characters of a cell."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")

_LISTS = {
    "streams": "streams", "tables": "tables", "queries": "queries", "kafka_topics": "topics",
    "kafka_topics_extended": "topics", "function_names": "functions", "variables": "variables",
    "properties": "properties", "views": "views", "source_descriptions": "sourceDescriptions",
    "query_descriptions": "queryDescriptions",
}  # fmt: skip
"""The field of an entity that is a list of objects."""
_QUERY = ("id", "state", "sinks", "queryString")
_LEFT_OUT = ("scope", "editable", "level", "readQueries", "writeQueries", "fields", "moldau", "statement")


class Shown(msgspec.Struct, frozen=True):
    """`text`: before the table. `rows`: each as long as `columns`."""

    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def shown_entity(entity: Mapping[str, Any]) -> Shown:
    """Of any entity. An unknown or odd one is its JSON."""
    try:
        found = _shown(entity)
    except (KeyError, TypeError, AttributeError):
        found = None
    rest = {name: value for name, value in entity.items() if name not in ("@type", "statementText", "warnings")}
    return found or Shown(json.dumps(rest, indent=2, ensure_ascii=False))


def _shown(entity: Mapping[str, Any]) -> Shown | None:
    kind = str(entity.get("@type", ""))
    warnings = [str(one.get("message", "")) for one in entity.get("warnings") or ()]
    if kind == "currentStatus":
        return Shown("\n".join([str(entity["commandStatus"]["message"]), *warnings]))
    if kind == "warning_entity":
        return Shown(str(entity["message"]))
    if kind == "queries":
        return _table(entity["queries"], _QUERY)
    if kind in _LISTS:
        return _table(entity.get(_LISTS[kind]) or ())
    if kind == "sourceDescription":
        return _source(entity["sourceDescription"])
    if kind == "queryDescription":
        one = entity["queryDescription"]
        parts = (one.get("statementText"), one.get("topology"), one.get("executionPlan"))
        return Shown("\n\n".join(str(part) for part in parts if part))
    if kind == "describe_function":
        return Shown(f"{entity['name']}\n{entity['description']}")
    return None


def cell(value: object) -> str:
    """A value as text; one that is no text as JSON."""
    text = value if isinstance(value, str) else _ENCODER.encode(value).decode()
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…"


def _table(found: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Shown:
    if not found:
        return Shown("none")
    names = tuple(columns) or tuple(name for name in found[0] if name not in _LEFT_OUT)
    return Shown(columns=names, rows=tuple(tuple(cell(one.get(name)) for name in names) for one in found))


def _source(one: Mapping[str, Any]) -> Shown:
    head = f"{one['type']} {one['name']} of the topic {one['topic']} ({one['keyFormat']}, {one['valueFormat']})"
    queries = [f"read by {each['id']}" for each in one["readQueries"]]
    queries += [f"written by {each['id']}" for each in one["writeQueries"]]
    rows = tuple((str(each["name"]), type_text(each["schema"]), str(each.get("type", ""))) for each in one["fields"])
    return Shown("\n".join([head, *queries, str(one.get("statistics", ""))]).strip(), ("field", "type", "key"), rows)


def type_text(schema: Mapping[str, Any]) -> str:
    """A schema object as ksqlDB writes types."""
    base = str(schema["type"])
    if base == "STRUCT":
        fields = (f"{one['name']} {type_text(one['schema'])}" for one in schema["fields"])
        return f"STRUCT<{', '.join(fields)}>"
    if base in ("ARRAY", "MAP"):
        return f"{base}<{'STRING, ' if base == 'MAP' else ''}{type_text(schema['memberSchema'])}>"
    numbers = schema.get("parameters") or {}
    return f"DECIMAL({numbers['precision']}, {numbers['scale']})" if base == "DECIMAL" and numbers else base
