"""Transforms of headers: DropHeaders, HeaderFrom and InsertHeader; the predicate HasHeaderKey."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from moldau.connect.configuration import REQUIRED, ConfigError, Importance, Kind, Setting, not_empty, one_of
from moldau.connect.converting.converter import DataError
from moldau.connect.converting.header_parser import parse_header
from moldau.connect.data.record import Header, Record
from moldau.connect.data.schema import Schema
from moldau.connect.transforming.parts import (
    Given,
    Part,
    Predicate,
    Rebuilt,
    Transform,
    as_map,
    as_struct,
    read,
    struct_schema,
)
from moldau.connect.transforming.settings import REPLACE_NULL, members, not_empty_list


def _listed(name: str, documentation: str, check: Callable[[str, object], None] = not_empty_list) -> Setting:
    return Setting(name, Kind.LIST, REQUIRED, Importance.HIGH, documentation, check=check)


DROP_SETTINGS = (_listed("headers", "The names of the headers to remove.", members),)
INSERT_SETTINGS = (
    Setting("header", Kind.STRING, REQUIRED, Importance.HIGH, "The name of the header."),
    Setting(
        "value.literal",
        Kind.STRING,
        REQUIRED,
        Importance.HIGH,
        "The value of the header. The text decides its type: a number, true or false, a time, a list, a map or a text.",
    ),
)
FROM_SETTINGS = (
    _listed("fields", "The fields whose values become headers."),
    _listed("headers", "The names of the headers, in the order of `fields`."),
    Setting(
        "operation",
        Kind.STRING,
        REQUIRED,
        Importance.HIGH,
        "copy: the fields stay. move: they are removed.",
        check=one_of("move", "copy"),
    ),
    REPLACE_NULL,
)
HAS_KEY_SETTINGS = (
    Setting("name", Kind.STRING, REQUIRED, Importance.MEDIUM, "The name of the header.", check=not_empty),
)


def drop_headers(given: Given, _: Part) -> Transform:
    names = set(given.texts("headers"))
    return lambda record: replace(record, headers=tuple(one for one in record.headers if one.key not in names))


def insert_header(given: Given, _: Part) -> Transform:
    schema, value = parse_header(given.text("value.literal"))
    header = Header(given.text("header"), schema, value)
    return lambda record: replace(record, headers=(*record.headers, header))


def header_from(given: Given, part: Part) -> Transform:
    fields, names = given.texts("fields"), given.texts("headers")
    if len(fields) != len(names):
        raise ConfigError({"headers": ["fields and headers must have the same number of members"]})
    moves = given.text("operation") == "move"
    rebuilt = Rebuilt(lambda schema: struct_schema([one for one in schema.fields if one.name not in fields], schema))

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if schema is None:
            found = as_map(value, "header from")
            headers = [Header(name, None, found.get(field)) for name, field in zip(names, fields, strict=True)]
            kept = {name: held for name, held in found.items() if not moves or name not in fields}
            return part.replaced(replace(record, headers=(*record.headers, *headers)), None, kept)
        struct = as_struct(schema, value, "header from")
        headers = [_header(schema, struct, field, name, given) for name, field in zip(names, fields, strict=True)]
        changed = replace(record, headers=(*record.headers, *headers))
        if not moves:
            return changed
        target = rebuilt.of(schema)
        left = {one.name: read(struct, one, given.fills_nulls) for one in target.fields}
        return part.replaced(changed, target, left)

    return apply


def _header(schema: Schema, struct: dict[str, object], name: str, header: str, given: Given) -> Header:
    field = schema.get_field(name)
    if field is None:
        raise DataError(f"{name} is not a valid field name")
    return Header(header, field.schema, read(struct, field, given.fills_nulls))


def has_header_key(given: Given) -> Predicate:
    name = given.text("name")
    return lambda record: any(one.key == name for one in record.headers)
