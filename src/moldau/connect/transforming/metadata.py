"""SetSchemaMetadata: the name and the version of a schema."""

from __future__ import annotations

from dataclasses import replace

from moldau.connect.configuration import ConfigError, Importance, Kind, Setting
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.data.schema import Schema, Type
from moldau.connect.transforming.parts import Given, Part, Rebuilt, Transform, read
from moldau.connect.transforming.settings import REPLACE_NULL

SETTINGS = (
    Setting("schema.name", Kind.STRING, None, Importance.HIGH, "The new name of the schema."),
    Setting("schema.version", Kind.INT, None, Importance.HIGH, "The new version of the schema."),
    REPLACE_NULL,
)


def set_schema_metadata(given: Given, part: Part) -> Transform:
    name, version = given.text_or_none("schema.name"), given.number_or_none("schema.version")

    if name is None and version is None:
        raise ConfigError({"schema.name": ["Neither schema name nor version configured"]})

    def build(schema: Schema) -> Schema:
        new_version = schema.version if version is None else version
        return replace(schema, name=schema.name if name is None else name, version=new_version)

    rebuilt = Rebuilt(build)

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for updating schema metadata")
        if schema.type is not Type.STRUCT:
            raise DataError(f"Only structs are supported for updating schema metadata, found: {schema.type.value}")
        if isinstance(value, dict):
            value = {one.name: read(value, one, given.fills_nulls) for one in schema.fields}
        return part.replaced(record, rebuilt.of(schema), value)

    return apply
