"""JSON with a JSON Schema in a schema registry (io.confluent.connect.json.JsonSchemaConverter)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar

import msgspec

from moldau.connect.configuration import Importance, Kind, Setting, one_of
from moldau.connect.converting.converter import Converted, Converter, DataError, Headers, Role
from moldau.connect.converting.json_reading import reader
from moldau.connect.converting.json_writing import Form, Step, writer
from moldau.connect.converting.registry.json_schema_forms import from_json_schema, to_json_schema
from moldau.connect.converting.registry.schemas import REGISTRY_SETTINGS, Schemas, framed, unframed
from moldau.connect.converting.schema_cache import Bounded, SchemaCache
from moldau.connect.data.schema import Schema


class JsonSchemaConverter(Converter):
    """A value must have a schema. Types that JSON does not have are kept in properties (`connect.type`...)."""

    settings: ClassVar[tuple[Setting, ...]] = (
        *REGISTRY_SETTINGS,
        Setting(
            "decimal.format",
            Kind.STRING,
            "BASE64",
            Importance.LOW,
            "How decimals are written: BASE64 (exact bytes) or NUMERIC (a JSON number). Both are read.",
            check=one_of("BASE64", "NUMERIC", ignore_case=True),
        ),
    )

    def __init__(self, values: Mapping[str, object], role: Role) -> None:
        super().__init__(values, role)
        self._schemas = Schemas(values, role, "JSON")
        self._form = Form(
            str(values["decimal.format"]).upper() == "NUMERIC", replaces_null=True, pairs_are_objects=True
        )
        size = self._schemas.cache_size
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(float_hook=Decimal).decode
        self._written: SchemaCache[tuple[str, Step]] = SchemaCache(self._compiled, size)
        self._read: Bounded[tuple[int, str], tuple[Schema, Step]] = Bounded(size)

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise DataError("A value without a schema cannot be written with a JSON Schema")
        text, step = self._written.get(schema)
        stored = self._schemas.for_writing(self._schemas.subject(topic, schema.name), text)
        try:
            return framed(stored.id, self._encode(step(value)))
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(f"The value cannot be written as JSON: {error}") from None

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        if payload is None:
            return None, None
        schema_id, data = unframed(payload)
        schema, step = self._of_id(schema_id, topic)
        try:
            return schema, step(self._decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"The bytes are no JSON: {error}") from None

    def close(self) -> None:
        self._schemas.close()

    def _compiled(self, schema: Schema) -> tuple[str, Step]:
        return self._encode(to_json_schema(schema, self._form)).decode(), writer(schema, self._form)

    def _of_id(self, schema_id: int, topic: str) -> tuple[Schema, Step]:
        found = self._read.get((schema_id, topic))
        if found is None:
            stored = self._schemas.by_id(schema_id)
            if stored.references:
                raise DataError(f"The JSON Schema {schema_id} has references, which are not read here")
            written = self._decode(stored.text.encode())
            title = written.get("title") if isinstance(written, dict) else None
            version = self._schemas.version(schema_id, self._schemas.subject(topic, title))
            schema = from_json_schema(written, self._form, version)
            found = self._read.put((schema_id, topic), (schema, reader(schema, self._form)))
        return found
