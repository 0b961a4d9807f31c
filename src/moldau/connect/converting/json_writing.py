"""Functions from a value with a schema to what JSON writes, compiled once per schema (JsonConverter)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import msgspec

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import decimal_text, double_text, float_text
from moldau.connect.converting.logical import to_plain
from moldau.connect.data.schema import DECIMAL, Schema, Type

Step = Callable[[object], object]
"""From a value to what msgspec encodes, or from what it decodes to a value. Raises DataError."""

RANGES = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in ((Type.INT8, 8), (Type.INT16, 16), (Type.INT32, 32), (Type.INT64, 64))
}


@dataclass(frozen=True, slots=True)
class Form:
    """`is_numeric`: a Decimal is a number, else base64. `replaces_null`: by the default of the field.

    An entry of a map whose keys are not texts is [key, value], or {"key": ..., "value": ...} (`pairs_are_objects`).
    """

    is_numeric: bool = False
    replaces_null: bool = True
    pairs_are_objects: bool = False


def writer(schema: Schema | None, form: Form) -> Step:
    if schema is None:
        return write_schemaless
    step = _present(schema, form)
    if schema.default is not None and form.replaces_null:
        default = step(schema.default)
        return lambda value: default if value is None else step(value)
    if schema.optional:
        return lambda value: None if value is None else step(value)

    def required(value: object) -> object:
        if value is None:
            raise DataError("Conversion error: null value for field that is required and has no default value")
        return step(value)

    return required


def _present(schema: Schema, form: Form) -> Step:
    """The step of a value that is not None."""
    plain = to_plain(schema)
    if schema.name == DECIMAL and form.is_numeric and schema.type is Type.BYTES:
        return _numeric_decimal
    step = _of_type(schema, form)
    return step if plain is None else lambda value: step(plain(value))


def _of_type(schema: Schema, form: Form) -> Step:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return whole(schema.type)
        case Type.FLOAT32:
            return lambda value: _float(value, float_text, schema)
        case Type.FLOAT64:
            return lambda value: _float(value, double_text, schema)
        case Type.BOOLEAN:
            return lambda value: value if value.__class__ is bool else reject(schema, value)
        case Type.STRING:
            return lambda value: value if isinstance(value, str) else reject(schema, value)
        case Type.BYTES:
            return lambda value: value if isinstance(value, bytes | bytearray) else reject(schema, value)
        case Type.ARRAY:
            return _array(schema, form)
        case Type.MAP:
            return _map(schema, form)
        case Type.STRUCT:
            return _struct(schema, form)


def whole(kind: Type) -> Step:
    """Lets an int in the range of the type pass."""
    least, most = RANGES[kind]

    def step(value: object) -> object:
        if value.__class__ is int and least <= value <= most:
            return value
        raise DataError(f"Invalid type for {kind.name}: {_named(value)}")

    return step


def _float(value: object, text: Callable[[float], str], schema: Schema) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        reject(schema, value)
    try:
        number = float(value)  # type: ignore[arg-type]
        written = text(number)
    except OverflowError:
        raise DataError(f"{value} is outside the range of {schema.type.name}") from None
    return msgspec.Raw(written.encode()) if math.isfinite(number) else written


def _numeric_decimal(value: object) -> object:
    if not isinstance(value, Decimal):
        raise DataError(f"Invalid type for Decimal, expected Decimal but was {type(value).__name__}")
    return msgspec.Raw(decimal_text(value).encode())


def _array(schema: Schema, form: Form) -> Step:
    step = writer(schema.values, form)

    def write(value: object) -> object:
        if not isinstance(value, list | tuple):
            reject(schema, value)
        return [step(one) for one in value]  # type: ignore[attr-defined]

    return write


def _map(schema: Schema, form: Form) -> Step:
    key_step, step = writer(schema.keys, form), writer(schema.values, form)
    is_object = schema.keys is not None and schema.keys.type is Type.STRING

    def write(value: object) -> object:
        if not isinstance(value, Mapping):
            reject(schema, value)
        pairs = value.items()  # type: ignore[attr-defined]
        if is_object:
            return {"null" if (name := key_step(key)) is None else name: step(one) for key, one in pairs}
        if form.pairs_are_objects:
            return [{"key": key_step(key), "value": step(one)} for key, one in pairs]
        return [[key_step(key), step(one)] for key, one in pairs]

    return write


def _struct(schema: Schema, form: Form) -> Step:
    return struct_writer(schema, tuple((field.name, writer(field.schema, form)) for field in schema.fields))


def struct_writer(schema: Schema, parts: tuple[tuple[str, Step], ...]) -> Step:
    """A step from a struct to a dict. `parts`: its fields in order, each with the step of its value, None included."""
    names = frozenset(name for name, _ in parts)

    def write(value: object) -> object:
        if not isinstance(value, Mapping):
            reject(schema, value)
        get = value.get  # type: ignore[attr-defined]
        if not value.keys() <= names:  # type: ignore[attr-defined]
            raise DataError(f"{min(value.keys() - names)!r} is no field of the schema")  # type: ignore[attr-defined]
        try:
            return {name: step(get(name)) for name, step in parts}
        except DataError as error:
            raise _in_field(parts, value, error) from None  # type: ignore[arg-type]

    return write


def _in_field(parts: tuple[tuple[str, Step], ...], value: Mapping[str, object], error: DataError) -> DataError:
    """The error of the first field that fails, with its name in front."""
    for name, step in parts:
        try:
            step(value.get(name))
        except DataError as found:
            return DataError(f"Field {name}: {found}")
    return error


def write_schemaless(value: object) -> object:
    """A value without a schema: maps with keys that are all texts are objects, other maps are lists of pairs."""
    match value:
        case None | bool() | str() | bytes():
            return value
        case int():
            return whole(Type.INT64)(value)
        case float():
            return msgspec.Raw(double_text(value).encode()) if math.isfinite(value) else double_text(value)
        case list() | tuple():
            return [write_schemaless(one) for one in value]
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: write_schemaless(one) for key, one in value.items()}
        case Mapping():
            return [[write_schemaless(key), write_schemaless(one)] for key, one in value.items()]
    raise DataError(f"A value of type {type(value).__name__} without a schema has no corresponding schema type.")


def reject(schema: Schema, value: object) -> object:
    """Raises the DataError of a value whose type is not that of the schema."""
    raise DataError(f"Invalid type for {schema.type.name}: {_named(value)}")


def _named(value: object) -> str:
    return f"{value} (out of range)" if value.__class__ is int else type(value).__name__
