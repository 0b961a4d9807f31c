"""Avro's binary encoding, straight from its specification ("Binary Encoding"): of values below logical types, with the
chosen branch of each union."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

Json = Any


class Branch(NamedTuple):
    """A value of a union."""

    place: int
    value: Any


def encoded(schema: Json, value: Any, named: dict[str, Json] | None = None) -> bytes:
    """`named`: the named types so far; those of the schema are added."""
    named = {} if named is None else named
    if isinstance(schema, list):
        return long(value.place) + encoded(schema[value.place], value.value, named)
    if isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        return _of_type(schema["type"], schema, value, named)
    return encoded(named[schema], value, named) if schema in named else _of_type(schema, {}, value, named)


def _of_type(kind: str, schema: Json, value: Any, named: dict[str, Json]) -> bytes:
    if kind == "record":
        return b"".join(encoded(field["type"], value[field["name"]], named) for field in schema["fields"])
    if kind == "array":
        return _blocks([encoded(schema["items"], one, named) for one in value])
    if kind == "map":
        return _blocks([_text(key) + encoded(schema["values"], one, named) for key, one in value.items()])
    if kind in ("int", "long", "enum"):
        return long(value)
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind == "boolean":
        return bytes([value])
    if kind == "string":
        return _text(value)
    if kind == "bytes":
        return long(len(value)) + value
    return b"" if kind == "null" else bytes(value)


def long(number: int) -> bytes:
    number, found = (number << 1) ^ (number >> 63), bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _text(text: str | bytes) -> bytes:
    """Bytes stand for a text that may be invalid UTF-8."""
    data = text.encode() if isinstance(text, str) else text
    return long(len(data)) + data


def _blocks(items: list[bytes]) -> bytes:
    return (long(len(items)) + b"".join(items) if items else b"") + long(0)
