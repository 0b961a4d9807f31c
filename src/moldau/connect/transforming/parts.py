"""What transforms share: the part of a record that one works on, its structs and maps, and the errors of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum

from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.data.schema import Field, Schema, Type

Transform = Callable[[Record], Record | None]
"""None: the record is left out."""
Predicate = Callable[[Record], bool]

KEPT_SCHEMAS = 16
"""Of one transform, as in Kafka."""


class Part(Enum):
    """The half of a record that a transform changes: `Name$Key` or `Name$Value`."""

    KEY = "Key"
    VALUE = "Value"

    def schema_of(self, record: Record) -> Schema | None:
        return record.key_schema if self is Part.KEY else record.value_schema

    def value_of(self, record: Record) -> object:
        return record.key if self is Part.KEY else record.value

    def replaced(self, record: Record, schema: Schema | None, value: object) -> Record:
        if self is Part.KEY:
            return replace(record, key_schema=schema, key=value)
        return replace(record, value_schema=schema, value=value)


class Given:
    """The typed values of a transform's settings."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """Empty where the setting has no value."""
        value = self._values[name]
        return "" if value is None else str(value)

    def text_or_none(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else str(value)

    def texts(self, name: str) -> list[str]:
        value = self._values[name]
        return [str(one) for one in value] if isinstance(value, list | tuple) else []

    def number_or_none(self, name: str) -> int | None:
        value = self._values[name]
        return value if isinstance(value, int) else None

    def flag(self, name: str) -> bool:
        return bool(self._values[name])

    @property
    def fills_nulls(self) -> bool:
        """replace.null.with.default: a null is read as the default of its field (KIP-1040)."""
        return self.flag("replace.null.with.default")


class Rebuilt:
    """The schema that a transform makes of another one. The newest are kept, by identity: a converter gives the same
    object for the records of one schema."""

    def __init__(self, build: Callable[[Schema], Schema]) -> None:
        self._build = build
        self._kept: dict[int, tuple[Schema, Schema]] = {}

    def of(self, schema: Schema) -> Schema:
        found = self._kept.get(id(schema))
        if found is not None:
            return found[1]
        made = self._build(schema)
        if len(self._kept) >= KEPT_SCHEMAS:
            del self._kept[next(iter(self._kept))]
        self._kept[id(schema)] = (schema, made)  # the first one is held: its identity is not reused
        return made


def struct_schema(fields: Iterable[Field], like: Schema | None = None) -> Schema:
    """A struct with these fields and the name, version, doc and parameters of `like`. It is not optional and has no
    default (SchemaUtil). Raises DataError if two fields have one name."""
    listed = tuple(fields)
    names = [one.name for one in listed]
    for name in names:
        if not name:
            raise DataError("The name of a field cannot be empty")
        if names.count(name) > 1:
            raise DataError(f"Cannot create field {name} because a field with that name exists")
    if like is None:
        return Schema(Type.STRUCT, fields=listed)
    return replace(basics(like), type=Type.STRUCT, fields=listed, keys=None, values=None)


def basics(schema: Schema) -> Schema:
    """The schema as a required one without a default."""
    return replace(schema, optional=False, default=None)


def as_map(value: object, purpose: str) -> dict[object, object]:
    """A value without a schema that must be a map. `purpose` is for the error: `casting`."""
    if not isinstance(value, dict):
        raise DataError(f"Only maps are supported without a schema for {purpose}, found: {kind_of(value)}")
    return value


def as_struct(schema: Schema, value: object, purpose: str) -> dict[str, object]:
    """A value with a schema that must be a struct."""
    if schema.type is not Type.STRUCT or not isinstance(value, dict):
        found = kind_of(value) if schema.type is Type.STRUCT else schema.type.value
        raise DataError(f"Only structs are supported with a schema for {purpose}, found: {found}")
    return value


def read(struct: Mapping[str, object], field: Field, fills_nulls: bool = True) -> object:
    value = struct.get(field.name)
    return field.schema.default if value is None and fills_nulls else value


def put(struct: dict[str, object], field: Field, value: object) -> None:
    """Raises DataError for a null in a required field, as Struct.put does."""
    if value is None and not field.schema.optional:
        raise DataError(f'Invalid value: null used for required field: "{field.name}", type: {field.schema.type.value}')
    struct[field.name] = value


def kind_of(value: object) -> str:
    """The type of a value as errors name it."""
    return "null" if value is None else type(value).__name__
