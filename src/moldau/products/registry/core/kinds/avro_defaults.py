"""Checks that the default of each field has its type. Avro for Java requires it, Avro for Python does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from avro.schema import ArraySchema, Field, MapSchema, RecordSchema, UnionSchema
from avro.schema import Schema as AvroSchema

_BITS = {"int": 31, "long": 63}
"""Number of bits without the sign."""
_TEXTS = ("string", "bytes", "enum", "fixed")
_NUMBER = re.compile(r"NaN|[-+]?(Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)")
"""A text with this form may be the default of a float or double field."""
_SHOWN = 100


def bad_defaults(schema: AvroSchema) -> Iterator[str]:
    """Yields an error for each default whose type is not its field's, in the records of the schema and inside them."""
    for record in _records(schema, {}):
        for field in record.fields:
            if field.has_default and not _is_default(field):
                shown = str(field.default)[:_SHOWN]
                yield f"the default {shown!r} of {record.fullname}.{field.name} is no {_said(field.type)}"


def _records(schema: AvroSchema, seen: dict[int, AvroSchema]) -> Iterator[RecordSchema]:
    if id(schema) in seen:
        return
    seen[id(schema)] = schema
    inner: list[AvroSchema] = []
    if isinstance(schema, RecordSchema):
        yield schema
        inner = [field.type for field in schema.fields]
    elif isinstance(schema, UnionSchema):
        inner = list(schema.schemas)
    elif isinstance(schema, ArraySchema):
        inner = [schema.items]
    elif isinstance(schema, MapSchema):
        inner = [schema.values]
    for one in inner:
        yield from _records(one, seen)


def _is_default(field: Field) -> bool:
    if field.type.type in ("float", "double") and isinstance(field.default, str):
        return _NUMBER.fullmatch(field.default) is not None
    return _is_value(field.type, field.default)


def _is_value(schema: AvroSchema, value: object) -> bool:
    """Whether the JSON value has the schema's type."""
    if isinstance(schema, UnionSchema):
        return any(_is_value(one, value) for one in schema.schemas)
    if isinstance(schema, ArraySchema):
        return isinstance(value, list) and all(_is_value(schema.items, one) for one in value)
    if isinstance(schema, MapSchema):
        return isinstance(value, dict) and all(_is_value(schema.values, one) for one in value.values())
    if isinstance(schema, RecordSchema):
        return isinstance(value, dict) and all(_is_inner(field, value) for field in schema.fields)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if schema.type in _BITS:
        most = 1 << _BITS[schema.type]
        return is_number and isinstance(value, int) and -most <= value < most
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "float": is_number,
        "double": is_number,
    }.get(schema.type, isinstance(value, str) and schema.type in _TEXTS)


def _is_inner(field: Field, record: dict[str, object]) -> bool:
    if field.name in record:
        return _is_value(field.type, record[field.name])
    return field.has_default and _is_default(field)


def _said(schema: AvroSchema) -> str:
    if isinstance(schema, UnionSchema):
        return f"type of its union ({', '.join(map(_said, schema.schemas))})"
    return str(getattr(schema, "fullname", "") or schema.type)
