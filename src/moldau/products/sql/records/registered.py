"""The formats AVRO, PROTOBUF and JSON_SR: a schema in a registry, by its id at the start of a key or value.

The subjects are `<topic>-key` and `<topic>-value`. A subject without a schema gets the one of the columns when it is
first needed. Rows are written with the subject's newest schema if they fit it; otherwise the schema of the columns is
registered as another version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from moldau.errors import MoldauError
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.formats.avro import AvroFormat, check_types
from moldau.products.pipelines.formats.by_schema import SchemaFormat
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.json_schema import JsonSchemaFormat
from moldau.products.pipelines.formats.protobuf import ProtobufFormat
from moldau.products.pipelines.formats.registry import RegisteredSchema, Registry, UnknownSchemaError
from moldau.products.sql.language.statements import Column
from moldau.products.sql.records.bare import BareJsonValues, BareJsonWriter, BareRegistry, Present, is_record
from moldau.products.sql.records.layout import names_of, nearest_name
from moldau.products.sql.records.part import KEY, Encoding, Part
from moldau.products.sql.records.schemas import AVRO, JSON_SCHEMA, PROTOBUF, made_bare_schema, made_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame, StructType

FORMATS: dict[str, type[SchemaFormat]] = {"avro": AvroFormat, "protobuf": ProtobufFormat, "json_sr": JsonSchemaFormat}
KINDS = {"avro": AVRO, "protobuf": PROTOBUF, "json_sr": JSON_SCHEMA}
"""The registry's names of the formats."""
MOST_DIGITS = 15
"""Of a number in JSON that a reader with floating-point numbers keeps."""
_READ = "_moldau_fields"
_WRITERS_KEPT = 1_000


class RegisteredPart(Part, frozen=True, kw_only=True):
    """`format`: one of FORMATS."""

    RECORD_NAMES: ClassVar = {"key": "Key", "value": "Value"}

    format: str
    registry: Registry
    subject: str

    def check(self) -> None:
        for column in self.columns if self.format == "json_sr" else ():
            if column.type.startswith("decimal(") and int(column.type[8:].split(",")[0].rstrip(")")) > MOST_DIGITS:
                raise FlowError(
                    f"the format JSON_SR keeps {MOST_DIGITS} digits of a number, and {column.name.text} is "
                    f"{column.type}: cast it to STRING"
                )

    def decoded(self, records: DataFrame, into: str) -> DataFrame:
        from moldau.spark.frames.columns import with_column  # a statement is checked without Spark

        nothing = [
            f"{self._written(column, f'cast(null as {column.type})')} as {quoted(column.name.text)}"
            for column in self.columns
        ]
        schema = records.selectExpr(*nothing).schema
        bare = self._is_bare(self._newest(schema))
        values: Any = self._format(bare).values()
        values = BareJsonValues(values, self._column) if bare and self.format == "json_sr" else values
        found = with_column(records, _READ, self.name, values, values.kind)
        types = dict(found.select(f"{_READ}.*").dtypes)
        fields = [self._read(column, types) for column in self.columns]
        misfits = [
            f"when {sql} is null and {raw} is not null then "
            + literal(f"the field {column.name.text} does not fit the type {column.type}")
            for column, (raw, sql) in zip(self.columns, fields, strict=True)
            if sql != raw
        ]
        corrupt = (
            f"case when {_READ}.{CORRUPT_COLUMN} is not null then {_READ}.{CORRUPT_COLUMN} {' '.join(misfits)} end"
        )
        named = [f"{sql} as {quoted(name)}" for name, (_, sql) in zip(names_of(self.columns), fields, strict=True)]
        return found.selectExpr("*", f"struct({', '.join(named)}, {corrupt} as {CORRUPT_COLUMN}) as {into}").drop(_READ)

    def reason(self, into: str) -> str:
        return f"concat('the {self.name}: ', {into}.{CORRUPT_COLUMN})"

    def encoded(self, rows: DataFrame, struct: str) -> Encoding:
        fields = [
            f"{self._written(column, f'{struct}.{name}')} as {name}"
            for column, name in ((column, quoted(column.name.text)) for column in self.columns)
        ]
        fields_sql = f"struct({', '.join(fields)})"
        schema = rows.selectExpr(*fields).schema
        if self.name == KEY:
            fields_sql = f"if({self.all_null(struct)}, null, {fields_sql})"
        return Encoding(fields_sql, _writer(self, schema))

    def writer(self, schema: StructType) -> Callable[[pa.Array], pa.Array]:
        """Encodes rows of this type. Raises FlowError, RegistryError."""
        bare = self._is_bare(self._newest(schema))
        try:
            return self._fitting_writer(schema, bare=bare)
        except FlowError as error:
            try:
                self._register(schema)
            except MoldauError as refused:
                raise FlowError(
                    f"the columns do not fit the newest schema of {self.subject} ({error}), and their own schema is "
                    f"refused: {refused}"
                ) from refused
            return self._fitting_writer(schema, bare=self._can_be_bare)

    def _fitting_writer(self, schema: StructType, *, bare: bool) -> Callable[[pa.Array], pa.Array]:
        """Raises FlowError if the columns do not fit the newest schema."""
        form = self._format(bare)
        writer = form.writer()
        writer.check(schema.names)
        if self.format == "avro":
            check_types(form.newest_schema(), schema)
        return Present(BareJsonWriter(writer, self._column) if bare and self.format == "json_sr" else writer)

    @property
    def _column(self) -> str:
        return self.columns[0].name.text

    @property
    def _can_be_bare(self) -> bool:
        """As ksqlDB writes a key of one column."""
        return self.name == KEY and len(self.columns) == 1 and self.format != "protobuf"

    def _is_bare(self, schema: RegisteredSchema) -> bool:
        """Whether values of the schema are the column by itself: others may have written a record of one field."""
        return self._can_be_bare and (self.columns[0].type.startswith("struct") or not is_record(schema))

    def _format(self, bare: bool) -> SchemaFormat:
        registry = self.registry
        if bare:
            registry = BareRegistry(registry.url, registry.patience_ms, registry.security, self._column)
        return FORMATS[self.format](registry=registry, subject=self.subject)

    def _newest(self, schema: StructType) -> RegisteredSchema:
        """The subject's newest schema; the one of the columns if it has none. Raises RegistryError."""
        try:
            return self.registry.newest(self.subject)
        except UnknownSchemaError:
            self._register(schema)
            return self.registry.newest(self.subject)

    def _register(self, schema: StructType) -> None:
        kind, struct = KINDS[self.format], schema.jsonValue()
        if self._can_be_bare:
            made = made_bare_schema(kind, self._column, struct["fields"][0]["type"])
        else:
            made = made_schema(kind, struct, self.RECORD_NAMES[self.name])
        self.registry.register(self.subject, made, kind)

    def _read(self, column: Column, types: dict[str, str]) -> tuple[str, str]:
        """SQL for a field as it was read, and for the column. Raises FlowError."""
        field = nearest_name([name for name in types if name != CORRUPT_COLUMN], column.name.text)
        if field is None:
            known = ", ".join(name for name in types if name != CORRUPT_COLUMN)
            raise FlowError(f"the newest schema of {self.subject} has no {column.name.text}; it has {known}")
        raw = f"{_READ}.{quoted(field)}"
        if types[field] == column.type:
            return raw, raw
        if column.type == "binary" and types[field] == "string":
            return raw, f"try_to_binary({raw}, 'base64')"
        return raw, f"try_cast({raw} as {column.type})"

    def _written(self, column: Column, sql: str) -> str:
        """SQL for the value of a column, as the format has it. `sql`: the value."""
        if self.format == "json_sr" and column.type == "binary":
            return f"base64({sql})"
        if self.format == "json_sr" and column.type.startswith("decimal"):
            return f"cast({sql} as double)"
        return sql


@lru_cache(_WRITERS_KEPT)
def _writer(part: RegisteredPart, schema: StructType) -> Callable[[pa.Array], pa.Array]:
    """Asks the registry once for each kind of rows, not in each batch."""
    return part.writer(schema)
