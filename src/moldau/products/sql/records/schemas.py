"""Schemas for a registry, from the columns of a relation. Any column may be null.

Columns come as Spark's own JSON of types (`jsonValue`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from moldau.products.pipelines.core.failures import FlowError

AVRO, JSON_SCHEMA, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""The registry's names of formats."""
Type = Any
"""A Spark type as its `jsonValue`: a text, or a mapping for a nested type."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_AVRO_TYPES: Mapping[str, Any] = {
    "boolean": "boolean", "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float",
    "double": "double", "string": "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip
_JSON_TYPES: Mapping[str, Any] = {
    "boolean": {"type": "boolean"}, "float": {"type": "number"}, "double": {"type": "number"},
    **{name: {"type": "integer"} for name in ("byte", "short", "integer", "long")},
    "string": {"type": "string"}, "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
}  # fmt: skip
_PROTO_TYPES = {
    "boolean": "bool", "byte": "int32", "short": "int32", "integer": "int32", "long": "int64", "float": "float",
    "double": "double", "string": "string", "binary": "bytes", "timestamp": "google.protobuf.Timestamp",
}  # fmt: skip


def made_schema(kind: str, struct: Type, name: str) -> str:
    """The schema of a struct of columns. `kind`: of the registry. `name`: of its record or message. Raises FlowError
    for a column that the format cannot have."""
    if kind == AVRO:
        return json.dumps(_avro_record(struct, name))
    if kind == JSON_SCHEMA:
        return json.dumps({"title": name, **_json_object(struct)})
    return "\n".join(['syntax = "proto3";', *_imports(struct), *_message(struct, name, "")]) + "\n"


def made_bare_schema(kind: str, column: str, of_column: Type) -> str:
    """The schema of a value by itself, which is not null: a key of one column. `kind`: AVRO or JSON_SCHEMA."""
    made = _avro(column, of_column, column) if kind == AVRO else _json(column, of_column)
    return json.dumps(made)


def _lacks(kind: str, column: str, of_column: Type) -> FlowError:
    name = of_column if isinstance(of_column, str) else of_column["type"]
    return FlowError(f"the format {kind} has no type for {column!r}, which is {name}: cast it, for example to STRING")


def _name(kind: str, column: str) -> str:
    if not _NAME.fullmatch(column):
        raise FlowError(f"the format {kind} has no column of the name {column!r}: letters, digits and _ are allowed")
    return column


# --- Avro ---


def _avro_record(struct: Type, name: str) -> dict[str, Any]:
    fields = [
        {
            "name": _name("AVRO", field["name"]),
            "type": ["null", _avro(field["name"], field["type"], f"{name}_{field['name']}")],
            "default": None,
        }
        for field in struct["fields"]
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro(column: str, kind: Type, name: str) -> Any:
    """`name`: for a record, which has a name of its own in the whole schema."""
    if isinstance(kind, str):
        if decimal := _DECIMAL.fullmatch(kind):
            precision, scale = map(int, decimal.groups())
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        if kind.startswith("time("):
            return {"type": "long", "logicalType": "time-micros"}
        if kind not in _AVRO_TYPES:
            raise _lacks("AVRO", column, kind)
        return _AVRO_TYPES[kind]
    if kind["type"] == "struct":
        return _avro_record(kind, name)
    if kind["type"] == "array":
        return {"type": "array", "items": ["null", _avro(column, kind["elementType"], f"{name}_item")]}
    if kind["type"] == "map" and kind["keyType"] == "string":
        return {"type": "map", "values": ["null", _avro(column, kind["valueType"], f"{name}_value")]}
    raise _lacks("AVRO", column, kind)


# --- JSON Schema ---


def _json_object(struct: Type) -> dict[str, Any]:
    properties = {
        field["name"]: {"oneOf": [{"type": "null"}, _json(field["name"], field["type"])]} for field in struct["fields"]
    }
    return {"type": "object", "properties": properties}


def _json(column: str, kind: Type) -> dict[str, Any]:
    if isinstance(kind, str):
        if kind not in _JSON_TYPES:
            raise _lacks("JSON_SR", column, kind)
        return dict(_JSON_TYPES[kind])
    if kind["type"] == "struct":
        return _json_object(kind)
    if kind["type"] == "array":
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, _json(column, kind["elementType"])]}}
    if kind["type"] == "map" and kind["keyType"] == "string":
        nullable = {"oneOf": [{"type": "null"}, _json(column, kind["valueType"])]}
        return {"type": "object", "additionalProperties": nullable}
    raise _lacks("JSON_SR", column, kind)


# --- Protobuf ---


def _message(struct: Type, name: str, indent: str) -> Iterator[str]:
    """The numbers of the fields are their places, so a later version may add columns at the end."""
    yield f"{indent}message {name} {{"
    for number, field in enumerate(struct["fields"], 1):
        column, kind = _name("PROTOBUF", field["name"]), field["type"]
        inner = _inner_struct(kind)
        if inner is not None:
            yield from _message(inner, f"{column}_type", f"{indent}  ")
        yield f"{indent}  {_proto_field(column, kind)} {column} = {number};"
    yield f"{indent}}}"


def _inner_struct(kind: Type) -> Type | None:
    while not isinstance(kind, str) and kind["type"] in ("array", "map"):
        kind = kind.get("elementType", kind.get("valueType"))
    return None if isinstance(kind, str) else kind


def _proto_field(column: str, kind: Type) -> str:
    if isinstance(kind, str) or kind["type"] == "struct":
        return f"optional {_proto(column, kind)}"
    if kind["type"] == "array":
        return f"repeated {_proto(column, kind['elementType'])}"
    key = _PROTO_TYPES.get(kind["keyType"]) if isinstance(kind["keyType"], str) else None
    if key not in ("bool", "int32", "int64", "string"):
        raise _lacks("PROTOBUF", column, kind)
    return f"map<{key}, {_proto(column, kind['valueType'])}>"


def _proto(column: str, kind: Type) -> str:
    if isinstance(kind, str) and kind in _PROTO_TYPES:
        return _PROTO_TYPES[kind]
    if not isinstance(kind, str) and kind["type"] == "struct":
        return f"{column}_type"
    raise _lacks("PROTOBUF", column, kind)


def _imports(struct: Type) -> list[str]:
    has_times = '"timestamp"' in json.dumps(struct)
    return ['import "google/protobuf/timestamp.proto";'] if has_times else []
