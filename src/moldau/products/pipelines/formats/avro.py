"""Avro. Decodes flat records of one schema as whole columns (`avro_columns`), others one by one (`avro_reading`).

Both ways give the same row or the same dead letter.

With a `registry`, a value names the schema that it was written with. It is read with the reader's schema: that of
`schema_file`, or the subject's newest one when the pipeline starts. Schemas that are registered while the pipeline runs
are fetched when they first occur. Without a registry, values are bare, and all are written with the schema of
`schema_file`. (Avro specification, "Schema Resolution".)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from moldau.extras import require_extra
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.avro_columns import FlatField, common_schema_id, flat_fields, read_columns
from moldau.products.pipelines.formats.avro_reading import record_reader
from moldau.products.pipelines.formats.avro_schema import NO_DEFAULT, AvroType, column_of, parsed, parsed_record, said
from moldau.products.pipelines.formats.avro_writing import RecordWriting, can_take
from moldau.products.pipelines.formats.by_schema import (
    UNREGISTERED,
    Reader,
    Row,
    SchemaFormat,
    Values,
    Writer,
)
from moldau.products.pipelines.formats.registry import (
    HEADER_BYTES,
    RegisteredSchema,
    Registry,
    UnknownSchemaError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

READERS_KEPT = 1_000


class AvroFormat(SchemaFormat, frozen=True, kw_only=True):
    NAMED_BY = "avro"
    JSON_SCHEMA_FILE = "Avro schema"

    def values(self) -> Values:
        return AvroValues(self._schema(), self.registry)

    def writer(self) -> Writer:
        return AvroWriter(self._schema(), self.registry, self.subject)

    def encoded(self, rows: DataFrame, fields: str) -> DataFrame:
        found = super().encoded(rows, fields)
        check_types(self._schema(), rows.select(f"{fields}.*").schema)
        return found

    def _schema(self) -> RegisteredSchema:
        require_extra("`format: avro`", "avro")
        if self.schema_file is not None:
            return RegisteredSchema(UNREGISTERED, self.schema_file.read_text("utf-8"))
        return self.newest_schema()


class AvroValues(Values):
    """`schema`: the reader's schema."""

    def __init__(self, schema: RegisteredSchema, registry: Registry | None) -> None:
        """Raises FlowError for a schema that has no columns."""
        super().__init__(column_of(parsed_record(schema)), registry)
        self._schema = schema

    def reader(self, schema_id: int | None) -> Reader:
        return _reader(self._schema, self._registry, schema_id)

    def at_once(self, values: pa.Array) -> pa.Array | None:
        import pyarrow.compute as pc

        present, schema_id, head = values.drop_null(), None, 0
        if self._registry is not None:
            schema_id, head = common_schema_id(present), HEADER_BYTES
            if schema_id is None:
                return None
        fields = _flat_fields(self._schema, self._registry, schema_id)
        rows = None if fields is None else read_columns(fields, present, self.kind, after=head)
        if rows is None or not values.null_count:
            return rows
        places = pc.subtract(pc.cumulative_sum(values.is_valid().cast("int64")), 1)
        return rows.take(pc.if_else(values.is_valid(), places, None))


class AvroWriter(Writer):
    SCHEMA_TYPE = "AVRO"

    def check(self, columns: Sequence[str]) -> None:
        super().check(columns)
        writing = _writing(self._schema)
        for field in writing.record.fields:
            if field.name not in columns:
                try:
                    writing.default(field)
                except ValueError as error:
                    raise FlowError(f"the SQL leaves a field to its default, and {error}") from error

    def fields(self) -> Mapping[str, bool]:
        return {field.name: field.default is NO_DEFAULT for field in _writing(self._schema).record.fields}

    def encoder(self) -> Callable[[Row], bytes]:
        return _writing(self._schema).encoder()

    def encoder_of(self, rows: pa.Array) -> Callable[[Row], bytes]:
        """Checking each value is expensive, so columns whose types guarantee valid values are not checked."""
        writing = _writing(self._schema)
        columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        fitting = (
            field.name
            for field in writing.record.fields
            if field.name in columns and _surely_fits(columns[field.name], field.type)
        )
        return writing.encoder(frozenset(fitting))


def check_types(schema: RegisteredSchema, columns: Any) -> None:
    """`columns`: a Spark struct of fields that the schema has. Raises FlowError for a column of which no value can
    fit."""
    given = {one.name: one.dataType for one in columns}
    for field in _writing(schema).record.fields:
        if field.name in given and not can_take(field.type, given[field.name]):
            column = given[field.name].simpleString()
            raise FlowError(f"the SQL gives {field.name!r} as {column}, and the schema has {said(field.type)} there")


@lru_cache(READERS_KEPT)
def _writing(schema: RegisteredSchema) -> RecordWriting:
    """Raises FlowError."""
    return RecordWriting(parsed_record(schema))


def _surely_fits(column: pa.Array, kind: AvroType) -> bool:
    """Whether `fastavro` writes every value of the column unchanged, or as null in a union of the type with null."""
    import pyarrow as pa

    if kind.kind == "union":
        other = kind.without_null()
        return len(kind.branches) == 2 and other is not None and _surely_fits(column.drop_null(), other)
    if kind.logical is not None or column.null_count:
        return False
    types, stored = pa.types, column.type
    known: dict[str, bool] = {
        "string": types.is_string(stored),
        "bytes": types.is_binary(stored),
        "int": types.is_signed_integer(stored) and _are_within(column, pa.int32()),
        "long": types.is_signed_integer(stored),
        "float": types.is_float32(stored),
        "double": types.is_floating(stored),
        "boolean": types.is_boolean(stored),
    }
    return known.get(kind.kind, False)


def _are_within(numbers: pa.Array, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        numbers.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


@lru_cache(READERS_KEPT)
def _reader(reader: RegisteredSchema, registry: Registry | None, schema_id: int | None) -> Reader:
    as_read, as_written = _both_schemas(reader, registry, schema_id)
    return record_reader(as_written, as_read)


@lru_cache(READERS_KEPT)
def _flat_fields(
    reader: RegisteredSchema, registry: Registry | None, schema_id: int | None
) -> tuple[FlatField, ...] | None:
    """None if values with this schema id must be read one by one."""
    try:
        as_read, as_written = _both_schemas(reader, registry, schema_id)
    except (UnknownSchemaError, FlowError):
        return None
    return flat_fields(as_written, as_read)


@lru_cache(READERS_KEPT)
def _both_schemas(
    reader: RegisteredSchema, registry: Registry | None, schema_id: int | None
) -> tuple[AvroType, AvroType]:
    """The reader's and the writer's schema. The writer's is fetched once per process, because the schema of an id never
    changes. Raises FlowError, RegistryError."""
    as_read = parsed_record(reader)
    if registry is None or schema_id is None:
        return as_read, as_read
    return as_read, parsed(registry.schema_of_id(schema_id))
