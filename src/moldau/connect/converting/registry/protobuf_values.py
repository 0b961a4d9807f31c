"""Functions between the values of a schema and Protobuf messages, compiled once per schema."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import scaled
from moldau.connect.converting.json_writing import reject, whole
from moldau.connect.converting.logical import ms_to_timestamp, timestamp_to_ms, to_plain
from moldau.connect.converting.registry.protobuf_schemas import ENUM
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

Fill = Callable[[Any, Any], None]
"""Sets a message from a value. Raises DataError."""
Take = Callable[[Any], Any]
"""The value of a message or of a field."""


def filler(schema: Schema) -> Fill:
    """Of the message of a struct."""
    setters = {one.name: (one.schema, _setter(one.name, one.schema)) for one in schema.fields}

    def fill(message: Any, value: Any) -> None:
        if not isinstance(value, Mapping):
            reject(schema, value)
        if not value.keys() <= setters.keys():
            raise DataError(f"{min(value.keys() - setters.keys())!r} is no field of the schema")
        for name, (field, setter) in setters.items():
            one = value.get(name)
            one = field.default if one is None else one
            if one is not None:
                try:
                    setter(message, one)
                except DataError as error:
                    raise DataError(f"Field {name}: {error}") from None
                except (ValueError, TypeError, AttributeError) as error:
                    raise DataError(f"Field {name}: {error}") from None
            elif not field.optional:
                raise DataError(f"Field {name}: Found null value for non-optional schema")

    return fill


def _setter(name: str, schema: Schema) -> Fill:
    match schema.type:
        case Type.ARRAY:
            return _array_setter(name, schema)
        case Type.MAP:
            return _map_setter(name, schema)
    message_fill = _message(schema)
    if message_fill is not None:
        fill = message_fill

        def set_message(message: Any, value: Any) -> None:
            inner = getattr(message, name)
            inner.SetInParent()
            fill(inner, value)

        return set_message
    scalar = _scalar(schema)
    return lambda message, value: setattr(message, name, scalar(value))


def _array_setter(name: str, schema: Schema) -> Fill:
    element = _some(schema.values)
    fill = _message(element)

    def set_all(message: Any, value: Any) -> None:
        if not isinstance(value, list | tuple):
            reject(schema, value)
        target = getattr(message, name)
        if fill is None:
            scalar = _scalar(element)
            target.extend([scalar(_not_null(one)) for one in value])
            return
        for one in value:
            fill(target.add(), _not_null(one))

    return set_all


def _map_setter(name: str, schema: Schema) -> Fill:
    key_scalar, values = _scalar(_some(schema.keys)), _some(schema.values)
    fill = _message(values)

    def set_all(message: Any, value: Any) -> None:
        if not isinstance(value, Mapping):
            reject(schema, value)
        target = getattr(message, name)
        for key, one in value.items():
            if fill is None:
                target[key_scalar(key)] = _scalar(values)(_not_null(one))
            else:
                fill(target[key_scalar(key)], _not_null(one))

    return set_all


def _not_null(value: Any) -> Any:
    if value is None:
        raise DataError("Protobuf has no null in a list or a map")
    return value


def _message(schema: Schema) -> Fill | None:
    """None if the type is a scalar."""
    match schema.name, schema.type:
        case (str(name), Type.BYTES) if name == DECIMAL:
            plain = to_plain(schema)
            scale = int(schema.parameters["scale"])
            return lambda message, value: _fill_decimal(message, plain(value) if plain else b"", value, scale)
        case (str(name), Type.INT32) if name == DATE:
            return _fill_date
        case (str(name), Type.INT32) if name == TIME:
            return _fill_time
        case (str(name), Type.INT64) if name == TIMESTAMP:
            return _fill_timestamp
    return filler(schema) if schema.type is Type.STRUCT else None


def _fill_decimal(message: Any, payload: object, value: Decimal, scale: int) -> None:
    message.value, message.scale, message.precision = payload, scale, len(value.as_tuple().digits)


def _fill_date(message: Any, value: Any) -> None:
    if type(value) is not dt.date:
        raise DataError(f"Invalid type for Date, expected date but was {type(value).__name__}")
    message.year, message.month, message.day = value.year, value.month, value.day


def _fill_time(message: Any, value: Any) -> None:
    if not isinstance(value, dt.time):
        raise DataError(f"Invalid type for Time, expected time but was {type(value).__name__}")
    message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
    message.nanos = value.microsecond // 1000 * 1_000_000


def _fill_timestamp(message: Any, value: Any) -> None:
    message.seconds, rest = divmod(timestamp_to_ms(value), 1000)
    message.nanos = rest * 1_000_000


def _scalar(schema: Schema) -> Take:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return whole(schema.type)
        case Type.FLOAT32 | Type.FLOAT64:
            return lambda value: (
                value if isinstance(value, float | int) and value is not True else reject(schema, value)
            )
        case Type.BOOLEAN:
            return lambda value: value if value.__class__ is bool else reject(schema, value)
        case Type.STRING:
            return lambda value: value if isinstance(value, str) else reject(schema, value)
    return lambda value: bytes(value) if isinstance(value, bytes | bytearray) else reject(schema, value)


def taker(schema: Schema) -> Take:
    """From the message of a struct to its value."""
    parts = tuple((one.name, _getter(one.name, one.schema)) for one in schema.fields)
    return lambda message: {name: get(message) for name, get in parts}


def _getter(name: str, schema: Schema) -> Take:
    match schema.type:
        case Type.ARRAY:
            element = _taken(_some(schema.values))
            return lambda message: [element(one) for one in getattr(message, name)]
        case Type.MAP:
            value = _taken(_some(schema.values))
            return lambda message: {key: value(one) for key, one in getattr(message, name).items()}
    single = _taken(schema)
    if schema.optional:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _taken(schema: Schema) -> Take:
    """From what the library gives for a field to the value."""
    match schema.name, schema.type:
        case (str(logical), Type.BYTES) if logical == DECIMAL:
            scale = int(schema.parameters["scale"])
            return lambda found: scaled(found.value, found.scale or scale)
        case (str(logical), Type.INT32) if logical == DATE:
            return lambda found: _date(found)
        case (str(logical), Type.INT32) if logical == TIME:
            return lambda found: dt.time(found.hours, found.minutes, found.seconds, found.nanos // 1_000_000 * 1000)
        case (str(logical), Type.INT64) if logical == TIMESTAMP:
            return lambda found: ms_to_timestamp(found.seconds * 1000 + found.nanos // 1_000_000)
    if schema.type is Type.STRUCT:
        take = taker(schema)
        return lambda found: take(found)
    if schema.type is Type.STRING and ENUM in schema.parameters:
        symbols = {int(one): key.removeprefix(f"{ENUM}.") for key, one in schema.parameters.items() if key != ENUM}
        return lambda found: symbols.get(found, str(found))
    if schema.type is Type.INT64:
        step = whole(Type.INT64)
        return lambda found: step(found)
    return lambda found: found


def _date(found: Any) -> dt.date:
    try:
        return dt.date(found.year, found.month, found.day)
    except ValueError:
        raise DataError(f"{found.year}-{found.month}-{found.day} is no date") from None


def _some(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("A list or a map needs a schema of its values")
    return schema
