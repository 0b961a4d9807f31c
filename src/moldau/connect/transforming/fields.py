"""Transforms of fields: ExtractField, HoistField, InsertField, ReplaceField and ValueToKey."""

from __future__ import annotations

from dataclasses import dataclass, replace

from moldau.connect.configuration import REQUIRED, ConfigError, Importance, Kind, Setting, wrong
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.data.schema import TIMESTAMP, Field, Schema, Type
from moldau.connect.transforming.field_paths import PathError, field_path
from moldau.connect.transforming.java_dates import DateError, timestamp_of
from moldau.connect.transforming.parts import (
    Given,
    Part,
    Rebuilt,
    Transform,
    as_map,
    as_struct,
    put,
    read,
    struct_schema,
)
from moldau.connect.transforming.settings import FIELD_SYNTAX, REPLACE_NULL, members, no_empty_member


def _field(documentation: str) -> Setting:
    return Setting("field", Kind.STRING, REQUIRED, Importance.MEDIUM, documentation)


EXTRACT_SETTINGS = (
    _field("The field that becomes the whole key or value."),
    FIELD_SYNTAX,
    REPLACE_NULL,
)
HOIST_SETTINGS = (_field("The name of the only field, which gets the whole key or value."),)


def extract_field(given: Given, part: Part) -> Transform:
    try:
        path = field_path(given.text("field"), given.text("field.syntax.version"))
    except PathError as error:
        raise ConfigError({"field": [str(error)]}) from None

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if schema is None:
            found = None if value is None else path.value_in_map(as_map(value, "field extraction"))
            return part.replaced(record, None, found)
        field = path.field_in(schema)
        struct = None if value is None else as_struct(schema, value, "field extraction")
        if field is None:
            raise DataError(f"Unknown field: {path.text}")
        found = None if struct is None else path.value_in_struct(schema, struct, given.fills_nulls)
        return part.replaced(record, field.schema, found)

    return apply


def hoist_field(given: Given, part: Part) -> Transform:
    name = given.text("field")
    rebuilt = Rebuilt(lambda schema: struct_schema([Field(name, schema)]))

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if schema is None:
            return part.replaced(record, None, {name: value})
        made: dict[str, object] = {}
        put(made, Field(name, schema), value)
        return part.replaced(record, rebuilt.of(schema), made)

    return apply


def _inserted(name: str, what: str) -> Setting:
    text = f"The field that gets {what}. Behind it `!` makes it a required field, `?` an optional one (the default)."
    return Setting(name, Kind.STRING, None, Importance.MEDIUM, text)


INSERT_SETTINGS = (
    _inserted("topic.field", "the topic of the record"),
    _inserted("partition.field", "the partition of the record"),
    _inserted("offset.field", "the offset of the record, of a sink only"),
    _inserted("timestamp.field", "the timestamp of the record"),
    _inserted("static.field", "the value of static.value"),
    Setting("static.value", Kind.STRING, None, Importance.MEDIUM, "The text for static.field."),
    REPLACE_NULL,
)


@dataclass(frozen=True, slots=True)
class _Insertion:
    source: str
    name: str
    is_optional: bool

    def value(self, record: Record, static: str | None, with_schema: bool) -> object:
        match self.source:
            case "topic":
                return record.topic
            case "partition":
                return record.partition
            case "offset":
                if record.offset is None:
                    raise DataError("Only a record of a sink has an offset for field insertion")
                return record.offset
            case "timestamp":
                if record.timestamp_ms is None or not with_schema:
                    return record.timestamp_ms
                try:
                    return timestamp_of(record.timestamp_ms)
                except DateError as error:
                    raise DataError(str(error)) from None
        return static

    @property
    def field(self) -> Field:
        match self.source:
            case "partition":
                return Field(self.name, Schema(Type.INT32, self.is_optional))
            case "offset":
                return Field(self.name, Schema(Type.INT64, self.is_optional))
            case "timestamp":
                return Field(self.name, Schema(Type.INT64, self.is_optional, TIMESTAMP, 1))
        return Field(self.name, Schema(Type.STRING, self.is_optional))


def insert_field(given: Given, part: Part) -> Transform:
    insertions = []
    for source in ("topic", "partition", "offset", "timestamp", "static"):
        text = given.text_or_none(f"{source}.field")
        if text is not None:
            insertions.append(
                _Insertion(source, text[:-1] if text.endswith(("!", "?")) else text, not text.endswith("!"))
            )
    static = given.text_or_none("static.value")
    if not insertions:
        raise ConfigError({"topic.field": ["No field insertion configured: no setting ends with .field"]})
    if static is None and insertions[-1].source == "static":
        raise ConfigError({"static.value": [wrong("static.value", None, "No value given for static.field")]})
    rebuilt = Rebuilt(lambda schema: struct_schema([*schema.fields, *(one.field for one in insertions)], schema))

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if value is None:
            return record
        found = {one: one.value(record, static, schema is not None) for one in insertions}
        if schema is None:
            made = dict(as_map(value, "field insertion"))
            made.update({one.name: held for one, held in found.items() if held is not None})
            return part.replaced(record, None, made)
        struct = as_struct(schema, value, "field insertion")
        target = rebuilt.of(schema)
        made_struct = {field.name: read(struct, field, given.fills_nulls) for field in schema.fields}
        for one, held in found.items():
            if held is not None:
                made_struct[one.name] = held
        return part.replaced(record, target, made_struct)

    return apply


def _checked_renames(name: str, value: object) -> None:
    for one in value if isinstance(value, list) else ():
        if len(str(one).split(":")) != 2:
            raise ValueError(wrong(name, value, f"Invalid rename mapping: {one}, expected old:new"))


REPLACE_SETTINGS = (
    Setting("exclude", Kind.LIST, (), Importance.MEDIUM, "Fields to leave out.", check=no_empty_member),
    Setting("include", Kind.LIST, (), Importance.MEDIUM, "The fields to keep. Empty: all.", check=no_empty_member),
    Setting("renames", Kind.LIST, (), Importance.MEDIUM, "New names: old1:new1,old2:new2.", check=_checked_renames),
    REPLACE_NULL,
)


def replace_field(given: Given, part: Part) -> Transform:
    exclude, include = set(given.texts("exclude")), set(given.texts("include"))
    renames = dict(one.split(":") for one in given.texts("renames"))

    def is_kept(name: object) -> bool:
        return name not in exclude and (not include or name in include)

    def build(schema: Schema) -> Schema:
        kept = [Field(renames.get(one.name, one.name), one.schema) for one in schema.fields if is_kept(one.name)]
        return struct_schema(kept, schema)

    rebuilt = Rebuilt(build)

    def apply(record: Record) -> Record:
        schema, value = part.schema_of(record), part.value_of(record)
        if value is None:
            return record
        if schema is None:
            found = as_map(value, "field replacement")
            kept = {renames.get(str(name), name): held for name, held in found.items() if is_kept(name)}
            return part.replaced(record, None, kept)
        struct = as_struct(schema, value, "field replacement")
        target = rebuilt.of(schema)
        made: dict[str, object] = {}
        for field in schema.fields:
            if is_kept(field.name):
                new = Field(renames.get(field.name, field.name), field.schema)
                put(made, new, read(struct, field, given.fills_nulls))
        return part.replaced(record, target, made)

    return apply


VALUE_TO_KEY_SETTINGS = (
    Setting(
        "fields",
        Kind.LIST,
        REQUIRED,
        Importance.HIGH,
        "The fields of the value that become the key.",
        check=members,
    ),
    FIELD_SYNTAX,
    REPLACE_NULL,
)


def value_to_key(given: Given, _: Part) -> Transform:
    try:
        paths = [field_path(one, given.text("field.syntax.version")) for one in dict.fromkeys(given.texts("fields"))]
    except PathError as error:
        raise ConfigError({"fields": [str(error)]}) from None

    def build(schema: Schema) -> Schema:
        fields = []
        for path in paths:
            field = path.field_in(schema)
            if field is None:
                raise DataError(f"Field does not exist: {path.text}")
            fields.append(Field(path.text, field.schema))
        return struct_schema(fields)

    rebuilt = Rebuilt(build)

    def apply(record: Record) -> Record:
        schema, value = record.value_schema, record.value
        if schema is None:
            found = as_map(value, "copying fields from value to key")
            return replace(record, key_schema=None, key={path.text: path.value_in_map(found) for path in paths})
        struct = as_struct(schema, value, "copying fields from value to key")
        target = rebuilt.of(schema)
        key: dict[str, object] = {}
        for path, field in zip(paths, target.fields, strict=True):
            put(key, field, path.value_in_struct(schema, struct, given.fills_nulls))
        return replace(record, key_schema=target, key=key)

    return apply
