"""A schema as JSON, as the envelope of JsonConverter has it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.json_reading import reader
from moldau.connect.converting.json_writing import Form, writer
from moldau.connect.data.schema import Field, Schema, Type

MAX_DEPTH = 100
"""Types in each other; a schema that is deeper is rejected."""


def schema_to_json(schema: Schema, form: Form) -> dict[str, object]:
    """Keys in Kafka's order: the bytes are the same. Raises DataError if the default does not fit."""
    written: dict[str, object] = {"type": schema.type.value}
    match schema.type:
        case Type.ARRAY:
            written["items"] = _nested(schema.values, form)
        case Type.MAP:
            written["keys"] = _nested(schema.keys, form)
            written["values"] = _nested(schema.values, form)
        case Type.STRUCT:
            written["fields"] = [{**schema_to_json(one.schema, form), "field": one.name} for one in schema.fields]
    written["optional"] = schema.optional
    named = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    written |= {key: value for key, value in named.items() if value is not None}
    if schema.parameters:
        written["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        written["default"] = writer(schema, form)(schema.default)
    return written


def _nested(schema: Schema | None, form: Form) -> dict[str, object] | None:
    return None if schema is None else schema_to_json(schema, form)


def schema_from_json(found: object, form: Form, depth: int = 0) -> Schema | None:
    """None of a null. `found` is decoded JSON. Raises DataError."""
    if found is None:
        return None
    name = found.get("type") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    if depth > MAX_DEPTH:
        raise DataError(f"The schema has more than {MAX_DEPTH} types in each other")
    try:
        kind = Type(name)
    except ValueError:
        raise DataError(f"Unknown schema type: {name}") from None
    version, parameters = found.get("version"), found.get("parameters")
    fields, keys, values = _parts(kind, found, form, depth)
    schema = Schema(
        kind,
        optional=found.get("optional") is True,
        name=_text(found, "name"),
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=_text(found, "doc"),
        parameters=_parameters(parameters) if isinstance(parameters, dict) else {},
        fields=fields,
        keys=keys,
        values=values,
    )
    if found.get("default") is None:
        return schema
    return replace(schema, default=reader(schema, form)(found["default"]))


def _parts(
    kind: Type, found: Mapping[str, object], form: Form, depth: int
) -> tuple[tuple[Field, ...], Schema | None, Schema | None]:
    """The fields, the schema of keys and that of values."""
    match kind:
        case Type.ARRAY:
            if found.get("items") is None:
                raise DataError("Array schema did not specify the element type")
            return (), None, schema_from_json(found["items"], form, depth + 1)
        case Type.MAP:
            for key, word in (("keys", "key"), ("values", "value")):
                if key not in found:
                    raise DataError(f"Map schema did not specify the {word} type")
            keys = schema_from_json(found["keys"], form, depth + 1)
            return (), keys, schema_from_json(found["values"], form, depth + 1)
        case Type.STRUCT:
            return _fields(found.get("fields"), form, depth), None, None
    return (), None, None


def _fields(found: object, form: Form, depth: int) -> tuple[Field, ...]:
    if not isinstance(found, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: dict[str, Field] = {}
    for one in found:
        name = one.get("field") if isinstance(one, dict) else None
        schema = schema_from_json(one, form, depth + 1)
        if not isinstance(name, str) or schema is None:
            raise DataError("Struct schema's field name not specified properly")
        if name in fields:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        fields[name] = Field(name, schema)
    return tuple(fields.values())


def _text(found: Mapping[str, object], key: str) -> str | None:
    value = found.get(key)
    return value if isinstance(value, str) else None


def _parameters(found: Mapping[str, object]) -> dict[str, str]:
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    if len(texts) < len(found):
        raise DataError("Schema parameters must have string values.")
    return texts
