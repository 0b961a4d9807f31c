"""Avro: whole columns at a time where all values of a batch have the reader's own schema and a flat one
(`avro_columns`), else record by record with `fastavro`.

With a `registry`, a value names the schema that it was written with, and is read with the reader's schema: that of
`schema_file`, or the newest one of the subject when the pipeline starts. A schema that is new while the pipeline runs
is asked for then. Without a registry, values are bare, and all are written with the schema of `schema_file`.
(Avro specification, "Schema Resolution".)
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.extras import require_extra
from moldau.products.pipelines.core.column_types import MOST_DIGITS
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.avro_columns import common_schema_id, fits_columns, read_columns
from moldau.products.pipelines.formats.by_schema import UNREGISTERED, Reader, Row, SchemaFormat, Values, Writer
from moldau.products.pipelines.formats.registry import (
    HEADER_BYTES,
    RegisteredSchema,
    Registry,
    UnknownSchemaError,
)

if TYPE_CHECKING:
    import pyarrow as pa

AvroSchema = Any
"""As JSON has it: a text, a list, or a mapping."""

READERS_KEPT = 1_000
LONGEST_REASON = 300
"""Letters; a value stands in it."""


class AvroFormat(SchemaFormat, frozen=True, kw_only=True):
    NAMED_BY = "avro"

    @classmethod
    def parse(cls, section: Section, directory: Path) -> SchemaFormat:
        decoder = super().parse(section, directory)
        if decoder.schema_file is not None:
            try:
                json.loads(decoder.schema_file.read_text("utf-8"))
            except (OSError, ValueError) as error:
                section.refuse("schema_file", f"holds no Avro schema: {error}")
        return decoder

    def values(self) -> Values:
        return AvroValues(self._schema(), self.registry)

    def writer(self) -> Writer:
        return AvroWriter(self._schema(), self.registry, self.subject)

    def _schema(self) -> RegisteredSchema:
        require_extra("`format: avro`", "avro")
        if self.schema_file is not None:
            return RegisteredSchema(UNREGISTERED, self.schema_file.read_text("utf-8"))
        return self.newest_schema()


class AvroValues(Values):
    """`schema`: the reader's."""

    def __init__(self, schema: RegisteredSchema, registry: Registry | None) -> None:
        """Raises FlowError for a schema that has no columns."""
        parsed, named = _record(schema)
        super().__init__(_Columns(named).struct(parsed), registry)
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
        schema = _schema_of_columns(self._schema, self._registry, schema_id)
        rows = None if schema is None else read_columns(schema, present, self.kind, after=head)
        if rows is None or not values.null_count:
            return rows
        places = pc.subtract(pc.cumulative_sum(values.is_valid().cast("int64")), 1)
        return rows.take(pc.if_else(values.is_valid(), places, None))


class AvroWriter(Writer):
    SCHEMA_TYPE = "AVRO"

    def fields(self) -> Mapping[str, bool]:
        record, _ = _record(self._schema)
        return {field["name"]: "default" not in field for field in record["fields"]}

    def encoder(self) -> Callable[[Row], bytes]:
        """`fastavro` itself cuts a fraction to an int, writes an int of any size, and takes a text for a boolean: so
        each row is looked at before."""
        from fastavro.validation import ValidationError, validate

        schema, _ = _parsed(self._schema)
        write = self._unchecked()

        def encode(row: Row) -> bytes:
            try:
                validate(row, schema)
            except ValidationError as error:
                raise ValueError("; ".join(str(one)[:LONGEST_REASON] for one in error.errors)) from None
            return write(row)

        return encode

    def encoder_of(self, rows: pa.Array) -> Callable[[Row], bytes]:
        """The look at each row doubles the cost: columns whose types say enough do without."""
        record, _ = _record(self._schema)
        columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        are_fitting = all(
            _surely_fits(columns[field["name"]], field["type"])
            for field in record["fields"]
            if field["name"] in columns
        )
        return self._unchecked() if are_fitting else self.encoder()

    def _unchecked(self) -> Callable[[Row], bytes]:
        import fastavro

        schema, _ = _parsed(self._schema)

        def encode(row: Row) -> bytes:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, row)
            return out.getvalue()

        return encode


def _surely_fits(column: pa.Array, schema: AvroSchema) -> bool:
    """Whether `fastavro` writes each value of the column as it is, or refuses it."""
    import pyarrow as pa

    if isinstance(schema, list):
        return True  # of a union it looks for the type that a value fits
    name, logical = (schema, None) if isinstance(schema, str) else (schema["type"], schema.get("logicalType"))
    kind, types = column.type, pa.types
    if logical is not None:
        is_time = logical in ("timestamp-millis", "timestamp-micros") and types.is_timestamp(kind)
        return bool(is_time or (logical == "date" and types.is_date(kind)))
    known: dict[str, bool] = {
        "string": types.is_string(kind),
        "bytes": types.is_binary(kind),
        "int": types.is_signed_integer(kind) and (name != "int" or _are_within(column, pa.int32())),
        "long": types.is_signed_integer(kind),
        "float": types.is_floating(kind),
        "double": types.is_floating(kind),
        "boolean": types.is_boolean(kind) and not column.null_count,
    }
    return known.get(name, False) if isinstance(name, str) else False


def _are_within(numbers: pa.Array, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        numbers.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _reader(reader: RegisteredSchema, registry: Registry | None, schema_id: int | None) -> Reader:
    import fastavro

    as_read, as_written = _both_schemas(reader, registry, schema_id)

    def read(value: bytes) -> Row:
        stream = io.BytesIO(value)
        try:
            row: Any = fastavro.schemaless_reader(stream, as_written, as_read)
        except EOFError:
            raise ValueError("the value ends within a field") from None  # fastavro names its stream instead
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes stand behind the last field")
        found: Row = row
        return found

    return read


@lru_cache(READERS_KEPT)
def _schema_of_columns(reader: RegisteredSchema, registry: Registry | None, schema_id: int | None) -> AvroSchema | None:
    """The schema of both sides; None where values with this id are to be read one by one."""
    try:
        as_read, as_written = _both_schemas(reader, registry, schema_id)
    except (UnknownSchemaError, FlowError):
        return None
    return as_read if as_read == as_written and fits_columns(as_read) else None


@lru_cache(READERS_KEPT)
def _both_schemas(
    reader: RegisteredSchema, registry: Registry | None, schema_id: int | None
) -> tuple[AvroSchema, AvroSchema]:
    """The reader's and the writer's, which is asked for once in the life of the process: what an id stands for never
    changes. Raises FlowError, RegistryError."""
    as_read, _ = _parsed(reader)
    if registry is None or schema_id is None:
        return as_read, as_read
    return as_read, _parsed(registry.schema_of_id(schema_id))[0]


def _record(schema: RegisteredSchema) -> tuple[AvroSchema, dict[str, AvroSchema]]:
    """As `_parsed`. Raises FlowError for a schema that has no fields."""
    parsed, named = _parsed(schema)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise FlowError("the Avro schema is no record, so it has no columns")
    return parsed, named


def _parsed(schema: RegisteredSchema) -> tuple[AvroSchema, dict[str, AvroSchema]]:
    """The schema, and all types with a name that it uses. Raises FlowError."""
    import fastavro

    names: dict[str, AvroSchema] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(_without_uuids(json.loads(text)), names)
        return fastavro.parse_schema(_without_uuids(json.loads(schema.text)), names), names
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise FlowError(f"the Avro schema cannot be read: {error}") from error


def _without_uuids(schema: AvroSchema) -> AvroSchema:
    """The text of a uuid, and not Python's object for it, fits a column of text."""
    if isinstance(schema, list):
        return [_without_uuids(one) for one in schema]
    if isinstance(schema, dict):
        return {
            key: _without_uuids(value)
            for key, value in schema.items()
            if (key, value) != ("logicalType", "uuid") or schema.get("type") == "fixed"
        }
    return schema


class _Columns:
    """The columns of a schema. `named`: all types with a name."""

    def __init__(self, named: Mapping[str, AvroSchema]) -> None:
        self._named = named
        self._open: list[str] = []

    def struct(self, record: AvroSchema) -> pa.StructType:
        import pyarrow as pa

        name = record["name"]
        if name in self._open:
            raise FlowError(f"the Avro record {name} holds itself, which no column can")
        self._open.append(name)
        fields = [pa.field(field["name"], self.kind(field["type"])) for field in record["fields"]]
        self._open.pop()
        return pa.struct(fields)

    def kind(self, schema: AvroSchema) -> pa.DataType:
        import pyarrow as pa

        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            if len(others) != 1:
                raise FlowError(f"a union of {len(others)} types has no column: {json.dumps(others)[:200]}")
            return self.kind(others[0])
        if isinstance(schema, str):
            return self.kind(self._named[schema]) if schema in self._named else _primitive(schema)
        name = schema["type"]
        logical = _logical(schema)
        if logical is not None:
            return logical
        if name in ("record", "error"):
            return self.struct(schema)
        if name == "array":
            return pa.list_(self.kind(schema["items"]))
        if name == "map":
            return pa.map_(pa.string(), self.kind(schema["values"]))
        if name in ("enum", "fixed"):
            return pa.string() if name == "enum" else pa.binary()
        return self.kind(name)


def _logical(schema: AvroSchema) -> pa.DataType | None:
    import pyarrow as pa

    logical = schema.get("logicalType")
    if logical == "decimal":
        precision = schema.get("precision", 0)
        if not 1 <= precision <= MOST_DIGITS:
            raise FlowError(f"an Avro decimal of {precision} digits has no column: 1 to {MOST_DIGITS} are possible")
        return pa.decimal128(precision, schema.get("scale", 0))
    known = {
        "date": pa.date32(),
        "time-millis": pa.time64("us"),
        "time-micros": pa.time64("us"),
        "timestamp-millis": pa.timestamp("us", "UTC"),
        "timestamp-micros": pa.timestamp("us", "UTC"),
        "local-timestamp-millis": pa.timestamp("us"),
        "local-timestamp-micros": pa.timestamp("us"),
    }
    return known.get(logical)


def _primitive(name: str) -> pa.DataType:
    import pyarrow as pa

    known = {
        "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
    }  # fmt: skip
    if name not in known:
        raise FlowError(f"the Avro schema names {name}, which it does not define")
    return known[name]
