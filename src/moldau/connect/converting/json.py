"""JSON with the schema in each message, or without (org.apache.kafka.connect.json.JsonConverter, KIP-1054)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import ClassVar

import msgspec

from moldau.connect.configuration import Importance, Kind, Setting, in_range, one_of, wrong
from moldau.connect.converting.converter import Converted, Converter, DataError, Headers, Role
from moldau.connect.converting.json_reading import read_schemaless, reader
from moldau.connect.converting.json_schemas import schema_from_json, schema_to_json
from moldau.connect.converting.json_writing import Form, Step, write_schemaless, writer
from moldau.connect.converting.schema_cache import Bounded, SchemaCache
from moldau.connect.data.schema import Schema

_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields.'
    " If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_UNREADABLE = "Converting byte[] to Kafka Connect data failed due to serialization error"


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


def _schema_content(name: str, value: object) -> None:
    if value:
        try:
            schema_from_json(msgspec.json.decode(str(value)), Form())
        except (msgspec.DecodeError, DataError) as error:
            raise ValueError(wrong(name, value, str(error))) from None


_CONTROL = b"\\u00"
_ESCAPE = re.compile(rb"\\(?:u00[01].|.)", re.DOTALL)
_PAIRS = re.compile("[\U00010000-\U0010ffff]")


def _as_jackson(payload: bytes) -> bytes:
    """The same JSON in the form of Kafka's library: hex digits of escapes in upper case, and a character outside the
    Basic Multilingual Plane as two escapes."""
    if _CONTROL in payload:
        payload = _ESCAPE.sub(_upper, payload)
    if payload.isascii():
        return payload
    return _PAIRS.sub(_escaped_pair, payload.decode()).encode()


def _upper(found: re.Match[bytes]) -> bytes:
    return found[0][:2] + found[0][2:].upper()


def _escaped_pair(found: re.Match[str]) -> str:
    high, low = divmod(ord(found[0]) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


class JsonConverter(Converter):
    """A value that JSON cannot hold, or JSON that does not fit its schema, is a DataError; Kafka reads 0 or false."""

    settings: ClassVar[tuple[Setting, ...]] = (
        Setting(
            "schemas.enable",
            Kind.BOOLEAN,
            True,
            Importance.HIGH,
            "Whether each message has its schema. With `schema.content`, messages that are read have none.",
        ),
        Setting(
            "schemas.cache.size",
            Kind.INT,
            1000,
            Importance.HIGH,
            "The most schemas that the converter keeps.",
            check=in_range(0),
        ),
        Setting(
            "decimal.format",
            Kind.STRING,
            "BASE64",
            Importance.LOW,
            "How decimals are written: BASE64 (exact bytes) or NUMERIC (a JSON number). Both are read.",
            check=one_of("BASE64", "NUMERIC", ignore_case=True),
        ),
        Setting(
            "replace.null.with.default",
            Kind.BOOLEAN,
            True,
            Importance.LOW,
            "Whether a field that is null gets the default of its schema.",
        ),
        Setting(
            "schema.content",
            Kind.STRING,
            None,
            Importance.HIGH,
            "The schema of all messages that are read, as JSON, in the form that a message has it.",
            check=_schema_content,
        ),
    )

    def __init__(self, values: Mapping[str, object], role: Role) -> None:
        super().__init__(values, role)
        size = values["schemas.cache.size"]
        content = values["schema.content"]
        self._form = Form(str(values["decimal.format"]).upper() == "NUMERIC", bool(values["replace.null.with.default"]))
        self._has_envelope = bool(values["schemas.enable"])
        self._encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
        # exact digits: a decimal of the format NUMERIC must not go through a float
        self._decode: Callable[[bytes | msgspec.Raw], object] = msgspec.json.Decoder(float_hook=Decimal).decode
        self._envelope = msgspec.json.Decoder(_Envelope).decode
        self._written: SchemaCache[tuple[bytes, Step]] = SchemaCache(self._compiled, _size(size))
        self._read: Bounded[bytes, tuple[Schema | None, Step]] = Bounded(_size(size))
        self._fixed: tuple[Schema | None, Step] | None = None
        if content and self._has_envelope:
            fixed = schema_from_json(self._decode(str(content).encode()), self._form)
            self._fixed = fixed, reader(fixed, self._form)

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if schema is None:
            if value is None:
                return None
            head: bytes = b'{"schema":null,"payload":'
            step: Step = write_schemaless
        else:
            head, step = self._written.get(schema)
        try:
            payload = self._encode(step(value))
        except (ValueError, TypeError, RecursionError) as error:  # surrogates; what is nested in itself
            raise DataError(
                f"Converting Kafka Connect data to byte[] failed due to serialization error: {error}"
            ) from None
        if not payload.isascii() or _CONTROL in payload:
            payload = _as_jackson(payload)
        return head + payload + b"}" if self._has_envelope else payload

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        if payload is None or (not payload and not self._has_envelope):
            return None, None
        try:
            if not self._has_envelope:
                return None, read_schemaless(self._decode(payload))
            if self._fixed is not None:
                schema, step = self._fixed
                return schema, step(self._decode(payload))
            envelope = self._envelope(payload)
            schema, step = self._schema(bytes(envelope.schema))
            return schema, step(self._decode(envelope.payload))
        except msgspec.ValidationError:
            raise DataError(_ENVELOPE) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{_UNREADABLE}: {error}") from None

    def _compiled(self, schema: Schema) -> tuple[bytes, Step]:
        written = self._encode(schema_to_json(schema, self._form))
        return b'{"schema":' + written + b',"payload":', writer(schema, self._form)

    def _schema(self, written: bytes) -> tuple[Schema | None, Step]:
        found = self._read.get(written)
        if found is None:
            schema = schema_from_json(self._decode(written), self._form)
            found = self._read.put(written, (schema, reader(schema, self._form)))
        return found


def _size(value: object) -> int:
    return value if isinstance(value, int) else 0
