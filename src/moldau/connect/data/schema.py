"""The schema of a key, a value or a header, as in Kafka Connect (org.apache.kafka.connect.data.Schema).

A value is a plain Python value: int, float, bool, str, bytes, list, dict (a map, or a struct with its fields in the
order of the schema), None. Logical types have the names of Kafka Connect, and values of Python's own: Decimal is
decimal.Decimal, Date is datetime.date, Time is datetime.time, Timestamp is datetime.datetime in UTC with milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""On bytes; the parameter `scale` gives the digits after the point."""
DATE = "org.apache.kafka.connect.data.Date"
"""On int32: days since 1970-01-01."""
TIME = "org.apache.kafka.connect.data.Time"
"""On int32: milliseconds since midnight."""
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
"""On int64: milliseconds since 1970-01-01 UTC."""


class Type(StrEnum):
    """The value is the word of JSON with schemas (JsonConverter)."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """`fields` of a struct, `values` of an array or map, `keys` of a map. `name`: of a struct or logical type."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    default: object = None
    fields: tuple[Field, ...] = ()
    keys: Schema | None = None
    values: Schema | None = None

    def get_field(self, name: str) -> Field | None:
        """The field of a struct with this name."""
        return next((one for one in self.fields if one.name == name), None)
