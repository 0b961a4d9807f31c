"""A schema of a record as a Protobuf file, as Confluent's ProtobufData writes it, and back.

A null has no place in a list, a map, or a field without presence; so an optional field is `optional` (proto3). Names,
types and logical types come back; the version, documentation and parameters of a schema are not kept.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.logical import scale_of
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type

ENUM = "io.confluent.connect.protobuf.Enum"
_DEFAULT_NAME = "ConnectDefault"
_TYPES = {
    Type.INT8: "TYPE_INT32",
    Type.INT16: "TYPE_INT32",
    Type.INT32: "TYPE_INT32",
    Type.INT64: "TYPE_INT64",
    Type.FLOAT32: "TYPE_FLOAT",
    Type.FLOAT64: "TYPE_DOUBLE",
    Type.BOOLEAN: "TYPE_BOOL",
    Type.STRING: "TYPE_STRING",
    Type.BYTES: "TYPE_BYTES",
}
_KEYS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING)
_BACK = {
    **dict.fromkeys(("INT32", "SINT32", "SFIXED32"), Type.INT32),
    **dict.fromkeys(("INT64", "SINT64", "SFIXED64", "UINT32", "FIXED32", "UINT64", "FIXED64"), Type.INT64),
    "FLOAT": Type.FLOAT32,
    "DOUBLE": Type.FLOAT64,
    "BOOL": Type.BOOLEAN,
    "STRING": Type.STRING,
    "BYTES": Type.BYTES,
}
_LOGICAL = {
    DECIMAL: (".confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE: (".google.type.Date", "google/type/date.proto"),
    TIME: (".google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: (".google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_PLAIN_OF = {DECIMAL: Type.BYTES, DATE: Type.INT32, TIME: Type.INT32, TIMESTAMP: Type.INT64}
_MESSAGES = {name.lstrip("."): logical for logical, (name, _) in _LOGICAL.items()}
_META = "confluent/meta.proto"
_CONFLUENT = "confluent_kafka.schema_registry.confluent"
_KNOWN = {"google/protobuf/": "google.protobuf.", "google/type/": "google.type."}
_KNOWN |= {"confluent/type/": f"{_CONFLUENT}.type.", "confluent/": f"{_CONFLUENT}."}
MAX_DEPTH = 100
"""Messages in each other; a schema that is deeper is rejected."""


def to_protobuf(schema: Schema) -> Any:
    """A FileDescriptorProto with one message. Raises DataError for what Protobuf cannot hold."""
    if schema.type is not Type.STRUCT:
        raise DataError(f"Protobuf needs a struct, not {schema.type.name}")
    return _Writing().file(schema)


class _Writing:
    def __init__(self) -> None:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

        self._field_class: Any = FieldDescriptorProto
        self._file: Any = FileDescriptorProto(syntax="proto3")
        self._imports: set[str] = set()
        self._unnamed = 0

    def file(self, schema: Schema) -> Any:
        package, _, name = (schema.name or "").rpartition(".")
        self._file.package = package
        name = name or self._default_name()
        self._file.name = f"{name}.proto"
        self._message(self._file.message_type.add(), name, schema, f"{package}.{name}" if package else name)
        self._file.dependency.extend(sorted(self._imports))
        return self._file

    def _default_name(self) -> str:
        self._unnamed += 1
        return f"{_DEFAULT_NAME}{self._unnamed}"

    def _message(self, message: Any, name: str, schema: Schema, full: str) -> None:
        message.name = name
        nested: dict[str, Schema] = {}
        for number, one in enumerate(schema.fields, 1):
            field = message.field.add(name=one.name, number=number)
            self._typed(field, message, one.schema, full, nested)
        for field in message.field:  # the oneof of an optional field comes after all real ones
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _typed(self, field: Any, message: Any, schema: Schema, full: str, nested: dict[str, Schema]) -> None:
        field.label = self._field_class.LABEL_OPTIONAL
        match schema.type:
            case Type.ARRAY:
                element = _some(schema.values)
                if element.type in (Type.ARRAY, Type.MAP):
                    raise DataError(f"Field {field.name}: Protobuf has no list of lists or maps")
                self._single(field, message, element, full, nested)
                field.label = self._field_class.LABEL_REPEATED
            case Type.MAP:
                self._map(field, message, schema, full, nested)
            case _:
                self._single(field, message, schema, full, nested)
                field.proto3_optional = schema.optional and field.type != self._field_class.TYPE_MESSAGE

    def _single(self, field: Any, message: Any, schema: Schema, full: str, nested: dict[str, Schema]) -> None:
        if schema.name in _LOGICAL and _PLAIN_OF[schema.name] is schema.type:
            field.type = self._field_class.TYPE_MESSAGE
            field.type_name, imported = _LOGICAL[schema.name]
            self._imports.add(imported)
            if schema.name == DECIMAL:
                self._annotate(field, "scale", str(scale_of(schema)))
        elif schema.type is Type.STRUCT:
            field.type = self._field_class.TYPE_MESSAGE
            name = (schema.name or "").rpartition(".")[2] or self._default_name()
            field.type_name = f".{full}.{name}"
            before = nested.setdefault(name, schema)
            if before is schema:
                self._message(message.nested_type.add(), name, schema, f"{full}.{name}")
            elif before.fields != schema.fields:
                raise DataError(f"The schema has two types with the name {name}")
        else:
            field.type = getattr(self._field_class, _TYPES[schema.type])
            if schema.type in (Type.INT8, Type.INT16):
                self._annotate(field, "connect.type", schema.type.value)

    def _map(self, field: Any, message: Any, schema: Schema, full: str, nested: dict[str, Schema]) -> None:
        keys, values = _some(schema.keys), _some(schema.values)
        if keys.type not in _KEYS or values.type in (Type.ARRAY, Type.MAP):
            raise DataError(f"Field {field.name}: Protobuf has no map of these keys and values")
        name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (word, one) in enumerate((("key", keys), ("value", values)), 1):
            inner = entry.field.add(name=word, number=number, label=self._field_class.LABEL_OPTIONAL)
            self._single(inner, message, one, full, nested)
        field.type, field.type_name = self._field_class.TYPE_MESSAGE, f".{full}.{name}"
        field.label = self._field_class.LABEL_REPEATED

    def _annotate(self, field: Any, name: str, value: str) -> None:
        field.options.Extensions[_field_meta()].params[name] = value
        self._imports.add(_META)


def _field_meta() -> Any:
    return import_module(f"{_CONFLUENT}.meta_pb2").field_meta


def known_file(name: str) -> Any:
    """The descriptor of a file that comes with the Protobuf and registry libraries, None of any other name."""
    for folder, module in _KNOWN.items():
        last = name.removeprefix(folder).removesuffix(".proto")
        if name.startswith(folder) and last.isidentifier():
            try:
                return import_module(f"{module}{last}_pb2").DESCRIPTOR
            except ModuleNotFoundError:
                return None
    return None


def from_protobuf(message: Any) -> Schema:
    """The schema of a message. `message`: its Descriptor. A message in a message, and each member of a oneof, is
    optional. Raises DataError."""
    return _struct(message, 0)


def _struct(message: Any, depth: int) -> Schema:
    if depth > MAX_DEPTH:
        raise DataError(f"The Protobuf schema has more than {MAX_DEPTH} messages in each other, or one contains itself")
    in_order = sorted(message.fields, key=lambda one: one.number)  # a registry may write them in another one
    fields = tuple(Field(one.name, _field(one, depth)) for one in in_order)
    name = None if message.name.startswith(_DEFAULT_NAME) else message.full_name
    return Schema(Type.STRUCT, name=name, fields=fields)


def _field(field: Any, depth: int) -> Schema:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map:
        key, value = (field.message_type.fields_by_name[word] for word in ("key", "value"))
        return Schema(Type.MAP, keys=_single(key, depth), values=_single(value, depth))
    single = _single(field, depth)
    if is_repeated(field):
        return Schema(Type.ARRAY, values=single)
    optional = field.message_type is not None or field.containing_oneof is not None
    return single if not optional else _optional(single)


def is_repeated(field: Any) -> bool:
    """Also of a release of the library that has the older attribute only."""
    found = getattr(field, "is_repeated", None)
    return bool(found) if found is not None else field.label == field.LABEL_REPEATED


def _optional(schema: Schema) -> Schema:
    return replace(schema, optional=True)


def _single(field: Any, depth: int) -> Schema:
    if field.message_type is not None:
        logical = _MESSAGES.get(field.message_type.full_name)
        if logical is None:
            return _struct(field.message_type, depth + 1)
        scale = {"scale": annotation(field, "scale") or "0"} if logical == DECIMAL else {}
        return Schema(_PLAIN_OF[logical], name=logical, version=1, parameters=scale)
    if field.enum_type is not None:
        symbols = {f"{ENUM}.{one.name}": str(one.number) for one in field.enum_type.values}
        return Schema(Type.STRING, parameters={ENUM: field.enum_type.full_name, **symbols})
    own = annotation(field, "connect.type")
    if own in (Type.INT8, Type.INT16):
        return Schema(Type(own))
    return Schema(_BACK[field_word(field)])


def field_word(field: Any) -> str:
    """The word of a scalar type: INT32, SINT64..."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_")


def annotation(field: Any, name: str) -> str | None:
    """A parameter of the option `confluent.field_meta`."""
    from google.protobuf.descriptor_pb2 import FieldOptions

    meta = _field_meta()
    options = FieldOptions.FromString(field.GetOptions().SerializeToString())
    found = options.Extensions[meta].params if options.HasExtension(meta) else {}
    return str(found[name]) if name in found else None


def _some(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("A list or a map needs a schema of its values")
    return schema
