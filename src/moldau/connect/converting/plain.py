"""Converters of texts, bytes, numbers and booleans (StringConverter, ByteArrayConverter, LongConverter...)."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Mapping
from typing import ClassVar

from moldau.connect.configuration import Kind, Setting, wrong
from moldau.connect.converting.converter import Converted, Converter, DataError, Headers, Role
from moldau.connect.converting.texts import java_text
from moldau.connect.data.schema import Schema, Type

_TEXT = Schema(Type.STRING, optional=True)
_BYTES = Schema(Type.BYTES, optional=True)


def _encoding(name: str, value: object) -> None:
    try:
        codecs.lookup(str(value or "UTF-8"))
    except LookupError:
        raise ValueError(wrong(name, value, "Unsupported encoding")) from None


class StringConverter(Converter):
    """Writes any value as its text in Java's form; reads a text. Bytes outside the encoding become U+FFFD."""

    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("converter.encoding", Kind.STRING, "UTF-8", documentation="The encoding of the text.", check=_encoding),
        Setting("encoding", Kind.STRING, None, documentation="A short name of `converter.encoding`.", check=_encoding),
    )

    def __init__(self, values: Mapping[str, object], role: Role) -> None:
        super().__init__(values, role)
        self.encoding = codecs.lookup(str(values.get("encoding") or values["converter.encoding"])).name

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        text = value if isinstance(value, str) else java_text(schema, value)
        return text.encode(self.encoding, "replace")

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        return _TEXT, None if payload is None else payload.decode(self.encoding, "replace")


class ByteArrayConverter(Converter):
    """Bytes as they are."""

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        return _BYTES, payload


class BooleanConverter(Converter):
    """One byte: 1 or 0."""

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type {type(value).__name__}")
        return b"\x01" if value else b"\x00"

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        schema = Schema(Type.BOOLEAN, optional=True)
        if payload is None:
            return schema, None
        if payload not in (b"\x00", b"\x01"):
            raise DataError("Data received by BooleanConverter is not one byte that is 0 or 1")
        return schema, payload == b"\x01"


class NumberConverter(Converter):
    """A number in big-endian form of a fixed size. The schema that is given is not read, as in Kafka."""

    type: ClassVar[Type]
    form: ClassVar[struct.Struct]

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        is_whole = self.type in (Type.INT16, Type.INT32, Type.INT64)
        if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
            raise DataError(f"{type(self).__name__} is not compatible with objects of type {type(value).__name__}")
        try:
            return self.form.pack(value)
        except (struct.error, OverflowError):
            raise DataError(f"{value} is outside the range of {self.type.name}") from None

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        schema = Schema(self.type, optional=True)
        if payload is None:
            return schema, None
        try:
            (value,) = self.form.unpack(payload)
        except struct.error:
            raise DataError(f"Size of data received by {type(self).__name__} is not {self.form.size}") from None
        return schema, value


class ShortConverter(NumberConverter):
    type = Type.INT16
    form = struct.Struct(">h")


class IntegerConverter(NumberConverter):
    type = Type.INT32
    form = struct.Struct(">i")


class LongConverter(NumberConverter):
    type = Type.INT64
    form = struct.Struct(">q")


class FloatConverter(NumberConverter):
    type = Type.FLOAT32
    form = struct.Struct(">f")


class DoubleConverter(NumberConverter):
    type = Type.FLOAT64
    form = struct.Struct(">d")
