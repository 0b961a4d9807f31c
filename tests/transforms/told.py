"""Records and schemas as JSON, for the Java program: its own encoding, without a converter in between."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from moldau.connect.data.record import Header, Record
from moldau.connect.data.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type

Json = Any
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def told_record(record: Record | None) -> Json:
    if record is None:
        return None
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key_schema": told_schema(record.key_schema),
        "key": told_value(record.key, record.key_schema),
        "value_schema": told_schema(record.value_schema),
        "value": told_value(record.value, record.value_schema),
        "headers": [[one.key, told_schema(one.schema), told_value(one.value, one.schema)] for one in record.headers],
    }


def told_schema(schema: Schema | None) -> Json:
    if schema is None:
        return None
    return {
        "type": schema.type.name,
        "optional": schema.optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": dict(schema.parameters),
        "default": told_value(schema.default, schema),
        "fields": [[one.name, told_schema(one.schema)] for one in schema.fields],
        "keys": told_schema(schema.keys),
        "values": told_schema(schema.values),
    }


def told_value(value: object, schema: Schema | None) -> Json:
    match value:
        case float():
            return {"float": java_like(value)}
        case bytes():
            return {"bytes": value.hex()}
        case Decimal():
            return {"decimal": format(value, "f")}
        case datetime.datetime():
            return {"date": (value - EPOCH) // datetime.timedelta(milliseconds=1)}
        case datetime.date():
            return {"date": (value - EPOCH.date()).days * 86_400_000}
        case datetime.time():
            moment = datetime.datetime.combine(EPOCH.date(), value, datetime.UTC)
            return {"date": (moment - EPOCH) // datetime.timedelta(milliseconds=1)}
        case list():
            return [told_value(one, schema.values if schema else None) for one in value]
        case dict():
            return {"map": _pairs(value, schema)}
    return value


def _pairs(value: Mapping[Any, object], schema: Schema | None) -> list[Json]:
    if schema is not None and schema.type is Type.STRUCT:
        return [[one.name, told_value(value.get(one.name), one.schema)] for one in schema.fields]
    keys, values = (schema.keys, schema.values) if schema else (None, None)
    return [[told_value(key, keys), told_value(one, values)] for key, one in value.items()]


def java_like(number: float) -> str:
    """Compared as a number: see `normal`."""
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(number), repr(number))


def normal(told: Json) -> Json:
    """Maps have no order, and numbers have several texts."""
    match told:
        case {"map": list() as pairs}:
            return {"map": sorted(([normal(one) for one in pair] for pair in pairs), key=repr)}
        case {"float": str() as text}:
            return {"float": repr(float(text.replace("Infinity", "inf")))}
        case {"decimal": str() as text}:
            return {"decimal": str(Decimal(text))}
        case dict():
            return {key: normal(one) for key, one in told.items()}
        case list():
            return [normal(one) for one in told]
    return told


def untold_record(told: Json) -> Record:
    key, value = untold_schema(told["key_schema"]), untold_schema(told["value_schema"])
    headers = []
    for name, of_header, held in told["headers"]:
        schema = untold_schema(of_header)
        headers.append(Header(name, schema, untold_value(held, schema)))
    return Record(
        told["topic"],
        untold_value(told["value"], value),
        value,
        untold_value(told["key"], key),
        key,
        told["partition"],
        told["timestamp"],
        tuple(headers),
        told["offset"],
    )


def untold_schema(told: Json) -> Schema | None:
    if told is None:
        return None
    bare = Schema(
        Type[told["type"]],
        told["optional"],
        told["name"],
        told["version"],
        told["doc"],
        told["parameters"],
        None,
        tuple(Field(name, untold_schema(one) or Schema(Type.STRING)) for name, one in told["fields"]),
        untold_schema(told["keys"]),
        untold_schema(told["values"]),
    )
    if told["default"] is None:
        return bare
    return Schema(
        bare.type,
        bare.optional,
        bare.name,
        bare.version,
        bare.doc,
        bare.parameters,
        untold_value(told["default"], bare),
        bare.fields,
        bare.keys,
        bare.values,
    )


def untold_value(told: Json, schema: Schema | None) -> object:
    match told:
        case {"float": str() as text}:
            return float(text.replace("Infinity", "inf"))
        case {"bytes": str() as text}:
            return bytes.fromhex(text)
        case {"decimal": str() as text}:
            return Decimal(text)
        case {"date": int() as millis}:
            moment = EPOCH + datetime.timedelta(milliseconds=millis)
            name = schema.name if schema else TIMESTAMP
            return moment.date() if name == DATE else moment.time() if name == TIME else moment
        case {"map": list() as pairs}:
            if schema is not None and schema.type is Type.STRUCT:
                fields = {one.name: one.schema for one in schema.fields}
                return {name: untold_value(one, fields[name]) for name, one in pairs}
            keys, values = (schema.keys, schema.values) if schema else (None, None)
            return {untold_value(key, keys): untold_value(one, values) for key, one in pairs}
        case list():
            return [untold_value(one, schema.values if schema else None) for one in told]
    return told
