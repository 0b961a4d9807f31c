"""Protobuf, message by message, with Google's runtime.

With a `registry`, a value begins with the id of its schema and the place of its message in that schema. Fields are
identified by number, so values of every version are read with the reader's schema: that of `schema_file`, or the
subject's newest one when the pipeline starts. The writer's schema gives the message at the place. Without a registry,
values are bare messages. A `schema_file` is a `.proto`, which is compiled, or a descriptor set, as `protoc
--include_imports --descriptor_set_out` writes it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.extras import require_extra
from moldau.products.brought_protos import GOOGLES, is_brought
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Text
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.arrow_types import Listed, Mapped, Record, Shape, struct_of
from moldau.products.pipelines.formats.by_schema import UNREGISTERED, Reader, Row, SchemaFormat, Values, Writer
from moldau.products.pipelines.formats.registry import RegisteredSchema, Registry
from moldau.products.proto_files import MAIN, ProtoError, compile_protos

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

WELL_KNOWN = (
    *("timestamp", "duration", "wrappers", "struct", "any", "empty", "field_mask"),
    *("descriptor", "source_context", "type", "api"),
)
"""Files of `google/protobuf` that schemas use without including them, each after those that it needs."""
MESSAGE = Text("message", "The full name of the message.", absent="the first one of the schema")
TIMESTAMP = "google.protobuf.Timestamp"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
READERS_KEPT = 100
MOST_LEVELS = 100
"""The most levels of nested messages."""

Files = tuple[bytes, ...]
"""Serialized FileDescriptorProtos, each after those that it needs. The last one is the schema itself."""


class ProtobufFormat(SchemaFormat, frozen=True, kw_only=True):
    """`message`: its full name; None: the first message of the schema."""

    NAMED_BY = "protobuf"
    KEYS = (*SchemaFormat.KEYS, MESSAGE)

    message: str | None = None

    @classmethod
    def parse_more(cls, section: Section) -> dict[str, Any]:
        return {"message": MESSAGE.if_given(section)}

    def values(self) -> Values:
        _, files = self._schema()
        return ProtobufValues(files, self.message or _first_message(files), self.registry)

    def writer(self) -> Writer:
        schema, files = self._schema()
        return ProtobufWriter(schema, files, self.message or _first_message(files), self.registry, self.subject)

    def _schema(self) -> tuple[RegisteredSchema, Files]:
        """The schema for a registry, and the files to read it with."""
        require_extra("`format: protobuf`", "protobuf")
        if self.schema_file is not None:
            files = _files_of(self.schema_file)
            return RegisteredSchema(UNREGISTERED, base64.b64encode(files[-1]).decode()), files
        schema = self.newest_schema("serialized")
        return schema, _registered(schema)


class ProtobufValues(Values):
    """`message`: the full name of a message in the last of `files`."""

    def __init__(self, files: Files, message: str, registry: Registry | None) -> None:
        """Raises FlowError for a message that does not exist, or has no columns."""
        super().__init__(struct_of(_record(_message(files, message))), registry)
        self._files, self._message = files, message

    def reader(self, schema_id: int | None) -> Reader:
        if self._registry is None or schema_id is None:
            return _reader(self._files, self._message, None)
        place = _place_as_written(self._registry, schema_id, self._files, self._message)
        return _reader(self._files, self._message, place)


class ProtobufWriter(Writer):
    SCHEMA_TYPE = "PROTOBUF"

    def __init__(
        self, schema: RegisteredSchema, files: Files, message: str, registry: Registry | None, subject: str | None
    ) -> None:
        """Raises FlowError for a schema that cannot be registered here."""
        super().__init__(schema, registry, subject)
        self._files, self._message = files, message
        if registry is not None and schema.id == UNREGISTERED and len(files) > 1:
            imported = [name for name in map(_name_of, files[:-1]) if not is_brought(name)]
            if imported:
                raise FlowError(f"the schema imports {imported[0]}: register it, and leave `schema_file` out")

    def fields(self) -> Mapping[str, bool]:
        return dict.fromkeys(_message(self._files, self._message).fields_by_name, False)

    def before_message(self) -> bytes:
        place = _place_of(_message(self._files, self._message))
        return b"\0" if place == (0,) else b"".join(map(_number, (len(place), *place)))

    def encoder(self) -> Callable[[Row], bytes]:
        from google.protobuf import message_factory

        descriptor = _message(self._files, self._message)
        make, fields = message_factory.GetMessageClass(descriptor), _message_of(descriptor)
        return lambda row: make(**fields(row)).SerializeToString()


@lru_cache(READERS_KEPT)
def _place_as_written(registry: Registry, schema_id: int, files: Files, name: str) -> tuple[int, ...]:
    """The place of the message in the schema of that id, which is fetched once per process. Versions may order their
    messages differently than the reader's schema. If a version lacks the name, its message has another name, at the
    reader's place. Raises FlowError, RegistryError."""
    written = _registered(registry.schema_of_id(schema_id, "serialized"))
    return _place_of(_find(_pool(written), name) or _message(files, name))


@lru_cache(READERS_KEPT)
def _reader(files: Files, name: str, place: tuple[int, ...] | None) -> Reader:
    """`place`: the message's place in the writer's schema, which precedes the message in a value; None: values are bare
    messages."""
    from google.protobuf import message_factory

    descriptor = _message(files, name)
    parse = message_factory.GetMessageClass(descriptor).FromString
    row = _row_of(descriptor)

    def read(value: bytes) -> Row:
        if place is not None:
            found, behind = _read_place(value)
            if found != place:
                raise ValueError(f"it is the message at the place {found} of its schema, and not {name}")
            value = value[behind:]
        message = parse(value)
        if not message.IsInitialized():
            raise ValueError(f"it lacks a required field: {', '.join(message.FindInitializationErrors())}")
        found_row: Row = row(message)
        return found_row

    return read


# --- where schemas come from ---


def _files_of(path: Path) -> Files:
    """Raises FlowError."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    if path.suffix == ".proto":
        return _compiled({}, path.name, path.parent)
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise FlowError(f"{path} is no .proto and no descriptor set: {error}") from error
    if not found.file:
        raise FlowError(f"{path} describes nothing")
    return tuple(file.SerializeToString() for file in found.file)


def _registered(schema: RegisteredSchema) -> Files:
    """Registries that do not support `format=serialized` return the text. Raises FlowError."""
    texts = {**dict(schema.references), MAIN: schema.text}
    try:
        return tuple(_renamed(name, base64.b64decode(text, validate=True)) for name, text in texts.items())
    except binascii.Error:
        return _compiled(texts, MAIN)


def _renamed(name: str, data: bytes) -> bytes:
    """The file under the name that other files use for it."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    file.MergeFrom(descriptor_pb2.FileDescriptorProto(name=name))
    return bytes(file.SerializeToString())


def _name_of(file: bytes) -> str:
    from google.protobuf import descriptor_pb2

    return str(descriptor_pb2.FileDescriptorProto.FromString(file).name)


def _compiled(texts: Mapping[str, str], main: str, directory: Path | None = None) -> Files:
    """Raises FlowError."""
    try:
        return compile_protos(texts, main, directory)
    except ProtoError as error:
        raise FlowError(str(error)) from error


def _first_message(files: Files) -> str:
    """Raises FlowError."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(files[-1])
    if not file.message_type:
        raise FlowError("the Protobuf schema has no message")
    return ".".join(filter(None, (file.package, file.message_type[0].name)))


@lru_cache(READERS_KEPT)
def _message(files: Files, name: str) -> Descriptor:
    """Raises FlowError."""
    found = _find(_pool(files), name)
    if found is None:
        raise FlowError(f"the Protobuf schema has no message {name}")
    return found


def _pool(files: Files) -> DescriptorPool:
    """Raises FlowError."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    try:
        parsed = [descriptor_pb2.FileDescriptorProto.FromString(file) for file in files]
        for file in (*_lacking(parsed), *parsed):
            pool.Add(file)
            pool.FindFileByName(file.name)  # raises an error for missing imports here
    except (KeyError, TypeError, ValueError) as error:
        raise FlowError(f"the Protobuf schema cannot be read: {error}") from error
    return pool


def _find(pool: DescriptorPool, name: str) -> Descriptor | None:
    """The message of that full name."""
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        return None


def _lacking(files: Sequence[FileDescriptorProto]) -> Iterator[FileDescriptorProto]:
    """The well-known files, and the files of other common types that the schema imports. Raises FlowError."""
    brought = {file.name for file in files}
    imported = {name for file in files for name in file.dependency if is_brought(name)}
    common = (file for name in sorted(imported - brought) for file in _brought_files(name))
    for file in (*_well_known(), *common):
        if file.name not in brought:
            brought.add(file.name)
            yield file


@lru_cache(READERS_KEPT)
def _brought_files(name: str) -> tuple[FileDescriptorProto, ...]:
    """Raises FlowError."""
    from google.protobuf import descriptor_pb2

    if name.startswith(GOOGLES):
        return ()
    return tuple(map(descriptor_pb2.FileDescriptorProto.FromString, _compiled({}, name)))


def _well_known() -> Iterator[FileDescriptorProto]:
    from google.protobuf import descriptor_pb2

    for name in WELL_KNOWN:
        module = import_module(f"google.protobuf.{name}_pb2")
        yield descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


# --- the place of a message in its schema: Confluent's wire format ---


def _place_of(message: Descriptor) -> tuple[int, ...]:
    """The message's number in its file. For a nested message, its number comes after that of the enclosing message."""
    around = message.containing_type
    siblings = message.file.message_types_by_name.values() if around is None else around.nested_types
    number = next(number for number, one in enumerate(siblings) if one.full_name == message.full_name)
    return (*(() if around is None else _place_of(around)), number)


def _read_place(value: bytes) -> tuple[tuple[int, ...], int]:
    """The place, and the start of the message. The place (0,) is a single zero. Raises IndexError, ValueError."""
    count, behind = _read_number(value, 0)
    if count == 0:
        return (0,), behind
    place = []
    for _ in range(min(count, MOST_LEVELS + 1)):
        number, behind = _read_number(value, behind)
        place.append(number)
    return tuple(place), behind


def _read_number(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 bits, and the place after it."""
    number = 0
    for shift in range(0, 35, 7):
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("the place of the message is no number")


def _number(number: int) -> bytes:
    """Encodes a non-negative number."""
    number <<= 1
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


# --- columns and rows ---


def _record(message: Descriptor) -> Record:
    fields = [(field.name, partial(_shape, field)) for field in message.fields]
    return Record(f"the Protobuf message {message.full_name}", fields)


def _shape(field: FieldDescriptor) -> Shape:
    if _is_map(field):
        key, value = (partial(_shape, field.message_type.fields_by_name[name]) for name in ("key", "value"))
        return Mapped(value, key)
    return Listed(partial(_shape_of_one, field)) if field.is_repeated else _shape_of_one(field)


def _shape_of_one(field: FieldDescriptor) -> Shape:
    import pyarrow as pa

    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", "UTC")
        wrapped = _wrapped(field.message_type)
        return _record(field.message_type) if wrapped is None else _shape_of_one(wrapped)
    if field.type == field.TYPE_BYTES:
        return pa.binary()
    known = {
        field.CPPTYPE_INT32: pa.int32(), field.CPPTYPE_INT64: pa.int64(), field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0), field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(), field.CPPTYPE_BOOL: pa.bool_(),
    }  # fmt: skip
    return known.get(field.cpp_type, pa.string())


def _row_of(message: Descriptor) -> Callable[[Any], Row]:
    """Converts a message to its row. An absent field is null if it can be absent."""
    fields = [(field.name, field.has_presence, _value_of(field)) for field in message.fields]

    def row(found: Any) -> Row:
        return {
            name: None if has_presence and not found.HasField(name) else value(getattr(found, name))
            for name, has_presence, value in fields
        }

    return row


def _value_of(field: FieldDescriptor) -> Callable[[Any], Any]:
    if _is_map(field):
        value = _value_of_one(field.message_type.fields_by_name["value"])
        return lambda found: [(key, value(found[key])) for key in found]
    value = _value_of_one(field)
    return (lambda found: [value(one) for one in found]) if field.is_repeated else value


def _value_of_one(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return lambda found: found.ToDatetime(tzinfo=UTC)
        wrapped = _wrapped(field.message_type)
        if wrapped is None:
            return _row_of(field.message_type)
        inner = _value_of_one(wrapped)
        return lambda found: inner(found.value)
    if field.enum_type is not None:
        # of several names with one number, the first is used
        names = {one.number: one.name for one in reversed(field.enum_type.values)}
        return lambda found: names.get(found, str(found))
    if field.type == field.TYPE_STRING:
        return _text
    return lambda found: found


def _text(found: str | bytes) -> str:
    """Raises ValueError for invalid UTF-8, which proto2 allows."""
    return found if isinstance(found, str) else found.decode()


def _message_of(message: Descriptor) -> Callable[[Row], dict[str, Any]]:
    """Converts a row to the arguments of a message; null fields are absent."""
    fields = {field.name: _part_of(field) for field in message.fields}

    def parts(row: Row) -> dict[str, Any]:
        return {name: fields[name](value) for name, value in row.items() if value is not None}

    return parts


def _part_of(field: FieldDescriptor) -> Callable[[Any], Any]:
    if _is_map(field):
        key_part, part = (_part_of_one(field.message_type.fields_by_name[name]) for name in ("key", "value"))
        return lambda given: {key_part(key): part(one) for key, one in given.items()}
    part = _part_of_one(field)
    return (lambda given: [part(one) for one in given]) if field.is_repeated else part


def _part_of_one(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return _timestamp
        wrapped = _wrapped(field.message_type)
        if wrapped is None:
            return _message_of(field.message_type)
        inner = _part_of_one(wrapped)
        return lambda given: {"value": inner(given)}
    if field.enum_type is not None:
        names = field.enum_type.values_by_name
        return lambda given: given if given in names else _number_of_enum(given, field.enum_type.full_name)
    return int if field.cpp_type == field.CPPTYPE_UINT64 else lambda given: given


def _number_of_enum(given: str, enum: str) -> int:
    """In rows, an enum number without a name is a text of digits. Raises ValueError."""
    try:
        return int(given)
    except ValueError:
        raise ValueError(f"{given!r} is no name of the enum {enum}, and no number") from None


def _timestamp(given: datetime) -> dict[str, int]:
    micros = (given - EPOCH) // timedelta(microseconds=1)
    return {"seconds": micros // 1_000_000, "nanos": micros % 1_000_000 * 1_000}


def _is_map(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry


def _wrapped(message: Descriptor) -> FieldDescriptor | None:
    """The value field of a wrapper message such as google.protobuf.StringValue, which is a value that can be absent."""
    is_wrapper = message.file.name == "google/protobuf/wrappers.proto"
    return message.fields_by_name["value"] if is_wrapper else None
