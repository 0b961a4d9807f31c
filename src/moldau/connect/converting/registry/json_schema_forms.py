"""A schema of a record as a JSON Schema, as Confluent's JsonSchemaData writes it, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.json_reading import reader
from moldau.connect.converting.json_writing import Form, writer
from moldau.connect.data.schema import DECIMAL, Field, Schema, Type

_NUMBERS = {
    Type.INT8: "integer",
    Type.INT16: "integer",
    Type.INT32: "integer",
    Type.INT64: "integer",
    Type.FLOAT32: "number",
    Type.FLOAT64: "number",
}
_WORDS = {Type.FLOAT32: "float32", Type.FLOAT64: "float64"}
_BACK = {_WORDS.get(kind, kind.value): kind for kind in Type}
_PLAIN = {"integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING}
MAX_DEPTH = 100
"""Types in each other; a schema that is deeper is rejected."""


def to_json_schema(schema: Schema, form: Form, index: int | None = None) -> dict[str, Any]:
    """`index`: of the field that has the schema. Raises DataError."""
    written = _base(schema, form)
    if schema.name is not None:
        written["title"] = schema.name
    if schema.version is not None:
        written["connect.version"] = schema.version
    if schema.doc is not None:
        written["description"] = schema.doc
    if schema.parameters:
        written["connect.parameters"] = dict(schema.parameters)
    if schema.optional:
        written = {"oneOf": [{"type": "null"}, written]}
    if schema.default is not None:
        written["default"] = writer(schema, form)(schema.default)
    if index is not None:
        written["connect.index"] = index
    return written


def _base(schema: Schema, form: Form) -> dict[str, Any]:
    match schema.type:
        case Type.STRING | Type.BOOLEAN:
            return {"type": schema.type.value}
        case Type.BYTES:
            is_number = schema.name == DECIMAL and form.is_numeric
            return {"type": "number" if is_number else "string", "connect.type": "bytes"}
        case Type.ARRAY:
            return {"type": "array", "items": to_json_schema(_some(schema.values), form)}
        case Type.MAP:
            return _map(_some(schema.keys), _some(schema.values), form)
        case Type.STRUCT:
            fields = enumerate(schema.fields)
            return {
                "type": "object",
                "properties": {one.name: to_json_schema(one.schema, form, index) for index, one in fields},
            }
    return {"type": _NUMBERS[schema.type], "connect.type": _WORDS.get(schema.type, schema.type.value)}


def _map(keys: Schema, values: Schema, form: Form) -> dict[str, Any]:
    if keys.type is Type.STRING and not keys.optional:
        return {"type": "object", "connect.type": "map", "additionalProperties": to_json_schema(values, form)}
    properties = {"key": to_json_schema(keys, form, 0), "value": to_json_schema(values, form, 1)}
    return {"type": "array", "connect.type": "map", "items": {"type": "object", "properties": properties}}


def from_json_schema(found: Any, form: Form, version: int | None = None) -> Schema:
    """Reads what `to_json_schema` writes, and plain types, objects, arrays, references inside the schema and unions
    with null. Raises DataError for everything else, by its word."""
    return _Reading(found, form).read(found, version=version)


class _Reading:
    def __init__(self, whole: Any, form: Form) -> None:
        self._whole = whole
        self._form = form
        self._depth = 0

    def read(self, found: Any, optional: bool = False, version: int | None = None) -> Schema:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DataError(f"The JSON Schema has more than {MAX_DEPTH} types in each other, or one contains itself")
        try:
            return self._read(found, optional, version)
        finally:
            self._depth -= 1

    def _read(self, found: Any, optional: bool, version: int | None) -> Schema:
        if not isinstance(found, dict):
            raise DataError("A JSON Schema that is true or false has no schema of a record")
        if "$ref" in found:
            return self.read(self._referenced(str(found["$ref"])), optional, version)
        inner = _without_null(found)
        if inner is not None:
            schema = self.read(inner, optional=True, version=version)
        else:
            own = found.get("connect.version", version)
            schema = replace(
                self._of_type(found),
                optional=optional,
                name=found.get("title"),
                version=own,
                doc=found.get("description"),
                parameters={str(name): str(value) for name, value in found.get("connect.parameters", {}).items()},
            )
        default = found.get("default")
        return schema if default is None else replace(schema, default=reader(schema, self._form)(default))

    def _of_type(self, found: dict[str, Any]) -> Schema:
        kind, own = found.get("type"), found.get("connect.type")
        for word in ("allOf", "anyOf", "oneOf", "not"):
            if word in found and kind is None:
                raise DataError(f"{word} of a JSON Schema is not read, other than a union with null")
        if own == "map":
            return self._map(found)
        if kind == "array":
            return Schema(Type.ARRAY, values=self.read(found.get("items")))
        if kind == "object":
            properties = sorted(found.get("properties", {}).items(), key=_index)
            return Schema(Type.STRUCT, fields=tuple(Field(name, self.read(one)) for name, one in properties))
        if kind not in _PLAIN:
            raise DataError(f"The type {kind} of a JSON Schema is not read")
        return Schema(_BACK.get(str(own), _PLAIN[str(kind)]))

    def _map(self, found: dict[str, Any]) -> Schema:
        if found.get("type") == "object":
            return Schema(Type.MAP, keys=Schema(Type.STRING), values=self.read(found.get("additionalProperties")))
        pair = (found.get("items") or {}).get("properties") or {}
        return Schema(Type.MAP, keys=self.read(pair.get("key")), values=self.read(pair.get("value")))

    def _referenced(self, name: str) -> Any:
        if not name.startswith("#/"):
            raise DataError(f"The reference {name} of a JSON Schema is not read")
        found = self._whole
        for part in name[2:].split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        return found


def _without_null(found: dict[str, Any]) -> dict[str, Any] | None:
    """The other member of a union with null, None if `found` is no such union."""
    for word in ("oneOf", "anyOf"):
        members = found.get(word)
        others = [one for one in members if one != {"type": "null"}] if isinstance(members, list) else []
        if len(others) == 1 and isinstance(members, list) and len(members) == 2:
            other = others[0]
            return other if isinstance(other, dict) else None
    kind = found.get("type")
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind:
        rest = {key: value for key, value in found.items() if key != "default"}
        return {**rest, "type": next(one for one in kind if one != "null")}
    return None


def _index(named: tuple[str, Any]) -> int:
    """Properties without an index keep their order, after those that have one."""
    found = named[1].get("connect.index") if isinstance(named[1], dict) else None
    return found if isinstance(found, int) else 1 << 31


def _some(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("An array or a map needs a schema of its values")
    return schema
