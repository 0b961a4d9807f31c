"""Flatten: nested structs and maps become fields with names that are joined by a delimiter."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from moldau.connect.configuration import Importance, Kind, Setting
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.data.schema import Field, Schema, Type
from moldau.connect.transforming.parts import (
    Given,
    Part,
    Rebuilt,
    Transform,
    as_map,
    as_struct,
    basics,
    kind_of,
    put,
    read,
    struct_schema,
)

SETTINGS = (
    Setting(
        "delimiter", Kind.STRING, ".", Importance.MEDIUM, "The text between the names of an outer and an inner field."
    ),
)


def flatten(given: Given, part: Part) -> Transform:
    delimiter = given.text("delimiter")

    def build(schema: Schema) -> Schema:
        default = schema.default if isinstance(schema.default, dict) else None
        return struct_schema(_fields(schema, "", delimiter, schema.optional, default), schema)

    rebuilt = Rebuilt(build)

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if value is None:
            return record
        if schema is None:
            return part.replaced(record, None, dict(_flat_map(as_map(value, "flattening"), "", delimiter)))
        struct = as_struct(schema, value, "flattening")
        flat = rebuilt.of(schema)
        made: dict[str, object] = {}
        _fill(schema, struct, "", delimiter, flat, made)
        return part.replaced(record, flat, made)

    return apply


def _flat_map(value: Mapping[object, object], prefix: str, delimiter: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, held in value.items():
        name = f"{prefix}{delimiter}{key}" if prefix else str(key)
        if isinstance(held, dict):
            found.extend(_flat_map(held, name, delimiter))
        elif isinstance(held, datetime.date | datetime.time | Decimal):
            raise DataError(f"Flatten does not support {kind_of(held)} without a schema, in the field {name}")
        else:
            found.append((name, held))
    return found


def _fields(
    schema: Schema, prefix: str, delimiter: str, is_optional: bool, defaults: Mapping[str, object] | None
) -> list[Field]:
    found: list[Field] = []
    for field in schema.fields:
        name = f"{prefix}{delimiter}{field.name}" if prefix else field.name
        optional = is_optional or field.schema.optional
        default = field.schema.default if field.schema.default is not None else (defaults or {}).get(field.name)
        if field.schema.type is Type.STRUCT:
            inner = default if isinstance(default, dict) else None
            found.extend(_fields(field.schema, name, delimiter, optional, inner))
        elif field.schema.type is Type.MAP:
            raise DataError(f"Flatten does not support a map with a schema, in the field {field.name}")
        else:
            found.append(Field(name, replace(basics(field.schema), optional=optional, default=default)))
    return found


def _fill(
    schema: Schema,
    struct: Mapping[str, object],
    prefix: str,
    delimiter: str,
    flat: Schema,
    made: dict[str, object],
) -> None:
    for field in schema.fields:
        name = f"{prefix}{delimiter}{field.name}" if prefix else field.name
        held = read(struct, field)
        if field.schema.type is not Type.STRUCT:
            put(made, flat.get_field(name) or field, held)
        elif isinstance(held, dict):
            _fill(field.schema, held, name, delimiter, flat, made)
