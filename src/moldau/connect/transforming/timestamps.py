"""TimestampConverter: a time as text, as a number since 1970, or as one of Kafka Connect's three types of time."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import replace

from moldau.connect.configuration import REQUIRED, ConfigError, Importance, Kind, Setting, one_of
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.data.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type
from moldau.connect.transforming.java_dates import (
    DAY_MS,
    DateError,
    DateFormat,
    PatternError,
    millis_of,
    timestamp_of,
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
from moldau.connect.transforming.settings import REPLACE_NULL

_TYPES = ("string", "unix", "Date", "Time", "Timestamp")
_UNITS = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
"""Nanoseconds of one unit."""
_MS_NANOS = 1_000_000
_LONG = 1 << 63
SETTINGS = (
    Setting(
        "field", Kind.STRING, "", Importance.HIGH, "The field with the time. Empty: the whole key or value is the time."
    ),
    Setting(
        "target.type",
        Kind.STRING,
        REQUIRED,
        Importance.HIGH,
        "The new type: string, unix (a number since 1970), Date, Time or Timestamp.",
        check=one_of(*_TYPES),
    ),
    Setting(
        "format",
        Kind.STRING,
        "",
        Importance.MEDIUM,
        "The pattern of java.text.SimpleDateFormat of a text, whether it is written or read, in UTC.",
    ),
    Setting(
        "unix.precision",
        Kind.STRING,
        "milliseconds",
        Importance.LOW,
        "The unit of a number since 1970: seconds, milliseconds, microseconds or nanoseconds.",
        check=one_of(*reversed(_UNITS)),
    ),
    REPLACE_NULL,
)


class _Conversion:
    def __init__(self, target: str, unit_ns: int, text_format: DateFormat | None) -> None:
        self.target = target
        self._unit_ns = unit_ns
        self._format = text_format

    def schema(self, is_optional: bool) -> Schema:
        match self.target:
            case "string":
                return Schema(Type.STRING, is_optional)
            case "unix":
                return Schema(Type.INT64, is_optional)
            case "Date":
                return Schema(Type.INT32, is_optional, DATE, 1)
            case "Time":
                return Schema(Type.INT32, is_optional, TIME, 1)
        return Schema(Type.INT64, is_optional, TIMESTAMP, 1)

    def converted(self, value: object, source: str | None = None) -> object:
        """`source`: the type that the schema says, None: that of the value. Raises DataError."""
        if value is None:
            return None
        try:
            return self._told(self._millis(value, source or _inferred(value)))
        except DateError as error:
            raise DataError(f"TimestampConverter: {error}") from None

    def _millis(self, value: object, source: str) -> int:
        if source == "string" and isinstance(value, str):
            if self._format is None:
                raise DataError("TimestampConverter needs the setting format to read a text")
            return self._format.parse(value)
        if source == "unix" and isinstance(value, int):
            return _divided(value * self._unit_ns, _MS_NANOS)
        if source in ("Date", "Time", "Timestamp"):
            return millis_of(value)
        raise DataError(f"Expected {source} to be of the type of its schema, found: {kind_of(value)}")

    def _told(self, millis: int) -> object:
        match self.target:
            case "string":
                if self._format is None:
                    raise DataError("TimestampConverter needs the setting format to write a text")
                return self._format.format(millis)
            case "unix":
                number = _divided(millis * _MS_NANOS, self._unit_ns)
                return max(-_LONG, min(_LONG - 1, number))
            case "Date":
                return timestamp_of(millis).date()
            case "Time":
                return timestamp_of(millis % DAY_MS).time()
        return timestamp_of(millis)


def _divided(number: int, by: int) -> int:
    """Towards zero, as TimeUnit does."""
    return abs(number) // by * (1 if number >= 0 else -1)


def _inferred(value: object) -> str:
    match value:
        case datetime.date() | datetime.time():
            return "Timestamp"
        case bool():
            pass
        case int():
            return "unix"
        case str():
            return "string"
    raise DataError(f"TimestampConverter does not support {kind_of(value)} objects as timestamps")


_NAMED: Mapping[str, str] = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
_PLAIN: Mapping[Type, str] = {Type.INT64: "unix", Type.STRING: "string"}


def _source(schema: Schema) -> str:
    found = _NAMED.get(schema.name or "") or _PLAIN.get(schema.type)
    if found is None:
        raise DataError(f"Schema {schema.name or schema.type.value} does not correspond to a known timestamp type")
    return found


def timestamp_converter(given: Given, part: Part) -> Transform:
    name = given.text("field")
    conversion = _conversion(given)

    def build(schema: Schema) -> Schema:
        fields = [
            Field(one.name, conversion.schema(one.schema.optional)) if one.name == name else one
            for one in schema.fields
        ]
        made = replace(struct_schema(fields, schema), optional=schema.optional)
        if isinstance(schema.default, dict):
            return replace(made, default=_struct(schema, made, schema.default, name, given.fills_nulls, conversion))
        return made

    rebuilt = Rebuilt(build)

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if schema is None:
            if value is None or not name:
                return part.replaced(record, None, conversion.converted(value))
            found = as_map(value, "converting timestamp formats")
            return part.replaced(record, None, {**found, name: conversion.converted(found.get(name))})
        if not name:
            target = conversion.schema(schema.optional)
            return part.replaced(record, target, conversion.converted(value, _source(schema)))
        if value is None and schema.type is Type.STRUCT:
            return part.replaced(record, rebuilt.of(schema), None)
        struct = as_struct(schema, value, "converting timestamp formats")
        target = rebuilt.of(schema)
        made = _struct(schema, target, struct, name, given.fills_nulls, conversion)
        return part.replaced(record, target, made)

    return apply


def _struct(
    schema: Schema, target: Schema, struct: dict[str, object], name: str, fills_nulls: bool, conversion: _Conversion
) -> dict[str, object]:
    made: dict[str, object] = {}
    for old, new in zip(schema.fields, target.fields, strict=True):
        held = read(struct, old, fills_nulls)
        put(made, new, conversion.converted(held, _source(old.schema)) if old.name == name else held)
    return made


def _conversion(given: Given) -> _Conversion:
    target, pattern = given.text("target.type"), given.text("format")
    if target == "string" and not pattern.strip():
        raise ConfigError({"format": ["TimestampConverter requires format option for string timestamps"]})
    try:
        text_format = DateFormat(pattern, time.time_ns() // 1_000_000) if pattern.strip() else None
    except PatternError as error:
        raise ConfigError({"format": [str(error)]}) from None
    return _Conversion(target, _UNITS[given.text("unix.precision")], text_format)
