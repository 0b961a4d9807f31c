"""MaskField: fields get the empty value of their type, or a given replacement."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

from moldau.connect.configuration import REQUIRED, Importance, Kind, Setting, not_empty
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.data.schema import Schema, Type
from moldau.connect.transforming.java_numbers import narrowed, to_float32
from moldau.connect.transforming.parts import (
    Given,
    Part,
    Transform,
    as_map,
    as_struct,
    kind_of,
    put,
    read,
)
from moldau.connect.transforming.settings import REPLACE_NULL, members


def _given_not_empty(name: str, value: object) -> None:
    if value is not None:
        not_empty(name, value)


SETTINGS = (
    Setting("fields", Kind.LIST, REQUIRED, Importance.HIGH, "The fields to mask.", check=members),
    Setting(
        "replacement",
        Kind.STRING,
        None,
        Importance.LOW,
        "The value for all these fields, of numbers and strings only. Without it: 0, false, an empty string or list.",
        check=_given_not_empty,
    ),
    REPLACE_NULL,
)
_WHOLE = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def mask_field(given: Given, part: Part) -> Transform:
    names, replacement = set(given.texts("fields")), given.text_or_none("replacement")

    def masked(schema: Schema | None, value: object) -> object:
        if value is None:
            return None
        return _empty(schema, value) if replacement is None else _replaced(schema, value, replacement)

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if schema is None:
            found = dict(as_map(value, "mask fields"))
            found.update({name: masked(None, found.get(name)) for name in names})
            return part.replaced(record, None, found)
        struct = as_struct(schema, value, "mask fields")
        made: dict[str, object] = {}
        for field in schema.fields:
            held = read(struct, field, given.fills_nulls)
            put(made, field, masked(field.schema, held) if field.name in names else held)
        return part.replaced(record, schema, made)

    return apply


def _empty(schema: Schema | None, value: object) -> object:
    is_struct = schema is not None and schema.type is Type.STRUCT
    match value:
        case bool():
            return False
        case int() | float() | Decimal():
            return type(value)(0)
        case str():
            return ""
        case datetime.datetime():
            return _EPOCH
        case datetime.date():
            return _EPOCH.date()
        case datetime.time():
            return datetime.time()
        case list():
            return []
        case dict() if not is_struct:
            return {}
    raise DataError(f"Cannot mask value of type: {kind_of(value)}")


def _replaced(schema: Schema | None, value: object, text: str) -> object:
    if isinstance(value, str):
        return text
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if not _NUMBER.fullmatch(text):
            raise DataError(f"Unable to convert {text} to a number")
        number, kind = Decimal(text), None if schema is None else schema.type
        if isinstance(value, Decimal):
            return number
        if isinstance(value, int):
            return narrowed(number, 64 if kind is None else _WHOLE.get(kind, 64))
        return to_float32(float(number)) if kind is Type.FLOAT32 else float(number)
    raise DataError(f"Cannot mask value of type {kind_of(value)} with custom replacement.")
