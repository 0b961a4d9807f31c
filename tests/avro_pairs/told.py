"""What Moldau reads from Avro bytes, in the Java program's format."""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from moldau.products.pipelines.formats.avro import AvroValues, AvroWriter
from moldau.products.pipelines.formats.avro_schema import AvroType, parsed_record
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.registry import RegisteredSchema, Registry
from tests.avro_pairs.encoding import Json
from tests.avro_pairs.generate import Pair

EPOCH = datetime.datetime(1970, 1, 1)
HEAD = b"\0\0\0\0\1"


class OneSchema(Registry, frozen=True, kw_only=True):
    """Holds only the writer's schema."""

    written: str

    def schema_of_id(self, schema_id: int, form: str = "") -> RegisteredSchema:
        return RegisteredSchema(schema_id, self.written)


class OneByOne(AvroValues):
    """Reads one row at a time, without columns."""

    def at_once(self, values: pa.Array) -> pa.Array | None:
        return None


def rows(writer: Json, reader: Json, values: list[bytes]) -> list[dict[str, Any]]:
    """Each as {"value": ...}, or {"error": ...}: of all values together, where each equals its result alone."""
    read, registry = (
        RegisteredSchema(2, json.dumps(reader)),
        OneSchema("http://127.0.0.1:1", written=json.dumps(writer)),
    )
    kind, framed = parsed_record(read), pa.array([HEAD + value for value in values], pa.binary())
    together = AvroValues(read, registry)(framed).to_pylist()
    alone = OneByOne(read, registry)(framed).to_pylist()
    found = [_row(kind, row) for row in together]
    assert found == [_row(kind, row) for row in alone], "a record is another row beside its neighbours"
    return found


class Written(NamedTuple):
    """Rows that were written. `values`: with defaults for the fields that are `left_out`; `shorter`: with `schema`,
    which lacks those fields; `told`: the fields that the rows had."""

    values: list[bytes]
    schema: Json
    shorter: list[bytes]
    told: list[dict[str, Any]]

    def asked(self, schema: Json) -> list[dict[str, str]]:
        return [*Pair(schema, schema, self.values).asked(), *Pair(self.schema, schema, self.shorter).asked()]


def written(schema: Json, values: list[bytes], left_out: list[str]) -> Written:
    """Writes the rows of the schema's `values` again."""
    read = RegisteredSchema(2, json.dumps(schema))
    kind, found = parsed_record(read), AvroValues(read, None)(pa.array(values, pa.binary()))
    kept = [field.name for field in kind.fields if field.name not in left_out]
    whole = found.filter(found.field(CORRUPT_COLUMN).is_null())
    rows_kept = pa.StructArray.from_arrays([whole.field(name) for name in kept], kept) if kept else whole.slice(0, 0)
    fields = [field for field in schema["fields"] if field["name"] in kept]
    shorter = {**schema, "fields": fields}
    told_rows = [{name: one for name, one in told(kind, row).items() if name in kept} for row in whole.to_pylist()]
    return Written(_bytes(schema, rows_kept), shorter, _bytes(shorter, rows_kept), told_rows if kept else [])


def _bytes(schema: Json, rows_kept: pa.StructArray) -> list[bytes]:
    if not len(rows_kept):
        return []
    writer = AvroWriter(RegisteredSchema(2, json.dumps(schema)), None, None)
    writer.check([field.name for field in rows_kept.type])
    found: list[bytes] = writer(rows_kept).to_pylist()
    return found


def _row(kind: AvroType, row: dict[str, Any]) -> dict[str, Any]:
    reason = row.pop(CORRUPT_COLUMN)
    return {"error": reason} if reason is not None else {"value": told(kind, row)}


def told(kind: AvroType, value: Any) -> Any:
    """`value`: of a column."""
    if value is None:
        return None
    if kind.kind == "union":
        return told(next(one for one in kind.branches if one.kind != "null"), value)
    if kind.kind == "record":
        return {field.name: told(field.type, value[field.name]) for field in kind.fields}
    if kind.kind == "array":
        return [told(kind.inner, one) for one in value]
    if kind.kind == "map":
        return {key: told(kind.inner, one) for key, one in value}
    return _text(kind, value)


def _text(kind: AvroType, value: Any) -> str:
    if isinstance(value, datetime.datetime):
        name = "timestamp" if value.tzinfo is not None else "local"
        return f"{name} {(value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)}"
    if isinstance(value, datetime.date):
        return f"date {value.toordinal() - EPOCH.toordinal()}"
    if isinstance(value, datetime.time):
        return f"time {((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond}"
    if isinstance(value, Decimal):
        return f"decimal {value:f}"
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    if isinstance(value, float):
        form, number = ("f", "I") if kind.kind == "float" else ("d", "Q")
        value = float("nan") if value != value else value
        return f"{kind.kind} {struct.unpack(number, struct.pack(form, value))[0]:x}"
    return (
        str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else _said(kind, value)
    )


def _said(kind: AvroType, text: str) -> str:
    """Java prints a uuid in lower case."""
    return f"text {text.lower() if kind.logical == 'uuid' else text}"
