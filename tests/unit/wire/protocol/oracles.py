"""The same message in two independent implementations: kio and kafka-python.

Both name the fields after the same schemas, in the same order. This module undoes their differences: kio has its own
types for errors, times and ids, kafka-python has sets for bit fields.
"""

from __future__ import annotations

import datetime
import importlib
import io
import re
import uuid
from dataclasses import fields as dataclass_fields
from types import ModuleType

import msgspec
from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs import BitField
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from moldau.wire.protocol.schema import Array, Field, FieldType, Nested, Primitive, fields_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _present(cls: type[msgspec.Struct], version: int) -> list[Field]:
    return [field for field in fields_of(cls) if field.is_present(version)]


# -- kio


def kio_class(cls: type[msgspec.Struct], version: int) -> type:
    base = re.sub("(Request|Response)$", "", cls.__name__)
    family = re.sub(r"([a-z])([A-Z])", r"\1_\2", base).lower().replace("kraft", "k_raft")
    kind = (
        "request" if cls.__name__.endswith("Request") else "response" if cls.__name__.endswith("Response") else "data"
    )
    module = importlib.import_module(f"kio.schema.{family}.v{version}.{kind}")
    return getattr(module, cls.__name__)


def to_kio(message: msgspec.Struct, version: int) -> object:
    return _kio_struct(message, kio_class(type(message), version), version)


def kio_bytes(entity: object) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def kio_read(kind: type, body: bytes) -> tuple[object, int]:
    return entity_reader(kind)(body, 0)


def _kio_struct(message: msgspec.Struct, kind: type, version: int) -> object:
    ours = _present(type(message), version)
    values = {
        theirs.name: _kio_value(field.type, getattr(message, field.name), theirs, kind, version)
        for field, theirs in zip(ours, dataclass_fields(kind), strict=True)
    }
    return kind(**values)


def _kio_value(field_type: FieldType, value: object, theirs: object, kind: type, version: int) -> object:
    if value is None:
        return None
    if isinstance(field_type, Array):
        return tuple(_kio_value(field_type.element, item, theirs, kind, version) for item in value)
    if isinstance(field_type, Nested):
        nested = next(
            found
            for found in vars(importlib.import_module(kind.__module__)).values()
            if isinstance(found, type) and found.__name__ in _names_in(theirs.type) and hasattr(found, "__type__")
        )
        return _kio_struct(value, nested, version)
    kafka_type = theirs.metadata["kafka_type"]
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value) if any(value) else None
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type == "datetime_i64":
        # kio knows that -1 means no time for some fields
        return (
            None
            if value == -1 and "None" in _names_in(theirs.type)
            else _EPOCH + datetime.timedelta(milliseconds=value)
        )
    return value


def _names_in(annotation: object) -> list[str]:
    return re.findall(r"\w+", annotation if isinstance(annotation, str) else repr(annotation))


# -- kafka-python

_KAFKA_PYTHON: tuple[ModuleType, ...] = (admin, consumer, metadata, producer, sasl)


def kafka_python_class(cls: type[msgspec.Struct]) -> type[ApiMessage] | None:
    for module in _KAFKA_PYTHON:
        found = getattr(module, cls.__name__, None)
        if found is not None:
            return found
    return None


def kafka_python_bytes(message: msgspec.Struct, version: int) -> bytes:
    kind = kafka_python_class(type(message))
    return _kafka_python_struct(message, kind, version).encode(version=version)


def _kafka_python_struct(message: msgspec.Struct, kind: type, version: int) -> object:
    values = {}
    theirs_present = [field for field in kind._struct.fields.values() if field.for_version_q(version)]
    for field, theirs in zip(_present(type(message), version), theirs_present, strict=True):
        value = getattr(message, field.name)
        if field.is_tagged(version) and value == field.default:
            continue
        values[theirs.name] = _kafka_python_value(field.type, value, theirs, version)
    return kind(version=version, **values)


def _kafka_python_value(field_type: FieldType, value: object, theirs: object, version: int) -> object:
    if value is None:
        return None
    if isinstance(field_type, Array):
        element = getattr(theirs, "array_of", theirs)
        return [_kafka_python_value(field_type.element, item, element, version) for item in value]
    if isinstance(field_type, Nested):
        return _kafka_python_struct(value, theirs.data_class, version)
    if isinstance(field_type, Primitive) and field_type.name == "uuid":
        return uuid.UUID(bytes=value)
    if getattr(theirs, "_type", None) is BitField:
        return BitField.from_32_bit_field(value)
    return value
