"""Cast: other types for fields, or for the whole key or value."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from moldau.connect.configuration import REQUIRED, ConfigError, Importance, Kind, Setting, wrong
from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import double_text, float_text
from moldau.connect.data.record import Record
from moldau.connect.data.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type
from moldau.connect.transforming.java_dates import days_of, default_text, millis_of, millis_of_day
from moldau.connect.transforming.java_numbers import (
    narrowed,
    parsed_floating,
    parsed_whole,
    to_float32,
)
from moldau.connect.transforming.parts import (
    Given,
    Part,
    Rebuilt,
    Transform,
    as_map,
    as_struct,
    kind_of,
    put,
    read,
    struct_schema,
)
from moldau.connect.transforming.settings import REPLACE_NULL, not_empty_list

_WHOLE = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_FLOATING = {Type.FLOAT32: 32, Type.FLOAT64: 64}
_TARGETS = (*_WHOLE, *_FLOATING, Type.BOOLEAN, Type.STRING)
_NAMES = {kind.name.lower(): kind for kind in Type}


def _checked_spec(name: str, value: object) -> None:
    not_empty_list(name, value)
    _casts(name, [str(one) for one in value] if isinstance(value, list) else [])


SETTINGS = (
    Setting(
        "spec",
        Kind.LIST,
        REQUIRED,
        Importance.HIGH,
        "Types by field: field1:type,field2:type. A type alone is for the whole key or value. "
        "Types: int8, int16, int32, int64, float32, float64, boolean, string.",
        check=_checked_spec,
    ),
    REPLACE_NULL,
)


def _casts(name: str, spec: list[str]) -> tuple[dict[str, Type], Type | None]:
    """The types by field, and that of the whole. Raises ValueError."""
    fields: dict[str, Type] = {}
    whole: Type | None = None
    for one in spec:
        parts = one.split(":")
        if len(parts) > 2:
            raise ValueError(wrong(name, spec, f"Invalid cast: {one}, expected field:type or type"))
        word = parts[-1].strip().lower()
        if word not in _NAMES:
            near = ", ".join(kind.name.lower() for kind in _TARGETS)
            raise ValueError(wrong(name, spec, f"Invalid type found in casting spec: {parts[-1]}, known: {near}"))
        if _NAMES[word] not in _TARGETS:
            raise ValueError(wrong(name, spec, f"Casting to {word} is not supported"))
        if len(parts) == 2:
            fields[parts[0].strip()] = _NAMES[word]
        else:
            whole = _NAMES[word]
    if whole is not None and len(spec) > 1:
        raise ValueError(wrong(name, spec, "A type for the whole key or value must be the only one"))
    return fields, whole


def cast(given: Given, part: Part) -> Transform:
    try:
        fields, whole = _casts("spec", given.texts("spec"))
    except ValueError as error:
        raise ConfigError({"spec": [str(error)]}) from None
    rebuilt = Rebuilt(lambda schema: _schema(schema, whole, fields))

    def apply(record: Record) -> Record:
        value, schema = part.value_of(record), part.schema_of(record)
        if value is None:
            return record
        if schema is None:
            if whole is not None:
                return part.replaced(record, None, to_type(None, value, whole))
            found = as_map(value, "casting types")
            changed = dict(found)
            changed.update({name: to_type(None, found.get(name), kind) for name, kind in fields.items()})
            return part.replaced(record, None, changed)
        target = rebuilt.of(schema)
        if whole is not None:
            return part.replaced(record, target, to_type(schema, value, whole))
        struct = as_struct(schema, value, "casting types")
        made: dict[str, object] = {}
        for old, new in zip(schema.fields, target.fields, strict=True):
            held = read(struct, old, given.fills_nulls)
            put(made, new, to_type(old.schema, held, fields[old.name]) if old.name in fields else held)
        return part.replaced(record, target, made)

    return apply


def _schema(schema: Schema, whole: Type | None, fields: Mapping[str, Type]) -> Schema:
    def cast_schema(one: Schema, kind: Type) -> Schema:
        return Schema(kind, one.optional, default=to_type(one, one.default, kind))

    if whole is not None:
        return replace(schema, type=whole, default=to_type(schema, schema.default, whole))
    if schema.type is not Type.STRUCT:
        raise DataError(f"Only structs are supported with a schema for casting types, found: {schema.type.value}")
    changed = [
        Field(one.name, cast_schema(one.schema, fields[one.name])) if one.name in fields else one
        for one in schema.fields
    ]
    return replace(struct_schema(changed, schema), optional=schema.optional, default=None)


def to_type(schema: Schema | None, value: object, kind: Type) -> object:
    """The value as Kafka casts it. A date or time with a schema becomes its number first. Raises DataError."""
    if value is None:
        return None
    if schema is None and isinstance(value, datetime.date | datetime.time | Decimal | dict | list):
        raise DataError(f"Cast does not support a value without a schema of type {kind_of(value)}")
    if schema is not None and schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataError(f"Cast does not support casting from {schema.type.value}")
    if schema is not None and kind is not Type.STRING:
        value = _number_of(schema, value)
    try:
        if kind in _WHOLE:
            return _to_whole(value, _WHOLE[kind])
        if kind in _FLOATING:
            return _to_floating(value, _FLOATING[kind])
        return _to_boolean(value) if kind is Type.BOOLEAN else _to_text(schema, value)
    except ValueError as error:
        raise DataError(f"Value ({value}) cannot become {kind.name.lower()}: {error}") from None


def _number_of(schema: Schema, value: object) -> object:
    """The number behind a logical type."""
    if schema.name == DATE:
        return days_of(value)
    if schema.name == TIME:
        return millis_of_day(value)
    return millis_of(value) if schema.name == TIMESTAMP else value


def _to_whole(value: object, bits: int) -> int:
    match value:
        case bool():
            return int(value)
        case int() | float() | Decimal():
            return narrowed(value, bits)
        case str():
            return parsed_whole(value, bits)
    raise DataError(f"Unexpected type in Cast transformation: {kind_of(value)}")


def _to_floating(value: object, bits: int) -> float:
    match value:
        case bool() | int() | float() | Decimal():
            return to_float32(float(value)) if bits == 32 else float(value)
        case str():
            return parsed_floating(value, bits)
    raise DataError(f"Unexpected type in Cast transformation: {kind_of(value)}")


def _to_boolean(value: object) -> bool:
    match value:
        case bool():
            return value
        case int() | float() | Decimal():
            return narrowed(value, 64) != 0
        case str():
            return value.lower() == "true"
    raise DataError(f"Unexpected type in Cast transformation: {kind_of(value)}")


def _to_text(schema: Schema | None, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            is_float = schema is not None and schema.type is Type.FLOAT32
            return float_text(value) if is_float else double_text(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime.date() | datetime.time():
            return default_text(millis_of(value))
    return str(value)
