"""Avro with a schema registry (io.confluent.connect.avro.AvroConverter)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from moldau.connect.configuration import Kind, Setting
from moldau.connect.converting.converter import Converted, Converter, DataError, Headers, Role
from moldau.connect.converting.json_writing import Step
from moldau.connect.converting.registry.avro_schemas import from_avro, to_avro
from moldau.connect.converting.registry.avro_values import reader, writer
from moldau.connect.converting.registry.schemas import REGISTRY_SETTINGS, Schemas, framed, unframed
from moldau.connect.converting.schema_cache import Bounded, SchemaCache
from moldau.connect.data.schema import Schema
from moldau.extras import require_extra


class AvroConverter(Converter):
    """A value must have a schema. Logical types, defaults and names are kept in properties (`connect.name`...)."""

    settings: ClassVar[tuple[Setting, ...]] = (
        *REGISTRY_SETTINGS,
        Setting(
            "enhanced.avro.schema.support",
            Kind.BOOLEAN,
            False,
            documentation="Whether a string that was read from an enum is written as one.",
        ),
    )

    def __init__(self, values: Mapping[str, object], role: Role) -> None:
        super().__init__(values, role)
        require_extra("the Avro converter", "connect", ("fastavro",))
        self._schemas = Schemas(values, role, "AVRO")
        self._keeps_enums = bool(values["enhanced.avro.schema.support"])
        size = self._schemas.cache_size
        self._written: SchemaCache[tuple[str, str | None, Step]] = SchemaCache(self._compiled, size)
        self._write_with: Bounded[int, Any] = Bounded(size)
        self._read: Bounded[tuple[int, str], tuple[Any, Schema, Step]] = Bounded(size)

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise DataError("A value without a schema cannot be written as Avro")
        text, name, step = self._written.get(schema)
        stored = self._schemas.for_writing(self._schemas.subject(topic, name), text)
        parsed = self._write_with.get(stored.id)
        if parsed is None:
            parsed = self._write_with.put(stored.id, self._parsed(json.loads(stored.text)))
        plain = step(value)
        if isinstance(plain, bytes) and parsed == "bytes":
            return framed(stored.id, plain)  # as Confluent's serializer: bytes alone have no length in front
        from fastavro import schemaless_writer

        written = io.BytesIO()
        try:
            schemaless_writer(written, parsed, plain)
        except (ValueError, TypeError, OverflowError, KeyError, AttributeError) as error:
            raise DataError(f"The value does not fit the Avro schema {stored.id}: {error}") from None
        return framed(stored.id, written.getvalue())

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        if payload is None:
            return None, None
        schema_id, data = unframed(payload)
        parsed, schema, step = self._of_id(schema_id, topic)
        if parsed == "bytes":
            return schema, step(data)
        from fastavro import schemaless_reader

        try:
            value = schemaless_reader(
                io.BytesIO(data), parsed, None, return_named_type=True, return_named_type_override=True
            )
        except (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
            raise DataError(f"The bytes do not fit the Avro schema {schema_id}: {error}") from None
        return schema, step(value)

    def close(self) -> None:
        self._schemas.close()

    def _compiled(self, schema: Schema) -> tuple[str, str | None, Step]:
        """The schema as text, the name of its type, and the step of its values."""
        written = to_avro(schema, self._keeps_enums)
        base = next((one for one in written if one != "null"), None) if isinstance(written, list) else written
        name = ".".join(base[one] for one in ("namespace", "name") if one in base) if isinstance(base, dict) else base
        return json.dumps(written, ensure_ascii=False), name, writer(schema)

    def _of_id(self, schema_id: int, topic: str) -> tuple[Any, Schema, Step]:
        found = self._read.get((schema_id, topic))
        if found is None:
            stored = self._schemas.by_id(schema_id)
            if stored.references:
                raise DataError(f"The Avro schema {schema_id} has references, which are not read here")
            avro = json.loads(stored.text)
            name = (
                ".".join(avro[one] for one in ("namespace", "name") if one in avro) if isinstance(avro, dict) else None
            )
            version = self._schemas.version(schema_id, self._schemas.subject(topic, name))
            schema = from_avro(avro, version)
            found = self._read.put((schema_id, topic), (self._parsed(avro), schema, reader(schema)))
        return found

    def _parsed(self, avro: Any) -> Any:
        """For fastavro, without logical types: their values are numbers and bytes."""
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType

        plain = _without_logical(avro)
        try:
            return plain if isinstance(plain, str) else parse_schema(plain)
        except (SchemaParseException, UnknownType) as error:
            raise DataError(f"The Avro schema is rejected: {error}") from None


def _without_logical(avro: Any) -> Any:
    match avro:
        case list():
            return [_without_logical(one) for one in avro]
        case dict():
            kept = {key: one for key, one in avro.items() if key != "logicalType" and key[:8] != "connect."}
            for key in ("type", "items", "values", "fields"):
                if key in kept:
                    kept[key] = _without_logical(kept[key])
            return (
                kept["type"]
                if kept.keys() <= {"type", "precision", "scale"} and isinstance(kept["type"], str)
                else kept
            )
    return avro
