"""Keys of one column in a registry's formats: the value by itself, without a record around it.

An Avro record of one field has the bytes of the field, so only its schema needs a record around it. JSON needs the
object around each value too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.products.pipelines.formats.by_schema import Values, Writer
from moldau.products.pipelines.formats.registry import HEADER_BYTES, RegisteredSchema, Registry
from moldau.products.sql.records.schemas import AVRO, JSON_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

_RECORD = "Bare"


def is_record(schema: RegisteredSchema) -> bool:
    """Whether values of the schema have fields."""
    try:
        found: Any = json.loads(schema.text)
    except ValueError:
        return False
    if not isinstance(found, dict):
        return False
    return found.get("type") == "record" if schema.kind == AVRO else "properties" in found


class BareRegistry(Registry, frozen=True):
    """Gives each schema as the only field, `column`, of a record."""

    column: str = ""

    def schema_of_id(self, schema_id: int, form: str = "") -> RegisteredSchema:
        return self._in_record(super().schema_of_id(schema_id, form))

    def newest(self, subject: str, form: str = "") -> RegisteredSchema:
        return self._in_record(super().newest(subject, form))

    def _in_record(self, schema: RegisteredSchema) -> RegisteredSchema:
        bare: Any = json.loads(schema.text)
        record: Any
        if schema.kind == JSON_SCHEMA:
            record = {"type": "object", "properties": {self.column: bare}}
        else:
            record = {"type": "record", "name": _RECORD, "fields": [{"name": self.column, "type": bare}]}
        return msgspec.structs.replace(schema, text=json.dumps(record))


class BareJsonValues:
    """Puts an object around each value, in the tasks. `kind`: see Values."""

    def __init__(self, values: Values, column: str) -> None:
        self.kind = values.kind
        self._values = values
        self._before = _before(column)

    def __call__(self, values: pa.Array) -> pa.Array:
        import pyarrow as pa

        return self._values(pa.array([self._in_object(value) for value in values.to_pylist()], pa.binary()))

    def _in_object(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        head, body = value[:HEADER_BYTES], value[HEADER_BYTES:]
        try:
            msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return value  # the text may close the object around it; by itself, it is no object
        return head + self._before + body + b"}"


class BareJsonWriter:
    """Takes the object away from each value, in the tasks."""

    def __init__(self, writer: Writer, column: str) -> None:
        self._writer = writer
        self._before = len(_before(column))

    def __call__(self, rows: pa.Array) -> pa.Array:
        import pyarrow as pa

        made = self._writer(rows).to_pylist()
        bare = [one[:HEADER_BYTES] + one[HEADER_BYTES + self._before : -1] for one in made]
        return pa.array(bare, pa.binary())


class Present:
    """Calls a writer for the rows that are not null; a null row has no bytes."""

    def __init__(self, writer: Callable[[pa.Array], pa.Array]) -> None:
        self._writer = writer

    def __call__(self, rows: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        if not rows.null_count:
            return self._writer(rows)
        made = self._writer(rows.drop_null())
        places = pc.subtract(pc.cumulative_sum(rows.is_valid().cast("int64")), 1)
        return made.take(pc.if_else(rows.is_valid(), places, None))


def _before(column: str) -> bytes:
    return msgspec.json.encode({column: 0})[:-2]
