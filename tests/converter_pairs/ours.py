"""Our answers to the cases, in the form of the Java program."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

from moldau.connect.configuration import ConfigError
from moldau.connect.converting.converter import Converter, DataError, Role
from moldau.connect.converting.java_numbers import double_text, float_text
from moldau.connect.converting.json_schemas import schema_from_json, schema_to_json
from moldau.connect.converting.json_writing import Form
from moldau.connect.converting.logical import date_to_days, days_to_date, ms_to_time, ms_to_timestamp, time_to_ms
from moldau.connect.converting.logical import timestamp_to_ms as to_ms
from moldau.connect.converting.named import new_converter
from moldau.connect.data.schema import Schema, Type

_CONVERTERS: dict[str, Converter] = {}


def answer(case: dict[str, Any]) -> dict[str, Any]:
    try:
        return _answer(case)
    except (DataError, ConfigError):
        return {"error": True}


def _converter(case: dict[str, Any]) -> Converter:
    role = Role(case["role"])
    key = f"{role}.converter"
    given = {key: case["converter"], **{f"{key}.{name}": value for name, value in case["settings"].items()}}
    name = repr(given)
    if name not in _CONVERTERS:
        _CONVERTERS[name] = new_converter(given, role, "")
    return _CONVERTERS[name]


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    converter, found = _converter(case), {}
    is_header = case["role"] == "header"
    if "read" in case:
        payload = None if case["read"] is None else base64.b64decode(case["read"])
    else:
        schema, value = schema_from_json(case["schema"], Form()), built(case["value"])
        payload = (
            converter.from_header("t", "h", schema, value)
            if is_header
            else converter.from_value("t", (), schema, value)
        )
        found["payload"] = None if payload is None else base64.b64encode(payload).decode()
    read, value = converter.to_header("t", "h", payload) if is_header else converter.to_value("t", (), payload)
    return {**found, "schema": described(read), "value": tagged(read, value)}


def described(schema: Schema | None) -> Any:
    if schema is None:
        return None
    if schema.type is Type.ARRAY and schema.values is None:
        return {"type": "array"}
    if schema.type is Type.MAP and schema.values is None:
        return {"type": "map", "keys": described(schema.keys)}
    if schema.type is Type.ARRAY:
        return {"type": "array", "optional": schema.optional, "items": described(schema.values)}
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(schema_to_json(schema, Form())))


def built(tagged: Any) -> object:
    if tagged is None:
        return None
    ((kind, value),) = tagged.items()
    match kind:
        case "float" | "double":
            return float(value)
        case "bytes":
            return base64.b64decode(value)
        case "decimal":
            return Decimal(value)
        case "date":
            return days_to_date(value)
        case "time":
            return ms_to_time(value)
        case "timestamp":
            return ms_to_timestamp(value)
        case "array":
            return [built(each) for each in value]
        case "map":
            return {built(key): built(each) for key, each in value}
        case "struct":
            return {name: built(each) for name, each in value}
    return value


def tagged(schema: Schema | None, value: Any) -> Any:
    keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
    match value:
        case None:
            return None
        case bool():
            return {"boolean": value}
        case int():
            return {schema.type.value if schema is not None else "int64": value}
        case float():
            is_single = schema is not None and schema.type is Type.FLOAT32
            return {"float": float_text(value)} if is_single else {"double": double_text(value)}
        case str():
            return {"string": value}
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"decimal": str(value)}
        case dt.datetime():
            return {"timestamp": to_ms(value)}
        case dt.date():
            return {"date": date_to_days(value)}
        case dt.time():
            return {"time": time_to_ms(value)}
        case list():
            return {"array": [tagged(values, each) for each in value]}
        case dict() if schema is not None and schema.type is Type.STRUCT:
            return {"struct": [[each.name, tagged(each.schema, value[each.name])] for each in schema.fields]}
    return {"map": [[tagged(keys, key), tagged(values, each)] for key, each in value.items()]}
