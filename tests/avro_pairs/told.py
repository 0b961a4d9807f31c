"""What Moldau reads of Avro bytes, told as the Java program tells it."""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

from moldau.products.pipelines.formats.avro import AvroValues
from moldau.products.pipelines.formats.avro_schema import AvroType, parsed_record
from moldau.products.pipelines.formats.registry import RegisteredSchema, Registry
from tests.avro_pairs.encoding import Json

EPOCH = datetime.datetime(1970, 1, 1)
HEAD = b"\0\0\0\0\1"


class OneSchema(Registry, frozen=True):
    """Holds the writer's schema alone."""

    written: str

    def schema_of_id(self, schema_id: int, form: str = "") -> RegisteredSchema:
        return RegisteredSchema(schema_id, self.written)


class OneByOne(AvroValues):
    """Without columns at a time."""

    def at_once(self, values: pa.Array) -> pa.Array | None:
        return None


def rows(writer: Json, reader: Json, values: list[bytes]) -> list[dict[str, Any]]:
    """Each as {"value": ...}, or {"error": ...}: of all values together, where each is the same as it is alone."""
    read, registry = RegisteredSchema(2, json.dumps(reader)), OneSchema("http://127.0.0.1:1", json.dumps(writer))
    kind, framed = parsed_record(read), pa.array([HEAD + value for value in values], pa.binary())
    together = AvroValues(read, registry)(framed).to_pylist()
    alone = OneByOne(read, registry)(framed).to_pylist()
    found = [_row(kind, row) for row in together]
    assert found == [_row(kind, row) for row in alone], "a record is another row beside its neighbours"
    return found


def _row(kind: AvroType, row: dict[str, Any]) -> dict[str, Any]:
    reason = row.pop("_moldau_corrupt")
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
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else _said(kind, value)


def _said(kind: AvroType, text: str) -> str:
    """Java tells a uuid in lower case."""
    return f"text {text.lower() if kind.logical == 'uuid' else text}"
