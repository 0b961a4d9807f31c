"""Functions from decoded JSON to a value with a schema, compiled once per schema (JsonConverter)."""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import as_float
from moldau.connect.converting.json_writing import RANGES, Form, Step
from moldau.connect.converting.logical import from_plain, scale_of
from moldau.connect.data.schema import DECIMAL, Schema, Type

_NO_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_WORDS = {str: "STRING", bool: "BOOLEAN", int: "NUMBER", float: "NUMBER", Decimal: "NUMBER", list: "ARRAY"}


def reader(schema: Schema | None, form: Form) -> Step:
    if schema is None:
        return read_schemaless
    step = _present(schema) if schema.type not in _NESTED else _NESTED[schema.type](schema, form)
    default, optional, replaces = schema.default, schema.optional, form.replaces_null

    def read(value: object) -> object:
        if value is not None:
            return step(value)
        if default is not None and replaces:
            return default
        if optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.name} field")

    return read


def _present(schema: Schema) -> Step:
    """The step of a scalar that is not null."""
    plain = from_plain(schema)
    if schema.name == DECIMAL and schema.type is Type.BYTES:
        scale_of(schema)
        binary = _bytes(schema)
        return lambda value: value if isinstance(value, Decimal) else _decimal(value, binary, plain)
    step = _of_type(schema)
    return step if plain is None else lambda value: plain(step(value))


def _decimal(value: object, binary: Step, plain: Step | None) -> object:
    if value.__class__ is int:
        return Decimal(value)
    payload = binary(value)
    return payload if plain is None else plain(payload)


def _of_type(schema: Schema) -> Step:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _whole(schema)
        case Type.FLOAT32 | Type.FLOAT64:
            return _float(schema)
        case Type.BOOLEAN:
            return lambda value: value if value.__class__ is bool else _reject(schema, value)
        case Type.STRING:
            return lambda value: value if value.__class__ is str else _reject(schema, value)
        case _:
            return _bytes(schema)


def _whole(schema: Schema) -> Step:
    least, most = RANGES[schema.type]

    def read(value: object) -> object:
        if value.__class__ is int and least <= value <= most:
            return value
        return _reject(schema, value)

    return read


def _float(schema: Schema) -> Step:
    is_single = schema.type is Type.FLOAT32

    def read(value: object) -> object:
        if isinstance(value, str) and value in _NO_NUMBERS:
            return _NO_NUMBERS[value]
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return _reject(schema, value)
        try:
            return as_float(float(value)) if is_single else float(value)
        except OverflowError:
            return _reject(schema, value)

    return read


def _bytes(schema: Schema) -> Step:
    def read(value: object) -> object:
        if not isinstance(value, str):
            return _reject(schema, value)
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            raise DataError("Invalid bytes field") from None

    return read


def _array(schema: Schema, form: Form) -> Step:
    step = reader(schema.values, form)

    def read(value: object) -> object:
        if not isinstance(value, list):
            return _reject(schema, value)
        return [step(one) for one in value]

    return read


def _map(schema: Schema, form: Form) -> Step:
    key_step, step = reader(schema.keys, form), reader(schema.values, form)
    is_object = schema.keys is not None and schema.keys.type is Type.STRING

    def read_object(value: object) -> object:
        if not isinstance(value, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {_word(value)}")
        return {key: step(one) for key, one in value.items()}

    def read_pairs(value: object) -> object:
        if not isinstance(value, list):
            raise DataError(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {_word(value)}"
            )
        found = {}
        for entry in value:
            pair = _pair(entry) if form.pairs_are_objects else entry
            if not isinstance(pair, list):
                raise DataError(f"Found invalid map entry instead of array tuple: {_word(pair)}")
            if len(pair) != 2:
                raise DataError(f"Found invalid map entry, expected length 2 but found :{len(pair)}")
            key = key_step(pair[0])
            if isinstance(key, list | dict):
                raise DataError("A map whose keys are arrays, maps or structs cannot be read")
            found[key] = step(pair[1])
        return found

    return read_object if is_object else read_pairs


def _pair(entry: object) -> object:
    return [entry.get("key"), entry.get("value")] if isinstance(entry, dict) else entry


def _struct(schema: Schema, form: Form) -> Step:
    parts = tuple((field.name, reader(field.schema, form)) for field in schema.fields)

    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {_word(value)}")
        get = value.get
        try:
            return {name: step(get(name)) for name, step in parts}
        except DataError:
            for name, step in parts:
                try:
                    step(get(name))
                except DataError as error:
                    raise DataError(f"Field {name}: {error}") from None
            raise

    return read


_NESTED = {Type.ARRAY: _array, Type.MAP: _map, Type.STRUCT: _struct}


def read_schemaless(value: object) -> object:
    """JSON without a schema as it is; a whole number must be an int64, as every whole number of Kafka Connect."""
    match value:
        case bool():
            return value
        case int():
            if not RANGES[Type.INT64][0] <= value <= RANGES[Type.INT64][1]:
                raise DataError(f"{value} is outside the range of INT64")
            return value
        case Decimal():
            return float(value)
        case list():
            return [read_schemaless(one) for one in value]
        case dict():
            return {key: read_schemaless(one) for key, one in value.items()}
    return value


def _reject(schema: Schema, value: object) -> object:
    shown = f"{value} (out of range)" if value.__class__ is int else _word(value)
    raise DataError(f"Invalid JSON for {schema.type.name}: {shown}")


def _word(value: object) -> str:
    return "NULL" if value is None else _WORDS.get(type(value), "OBJECT")
