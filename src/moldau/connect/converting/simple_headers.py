"""The converter of headers that Kafka Connect uses unless told otherwise (SimpleHeaderConverter)."""

from __future__ import annotations

from moldau.connect.converting.converter import Converted, Converter
from moldau.connect.converting.header_parser import parse_header
from moldau.connect.converting.texts import header_text
from moldau.connect.data.schema import Schema, Type

_BYTES = Schema(Type.BYTES)


class SimpleHeaderConverter(Converter):
    """Headers as texts; the schema is found in the text."""

    def from_header(self, topic: str, name: str, schema: Schema | None, value: object) -> bytes | None:
        return None if value is None else header_text(schema, value).encode()

    def to_header(self, topic: str, name: str, payload: bytes | None) -> Converted:
        """Bytes that are no UTF-8 stay bytes."""
        if payload is None:
            return None, None
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            return _BYTES, payload
        return parse_header(text)
