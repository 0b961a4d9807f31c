"""Parses an Avro schema into a tree of types.

`fastavro` checks the names; `avro_defaults` computes defaults. An invalid logical type is ignored, as the specification
asks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.products.pipelines.core.column_types import MOST_DIGITS
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.arrow_types import Listed, Mapped, Record, Shape, struct_of
from moldau.products.pipelines.formats.registry import RegisteredSchema

if TYPE_CHECKING:
    import pyarrow as pa

Json = Any
"""A text, a list, or a mapping."""

NO_DEFAULT = object()
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
TIMES = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
LOGICAL = {
    "date": ("int",), "time-millis": ("int",), "time-micros": ("long",), "uuid": ("string",),
    "decimal": ("bytes", "fixed"), **dict.fromkeys(TIMES, ("long",)),
}  # fmt: skip
"""The types that each logical type may annotate."""
_HIDDEN = ("default", "logicalType")
"""Attributes that `fastavro` must not see."""
_PREFIX = "moldau."


class AvroField(msgspec.Struct, eq=False):
    """`default`: in its JSON form, or NO_DEFAULT."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Json = NO_DEFAULT


class AvroType(msgspec.Struct, eq=False):
    """`kind`: a primitive type, `record`, `enum`, `fixed`, `array`, `map` or `union`; `items`: of an array or a map."""

    kind: str
    logical: str | None = None
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = []
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    precision: int = 0
    scale: int = 0

    def without_null(self) -> AvroType | None:
        """The other type of a union with null, or the type itself; None for any other union, which has no column."""
        if self.kind != "union":
            return self
        others = [one for one in self.branches if one.kind != "null"]
        return others[0] if len(others) == 1 else None

    @property
    def inner(self) -> AvroType:
        """`items`, for a type that has them."""
        if self.items is None:
            raise FlowError(f"the Avro type {self.kind} has no items")
        return self.items


def parsed(schema: RegisteredSchema) -> AvroType:
    """Raises FlowError."""
    import fastavro

    names: dict[str, Json] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(_hidden(json.loads(text)), names)
        whole = fastavro.parse_schema(_hidden(json.loads(schema.text)), names)
        return _Types(names).of(whole)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FlowError(f"the Avro schema cannot be read: {error}") from error
    except fastavro.schema.SchemaParseException as error:
        raise FlowError(f"the Avro schema cannot be read: {error}") from error


def parsed_record(schema: RegisteredSchema) -> AvroType:
    """As `parsed`. Raises FlowError for a schema that has no fields."""
    found = parsed(schema)
    if found.kind != "record":
        raise FlowError("the Avro schema is no record, so it has no columns")
    return found


def _hidden(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_hidden(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {_PREFIX + key if key == "logicalType" else key: value for key, value in schema.items()}
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _hidden(found[key])
    if isinstance(found.get("fields"), list):
        found["fields"] = [_hidden_field(field) for field in found["fields"]]
    return found


def _hidden_field(field: Json) -> Json:
    if not isinstance(field, dict):
        return field
    found = {_PREFIX + key if key in _HIDDEN else key: value for key, value in field.items()}
    return {**found, "type": _hidden(found["type"])} if "type" in found else found


class _Types:
    """Builds types from the result of `fastavro`. `named`: its named types."""

    def __init__(self, named: Mapping[str, Json]) -> None:
        self._named = named
        self._made: dict[str, AvroType] = {}

    def of(self, schema: Json) -> AvroType:
        if isinstance(schema, list):
            return AvroType("union", branches=tuple(self.of(one) for one in schema))
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return AvroType(schema)
            return self._made[schema] if schema in self._made else self.of(self._named[schema])
        kind = "record" if schema["type"] == "error" else schema["type"]
        if kind in ("array", "map"):
            return AvroType(kind, items=self.of(schema["items" if kind == "array" else "values"]))
        found = AvroType(kind, **_logical(kind, schema))
        if kind in ("record", "enum", "fixed"):
            found.name = schema["name"]
            found.aliases = tuple(_full(alias, schema["name"]) for alias in schema.get("aliases", ()))
            self._made[found.name] = found
        if kind == "record":
            found.fields = [self._field(field) for field in schema["fields"]]
        elif kind == "enum":
            found.symbols, found.default = tuple(schema["symbols"]), schema.get("default")
        elif kind == "fixed":
            found.size = schema["size"]
        return found

    def _field(self, field: Json) -> AvroField:
        default = field.get(f"{_PREFIX}default", NO_DEFAULT)
        return AvroField(field["name"], self.of(field["type"]), tuple(field.get("aliases", ())), default)


def _full(alias: str, name: str) -> str:
    space = name.rpartition(".")[0]
    return f"{space}.{alias}" if space and "." not in alias else alias


def _logical(kind: str, schema: Json) -> dict[str, Any]:
    """The logical type as arguments of AvroType; empty if it is not valid for the type."""
    logical = schema.get(f"{_PREFIX}logicalType")
    if not isinstance(logical, str) or kind not in LOGICAL.get(logical, ()):
        return {}
    if logical != "decimal":
        return {"logical": logical}
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return {}
    if kind == "fixed" and precision > math.floor(math.log10(2) * (8 * schema["size"] - 1)):
        return {}
    return {"logical": logical, "precision": precision, "scale": scale}


def said(kind: AvroType) -> str:
    """The type, for people."""
    if kind.kind == "union":
        return f"a union of {', '.join(map(said, kind.branches))}"
    return f"{kind.kind} {kind.name}" if kind.name else kind.logical or kind.kind


# --- columns ---


def column_of(record: AvroType) -> pa.StructType:
    """The columns of a record. Raises FlowError for a schema without columns."""
    return struct_of(_record(record))


def _record(record: AvroType) -> Record:
    return Record(f"the Avro record {record.name}", [(one.name, partial(_shape, one.type)) for one in record.fields])


def _shape(kind: AvroType) -> Shape:
    import pyarrow as pa

    if kind.kind == "union":
        other = kind.without_null()
        if other is None:
            names = [one.name or one.kind for one in kind.branches if one.kind != "null"]
            raise FlowError(f"a union of {len(names)} types has no column: {', '.join(names)[:200]}")
        return _shape(other)
    if kind.logical is not None:
        return _logical_column(kind)
    if kind.kind == "record":
        return _record(kind)
    if kind.kind == "array":
        return Listed(partial(_shape, kind.inner))
    if kind.kind == "map":
        return Mapped(partial(_shape, kind.inner))
    return {
        "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "fixed": pa.binary(),
    }[kind.kind]  # fmt: skip


def _logical_column(kind: AvroType) -> pa.DataType:
    import pyarrow as pa

    if kind.logical == "decimal":
        if kind.precision > MOST_DIGITS:
            raise FlowError(
                f"an Avro decimal of {kind.precision} digits has no column: 1 to {MOST_DIGITS} are possible"
            )
        return pa.decimal128(kind.precision, kind.scale)
    if kind.logical in TIMES:
        return pa.timestamp("us") if kind.logical.startswith("local-") else pa.timestamp("us", "UTC")
    known = {"date": pa.date32(), "time-millis": pa.time64("us"), "time-micros": pa.time64("us"), "uuid": pa.string()}
    return known[str(kind.logical)]
