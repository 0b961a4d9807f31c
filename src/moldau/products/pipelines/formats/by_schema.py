"""The base of formats with a schema, from a file, or from a registry by the id at the start of each value."""

from __future__ import annotations

import json
import struct
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Key, LocalPath, Text
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN, FORMAT, Format
from moldau.products.pipelines.formats.given import from_json
from moldau.products.pipelines.formats.registry import (
    HEADER_BYTES,
    MAGIC,
    REGISTRY,
    RegisteredSchema,
    Registry,
    UnknownSchemaError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

Row = Mapping[str, Any]
Reader = Callable[[bytes], Row]

SCHEMA_FILE = LocalPath(
    "schema_file",
    "The reader's schema: an Avro schema, a JSON Schema, a `.proto`, or a descriptor set (`protoc --include_imports "
    "--descriptor_set_out`).",
    absent="the newest one of `subject`",
)
SUBJECT = Text("subject", "The subject of the registry whose newest schema is used.", absent="`<topic>-value`")
TOPIC = "topic"
"""The key of a source or target whose topic gives the default subject."""
UNREGISTERED = -1
"""The id of a schema that comes from a file."""
IDS_KEPT = 1_000


class SchemaFormat(Format, frozen=True, kw_only=True):
    """`schema_file`: the reader's schema; None: the newest one of `subject` when the pipeline starts. `registry`: None
    if values are bare."""

    KEYS: ClassVar[tuple[Key, ...]] = (SCHEMA_FILE, REGISTRY, SUBJECT)

    JSON_SCHEMA_FILE: ClassVar[str | None] = None
    """The kind of a schema file in JSON, for people; None if such files are not JSON."""

    schema_file: Path | None = None
    registry: Registry | None = None
    subject: str | None = None

    @classmethod
    def parse(cls, section: Section, directory: Path) -> SchemaFormat:
        registry = Registry.parse(section, directory)
        schema_file = SCHEMA_FILE.of(section, directory) if section.has(SCHEMA_FILE) else None
        subject = SUBJECT.if_given(section)
        if registry is None and schema_file is None:
            section.refuse(FORMAT, f"{section.text(FORMAT, default='json')} needs a `schema_file`, or a `registry`")
        if subject is not None and registry is None:
            section.refuse(SUBJECT, "is a name in a registry: say in which one with `registry`")
        if schema_file is not None and not schema_file.is_file():
            section.refuse(SCHEMA_FILE, f"there is no file {schema_file}")
        if schema_file is not None and cls.JSON_SCHEMA_FILE is not None:
            try:
                json.loads(schema_file.read_text("utf-8"))
            except (OSError, ValueError) as error:
                section.refuse(SCHEMA_FILE, f"holds no {cls.JSON_SCHEMA_FILE}: {error}")
        if registry is not None and subject is None and section.has(TOPIC):
            subject = f"{section.text(TOPIC)}-value"
        if schema_file is None and subject is None:
            section.refuse(FORMAT, "needs a `subject` whose newest schema tells the columns, or a `schema_file`")
        return cls(schema_file=schema_file, registry=registry, subject=subject, **cls.parse_more(section))

    @classmethod
    def parse_more(cls, section: Section) -> dict[str, Any]:
        """The format's additional keys."""
        return {}

    def facts(self) -> Facts:
        """Empty, because schemas evolve while a checkpoint stays."""
        return {}

    def newest_schema(self, form: str = "") -> RegisteredSchema:
        """For a format without `schema_file`. `form`: see `Registry.newest`. Raises FlowError, RegistryError."""
        if self.registry is None or self.subject is None:
            raise FlowError("the format has no schema")
        return self.registry.newest(self.subject, form)

    def decoded(self, records: DataFrame) -> DataFrame:
        from moldau.spark.frames.columns import with_column  # a pipeline file is checked without Spark

        values = self.values()
        return with_column(records, "_value", "value", values, values.kind)

    def reason(self) -> str:
        return f"coalesce(_value.{CORRUPT_COLUMN}, 'the record has no value')"

    def encoded(self, rows: DataFrame, fields: str) -> DataFrame:
        """Replaces the struct `fields` by the column `value` with its bytes. Raises FlowError if the fields do not fit
        the schema, and RegistryError."""
        from moldau.spark.frames.columns import with_column

        writer = self.writer()
        writer.check(rows.select(f"{fields}.*").columns)
        return with_column(rows, "value", fields, writer, writer.kind).drop(fields)

    def offline(self) -> SchemaFormat:
        """The format for records of a test: bare values with the schema in the file. Without a file, it asks the
        registry."""
        return self if self.schema_file is None else msgspec.structs.replace(self, registry=None, subject=None)

    def encoder_of_json(self) -> Callable[[Row], bytes]:
        """Encodes rows in their JSON form, for records of a test. Raises FlowError, RegistryError."""
        writer, kinds = self.writer(), self.values().kind

        def encode(row: Row) -> bytes:
            return writer.value_of({name: from_json(value, _field(kinds, name)) for name, value in row.items()})

        return encode

    @abstractmethod
    def writer(self) -> Writer:
        """With the current schema. Raises FlowError, RegistryError."""

    @abstractmethod
    def values(self) -> Values:
        """With the reader's current schema. Raises FlowError, RegistryError."""


class Values:
    """Decodes values in the tasks. `kind`: a struct of the fields and of CORRUPT_COLUMN, which says why a value has no
    fields."""

    def __init__(self, fields: pa.StructType, registry: Registry | None) -> None:
        import pyarrow as pa

        self.kind = pa.struct([*fields, pa.field(CORRUPT_COLUMN, pa.string())])
        self._registry = registry

    def __call__(self, values: pa.Array) -> pa.Array:
        import pyarrow as pa

        whole = self.at_once(values)
        if whole is not None:
            return whole
        readers: dict[int | None, Reader] = {}
        rows = [self._row(value, readers) for value in values.to_pylist()]
        try:
            return pa.array(rows, self.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # one has a value that does not fit its column, such as a date of the year 300,000
            return pa.array([self._fitting(row) for row in rows], self.kind)

    def at_once(self, values: pa.Array) -> pa.Array | None:
        """Decodes all values together; None if that is not possible. Raises RegistryError."""
        return None

    @abstractmethod
    def reader(self, schema_id: int | None) -> Reader:
        """Decodes values of the registry's schema with that id; None: of the schema in the file. Raises
        RegistryError."""

    def _row(self, value: bytes | None, readers: dict[int | None, Reader]) -> Row | None:
        """`readers`: the open readers, by schema id."""
        if value is None:
            return None
        schema_id, body = None, value
        if self._registry is not None:
            if len(value) < HEADER_BYTES or value[0] != MAGIC:
                return _corrupt("the value does not begin with a zero byte and the id of a schema")
            schema_id, body = int.from_bytes(value[1:HEADER_BYTES], "big"), value[HEADER_BYTES:]
        if schema_id not in readers:
            readers[schema_id] = self._opened(schema_id)
        try:
            return readers[schema_id](body)
        except Exception as error:  # decoders raise any error for damaged bytes
            return _corrupt(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)

    def _opened(self, schema_id: int | None) -> Reader:
        """A reader; if the schema does not exist or cannot be used, one that returns the reason. Raises
        RegistryError."""
        try:
            return self.reader(schema_id)
        except (UnknownSchemaError, FlowError) as error:
            reason = _corrupt(str(error))
            return lambda _: reason

    def _fitting(self, row: Row | None) -> Row | None:
        import pyarrow as pa

        try:
            pa.array([row], self.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return _corrupt(f"a field does not fit its column: {error}")
        return row


class Writer:
    """Encodes rows in the tasks; with a registry, after the id of their schema."""

    def __init__(self, schema: RegisteredSchema, registry: Registry | None, subject: str | None) -> None:
        """`subject`: the schema is registered there as the newest version, if it has no id yet."""
        import pyarrow as pa

        self.kind = pa.binary()
        self._schema, self._registry, self._subject = schema, registry, subject

    def check(self, columns: Sequence[str]) -> None:
        """Raises FlowError if rows of these columns cannot be written."""
        fields = self.fields()
        for name in columns:
            if name not in fields:
                raise FlowError(f"the SQL gives a column {name!r}, but the schema has {', '.join(fields)}")
        absent = [name for name, is_needed in fields.items() if is_needed and name not in columns]
        if absent:
            raise FlowError(f"the schema has a field {absent[0]!r} without a default, which the SQL does not give")

    @abstractmethod
    def fields(self) -> Mapping[str, bool]:
        """The names of the schema's fields, each with whether a row must have it."""

    @abstractmethod
    def encoder(self) -> Callable[[Row], bytes]:
        """Encodes a row, without its header. Raises any error for a row that does not fit."""

    def encoder_of(self, rows: pa.Array) -> Callable[[Row], bytes]:
        """An encoder for these rows; their types may make it cheaper."""
        return self.encoder()

    SCHEMA_TYPE: ClassVar[str]
    """The registry's name of the format."""

    def before_message(self) -> bytes:
        """The bytes that the registry's wire format has between the id and the row."""
        return b""

    def __call__(self, rows: pa.Array) -> pa.Array:
        import pyarrow as pa

        head = self.framed(b"")
        encode, names = self.encoder_of(rows), [field.name for field in rows.type]
        columns = [_values(name, column) for name, column in zip(names, rows.flatten(), strict=True)]
        found = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
        return pa.array([head + _encoded(encode, row) for row in found], self.kind)

    def value_of(self, row: Row) -> bytes:
        """Encodes one row. Raises FlowError, RegistryError."""
        return self.framed(_encoded(self.encoder(), row))

    def framed(self, row: bytes) -> bytes:
        """An encoded row after its header. Raises RegistryError."""
        return row if self._registry is None else self._head(self._registry) + row

    def _head(self, registry: Registry) -> bytes:
        schema_id = self._schema.id
        if schema_id == UNREGISTERED:
            schema_id = registered_id(registry, str(self._subject), self._schema.text, self.SCHEMA_TYPE)
        return struct.pack(">bI", MAGIC, schema_id) + self.before_message()


def _values(name: str, column: pa.Array) -> list[Any]:
    """Raises FlowError for a time outside of Python's range."""
    kind = _in_utc(column.type)
    try:
        in_utc = column if kind == column.type else column.cast(kind)
        values: list[Any] = in_utc.to_pylist(maps_as_pydicts="strict")
    except OverflowError as error:
        raise FlowError(f"a row does not fit the schema: {name!r} has a time outside of the years 1 to 9999") from error
    return values


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """The type with its times in UTC. Spark uses the session's zone, in which times within hours of the years 1 and
    9999 may be outside of Python's range, and old times have offsets with seconds, which JSON cannot express."""
    import pyarrow as pa

    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(_in_utc(field.type))

    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([inside(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(inside(kind.key_field), inside(kind.item_field))
    return pa.list_(inside(kind.value_field)) if pa.types.is_list(kind) else kind


def _encoded(encode: Callable[[Row], bytes], row: Row) -> bytes:
    try:
        return encode(row)
    except Exception as error:  # encoders raise any error
        reason = str(error) or type(error).__name__
        raise FlowError(f"a row does not fit the schema: {reason}: {str(row)[:200]}") from error


@lru_cache(IDS_KEPT)
def registered_id(registry: Registry, subject: str, text: str, schema_type: str) -> int:
    """Registers each schema once per process."""
    return registry.register(subject, text, schema_type)


def _field(kinds: pa.StructType, name: str) -> pa.DataType:
    """Raises FlowError."""
    index = kinds.get_field_index(name)
    if index < 0 or name == CORRUPT_COLUMN:
        known = ", ".join(field.name for field in kinds if field.name != CORRUPT_COLUMN)
        raise FlowError(f"a record has no {name!r}: its schema has {known}")
    return kinds.field(index).type


def _corrupt(reason: str) -> Row:
    return {CORRUPT_COLUMN: reason}
