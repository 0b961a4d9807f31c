"""Formats convert the bytes of records to columns, and back. Each format is a class in a module here.

arrow_types: compiles a schema to Arrow types
avro: Avro
avro_columns: flat Avro values, whole columns at a time
avro_defaults: defaults of Avro fields
avro_levels: the depth of a recursive Avro value
avro_reading: Avro records by schema resolution
avro_schema: an Avro schema as a tree of types
avro_writing: rows to Avro values
by_schema: formats with a schema in a file or a registry
format: the base class of formats
given: JSON values of tests as Python values
json_columns: plain JSON objects as whole columns
json_kinds: columns of a JSON Schema
json_schema: JSON with a JSON Schema
json_text: rows as JSON in SQL
protobuf: Protobuf
registry: a client of schema registries
registry_security: TLS and logins of that client
text: JSON and CSV
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from moldau.products.pipelines.core.keys import Key
from moldau.products.pipelines.core.kinds import kinds_in
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.by_schema import SchemaFormat
from moldau.products.pipelines.formats.format import Format
from moldau.products.pipelines.formats.json_schema import JsonSchemaFormat

JSON = "json"


def all_formats() -> dict[str, type[Format]]:
    """Every format, by its name in a pipeline file."""
    return {kind.NAMED_BY: kind for kind in kinds_in(__name__, __path__) if issubclass(kind, Format)}


def writable_formats() -> dict[str, type[SchemaFormat]]:
    """The formats for writing rows, except JSON, whose schema is optional."""
    return {name: kind for name, kind in all_formats().items() if issubclass(kind, SchemaFormat)}


def keys_of(formats: Mapping[str, type[Format]]) -> tuple[Key, ...]:
    """The keys of a pipeline file for any of the formats."""
    return tuple(dict.fromkeys(key for one in formats.values() for key in one.KEYS))


def parse_format(section: Section, name: str, directory: Path) -> Format | None:
    """The format `name` with its keys; None for a format whose records already are rows. `directory`: the base of
    relative paths. Raises SpecError."""
    kind = all_formats().get(name)
    known = kind.KEYS if kind is not None else ()
    for key in keys_of(all_formats()):
        if section.has(key) and key not in known:
            section.refuse(key, f"has no meaning for the format {name}")
    return kind.parse(section, directory) if kind is not None else None


def parse_written(section: Section, name: str, directory: Path) -> SchemaFormat | None:
    """The format in which rows are written; None: JSON without a schema. Raises SpecError."""
    formats = writable_formats()
    kind = formats.get(name) or (JsonSchemaFormat if JsonSchemaFormat.is_meant(section) else None)
    known = kind.KEYS if kind is not None else ()
    for key in keys_of(formats):
        if section.has(key) and key not in known:
            section.refuse(key, f"has no meaning for the format {name}")
    return kind.parse(section, directory) if kind is not None else None
