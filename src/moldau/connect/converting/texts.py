"""Values as texts: Java's toString for StringConverter, and the text of headers (Kafka Connect's Values)."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import decimal_text, double_text, float_text
from moldau.connect.data.schema import Schema, Type


def java_text(schema: Schema | None, value: object) -> str:
    """As String.valueOf in Java: `Struct{a=1,b=x}`, `{a=1, b=x}`, `[1, 2]`. Dates as by java.util.Date in UTC.

    Raises DataError for bytes, which Java writes as the address of an object.
    """
    match value:
        case None:
            return "null"
        case str():
            return value
        case list() | tuple():
            values = schema.values if schema is not None else None
            return "[" + ", ".join(java_text(values, one) for one in value) + "]"
        case Mapping() if schema is not None and schema.type is Type.STRUCT:
            return "Struct{" + ",".join(_struct_fields(schema, value)) + "}"
        case Mapping():
            keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
            return "{" + ", ".join(f"{java_text(keys, k)}={java_text(values, v)}" for k, v in value.items()) + "}"
        case dt.date() | dt.time():
            return _java_date(value)
        case _:
            return scalar_text(schema, value)


def _struct_fields(schema: Schema, value: Mapping[str, object]) -> Iterable[str]:
    for field in schema.fields:
        one = value.get(field.name)
        if one is not None:
            yield f"{field.name}={java_text(field.schema, one)}"


def _java_date(value: dt.date | dt.time) -> str:
    match value:
        case dt.datetime():
            moment = value.astimezone(dt.UTC) if value.tzinfo else value
        case dt.date():
            moment = dt.datetime(value.year, value.month, value.day)
        case _:
            moment = dt.datetime.combine(dt.date(1970, 1, 1), value)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"{day} {months[moment.month - 1]} {moment:%d %H:%M:%S} UTC {moment.year:04}"


def scalar_text(schema: Schema | None, value: object) -> str:
    """A boolean or a number in Java's form. Raises DataError for any other value."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return float_text(value) if schema is not None and schema.type is Type.FLOAT32 else double_text(value)
        case Decimal():
            return decimal_text(value)
    raise DataError(f"A value of type {type(value).__name__} has no text")


def header_text(schema: Schema | None, value: object, embedded: bool = False) -> str:
    """The text of a value in a header: JSON's form but for dates, and for quotes that only nested texts have."""
    match value:
        case None:
            return "null"
        case str():
            return _quoted(value) if embedded else value
        case bytes():
            text = base64.b64encode(value).decode()
            return f'"{text}"' if embedded else text
        case list() | tuple():
            values = schema.values if schema is not None else None
            return "[" + ",".join(header_text(values, one, True) for one in value) + "]"
        case Mapping() if schema is not None and schema.type is Type.STRUCT:
            fields = (
                _quoted(field.name) + ":" + header_text(field.schema, value.get(field.name, field.schema.default), True)
                for field in schema.fields
            )
            return "{" + ",".join(fields) + "}"
        case Mapping():
            keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
            pairs = (f"{header_text(keys, k, True)}:{header_text(values, v, True)}" for k, v in value.items())
            return "{" + ",".join(pairs) + "}"
        case dt.datetime():
            moment = value.astimezone(dt.UTC) if value.tzinfo else value
            return f"{moment.date().isoformat()}T{moment:%H:%M:%S}.{moment.microsecond // 1000:03}Z"
        case dt.date():
            return value.isoformat()
        case dt.time():
            return f"{value:%H:%M:%S}.{value.microsecond // 1000:03}Z"
        case _:
            return scalar_text(schema, value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
