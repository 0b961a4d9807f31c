"""JSON with a JSON Schema, record by record with `msgspec`.

With a `registry`, a value begins with the id of its schema. JSON names its fields, so values of every version are read
with the reader's schema: that of `schema_file`, or the subject's newest one when the pipeline starts. Without a
registry, values are bare JSON.

A value must have the types of its columns. Reading ignores the schema's other rules (a minimum, a pattern, a required
property), because an older version may have had fewer. Writing checks the whole schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Optional, TypedDict

import msgspec

from moldau.extras import require_extra
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.by_schema import (
    IDS_KEPT,
    UNREGISTERED,
    Reader,
    Row,
    SchemaFormat,
    Values,
    Writer,
)
from moldau.products.pipelines.formats.given import json_text
from moldau.products.pipelines.formats.json_kinds import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    DATE,
    INTEGER,
    MAP,
    NUMBER,
    STRING,
    STRUCT,
    TIMESTAMP,
    Kind,
    arrow_type,
    kind_of,
    needed,
)
from moldau.products.pipelines.formats.registry import RegisteredSchema, Registry

if TYPE_CHECKING:
    from moldau.products.json_schemas import JsonSchema

SCHEMAS_KEPT = 100
MOST_DIGITS = 19
"""The most digits of a whole number in a column."""


class JsonSchemaFormat(SchemaFormat, frozen=True, kw_only=True):
    """`format: json` with a registry, or with a JSON Schema in a file."""

    JSON_SCHEMA_FILE = "JSON Schema"

    @classmethod
    def is_meant(cls, section: Section) -> bool:
        return any(section.has(key) for key in cls.KEYS)

    def values(self) -> Values:
        return JsonSchemaValues(_kind(self._schema()), self.registry)

    def writer(self) -> Writer:
        return JsonSchemaWriter(self._schema(), self.registry, self.subject)

    def encoder_of_json(self) -> Callable[[Row], bytes]:
        writer = self.writer()
        return lambda row: writer.framed(json_text(row).encode())

    def _schema(self) -> RegisteredSchema:
        """A schema with columns. Raises FlowError, RegistryError."""
        require_extra("`format: json` with a JSON Schema", "json-schema")
        if self.schema_file is not None:
            schema, name = RegisteredSchema(UNREGISTERED, self.schema_file.read_text("utf-8")), str(self.schema_file)
        else:
            schema, name = self.newest_schema(), f"the newest version of {self.subject}"
        try:
            _kind(schema)
        except FlowError as error:
            raise FlowError(f"{name}: {error}") from error
        return schema


class JsonSchemaValues(Values):
    def __init__(self, kind: Kind, registry: Registry | None) -> None:
        """`kind`: a struct."""
        super().__init__(arrow_type(kind), registry)
        self._kind = kind

    def reader(self, schema_id: int | None) -> Reader:
        if self._registry is not None and schema_id is not None:
            _ask(self._registry, schema_id)
        return _reader(self._kind)


class JsonSchemaWriter(Writer):
    SCHEMA_TYPE = "JSON"

    def fields(self) -> Mapping[str, bool]:
        kind = _kind(self._schema)
        must = needed(_parsed(self._schema))
        return {name: name in must for name, _ in kind.inside}

    def encoder(self) -> Callable[[Row], bytes]:
        from jsonschema.exceptions import best_match

        document, schema = _document_of(_kind(self._schema)), _parsed(self._schema)
        validator = schema.validator(schema.root)

        def encode(row: Row) -> bytes:
            value = _JSON.encode(document(row))
            refused = best_match(validator.iter_errors(msgspec.json.decode(value)))
            if refused is not None:
                raise ValueError(f"{refused.json_path}: {refused.message}")
            return value

        return encode


@lru_cache(IDS_KEPT)
def _ask(registry: Registry, schema_id: int) -> None:
    """Asks once per process. A value with an unknown id was not written by a serializer of this registry. Raises
    RegistryError."""
    registry.schema_of_id(schema_id)


@lru_cache(SCHEMAS_KEPT)
def _parsed(schema: RegisteredSchema) -> JsonSchema:
    """Raises JsonSchemaError."""
    from moldau.products.json_schemas import JsonSchema

    return JsonSchema.parse(schema.text, schema.references)


@lru_cache(SCHEMAS_KEPT)
def _kind(schema: RegisteredSchema) -> Kind:
    """Raises FlowError."""
    from moldau.products.json_schemas import JsonSchemaError

    try:
        return kind_of(_parsed(schema))
    except JsonSchemaError as error:
        raise FlowError(f"the JSON Schema cannot be read: {error}") from error


# --- reading ---


class _Whole(int):
    """A number without a fraction, in any notation: 1.0 is a whole number in JSON Schema."""


class _Json(str):
    """A value of kind ANYTHING, as JSON."""

    __slots__ = ()


_JSON = msgspec.json.Encoder(decimal_format="number")


@lru_cache(SCHEMAS_KEPT)
def _reader(kind: Kind) -> Reader:
    # values of kind ANYTHING keep the digits of their floats
    plain, lenient = (
        msgspec.json.Decoder(_python_type(kind, whole), dec_hook=_converted, float_hook=Decimal).decode
        for whole in (int, _Whole)
    )

    def read(value: bytes) -> Row:
        try:
            row: Row = plain(value)
        except msgspec.ValidationError:  # a call of `_converted` for each whole number would double the cost
            row = lenient(value)
        return row

    return read


def _python_type(kind: Kind, whole: type[int]) -> Any:
    """The type that `msgspec` decodes a value to."""
    if kind.name == STRUCT:
        fields = {name: Optional[_python_type(one, whole)] for name, one in kind.inside}  # noqa: UP045 - of values
        return TypedDict("Object", fields, total=False)  # type: ignore[operator]
    if kind.name in (ARRAY, MAP):
        inner: Any = Optional[_python_type(kind.inside[0][1], whole)]  # noqa: UP045
        return GenericAlias(list, (inner,)) if kind.name == ARRAY else GenericAlias(dict, (str, inner))
    known: dict[str, type] = {
        BOOLEAN: bool, INTEGER: whole, NUMBER: float, STRING: str, TIMESTAMP: datetime, DATE: date,
    }  # fmt: skip
    return known.get(kind.name, _Json)


def _converted(kind: type, value: Any) -> _Whole | _Json:
    """Raises ValueError."""
    if kind is _Json:
        return _Json(_JSON.encode(value).decode())
    is_whole = type(value) is int or (
        isinstance(value, Decimal) and value.adjusted() < MOST_DIGITS and value == value.to_integral_value()
    )
    if not is_whole:
        raise ValueError(f"{str(value)[:50]!r} is no whole number that a column holds")
    return _Whole(value)


# --- writing ---


def _document_of(kind: Kind) -> Callable[[Any], Any]:
    """Converts a column's value for `msgspec` to write. Raises ValueError for a value that JSON lacks. Omits a null
    from an object if the schema does not allow it."""
    if kind.name == STRUCT:
        known = {name: (_document_of(one), one.is_nullable) for name, one in kind.inside}
        return lambda row: _object(row, known)
    if kind.name in (ARRAY, MAP):
        inner = _or_null(_document_of(kind.inside[0][1]))
        if kind.name == ARRAY:
            return lambda values: [inner(one) for one in values]
        return lambda values: {name: inner(one) for name, one in values.items()}
    return {NUMBER: _finite, ANYTHING: _any}.get(kind.name, lambda value: value)


def _object(row: Row, known: Mapping[str, tuple[Callable[[Any], Any], bool]]) -> dict[str, Any]:
    unknown = [name for name in row if name not in known]
    if unknown:
        raise ValueError(f"the schema has no property {unknown[0]!r}")
    found = {}
    for name, value in row.items():
        document, is_nullable = known[name]
        if value is not None or is_nullable:
            found[name] = None if value is None else document(value)
    return found


def _or_null(document: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else document(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number in JSON")
    return value


def _any(value: Any) -> Any:
    """A text is the JSON of the value."""
    if not isinstance(value, str):
        return value
    msgspec.json.decode(value)
    return msgspec.Raw(value.encode())
