"""Protobuf with a schema registry (io.confluent.connect.protobuf.ProtobufConverter)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, ClassVar

from moldau.connect.configuration import Setting
from moldau.connect.converting.converter import Converted, Converter, DataError, Headers, Role
from moldau.connect.converting.registry.protobuf_schemas import from_protobuf, known_file, to_protobuf
from moldau.connect.converting.registry.protobuf_values import Fill, Take, filler, taker
from moldau.connect.converting.registry.schemas import REGISTRY_SETTINGS, Schemas, Stored, framed, unframed
from moldau.connect.converting.schema_cache import Bounded, SchemaCache
from moldau.connect.data.schema import Schema
from moldau.extras import require_extra

_MAX_INDEXES = 100


class ProtobufConverter(Converter):
    """A value must be a struct with a schema. Each optional field is `optional` (proto3), so that nulls come back."""

    settings: ClassVar[tuple[Setting, ...]] = REGISTRY_SETTINGS

    def __init__(self, values: Mapping[str, object], role: Role) -> None:
        super().__init__(values, role)
        require_extra("the Protobuf converter", "connect", ("google.protobuf", "google.type"))
        self._schemas = Schemas(values, role, "PROTOBUF")
        size = self._schemas.cache_size
        self._written: SchemaCache[tuple[str, str, Fill]] = SchemaCache(_compiled, size)
        self._classes: Bounded[tuple[int, tuple[int, ...]], Any] = Bounded(size)
        self._read: Bounded[tuple[int, tuple[int, ...]], tuple[Any, Schema, Take]] = Bounded(size)

    def from_value(self, topic: str, headers: Headers, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise DataError("A value without a schema cannot be written as Protobuf")
        text, name, fill = self._written.get(schema)
        stored = self._schemas.for_writing(self._schemas.subject(topic, name), text)
        message = self._class_of(stored, (0,))()
        fill(message, value)
        return framed(stored.id, b"\x00" + message.SerializeToString())  # 0: the first message of the file

    def to_value(self, topic: str, headers: Headers, payload: bytes | None) -> Converted:
        if payload is None:
            return None, None
        from google.protobuf.message import DecodeError

        schema_id, data = unframed(payload)
        indexes, start = _indexes(data)
        message_class, schema, take = self._of_id(schema_id, indexes)
        message = message_class()
        try:
            message.ParseFromString(data[start:])
        except DecodeError:
            raise DataError(f"The bytes do not fit the Protobuf schema {schema_id}") from None
        return schema, take(message)

    def close(self) -> None:
        self._schemas.close()

    def _of_id(self, schema_id: int, indexes: tuple[int, ...]) -> tuple[Any, Schema, Take]:
        found = self._read.get((schema_id, indexes))
        if found is None:
            message_class = self._class_of(self._schemas.by_id(schema_id), indexes)
            schema = from_protobuf(message_class.DESCRIPTOR)
            found = self._read.put((schema_id, indexes), (message_class, schema, taker(schema)))
        return found

    def _class_of(self, stored: Stored, indexes: tuple[int, ...]) -> Any:
        found = self._classes.get((stored.id, indexes))
        if found is None:
            from google.protobuf.descriptor_pool import DescriptorPool
            from google.protobuf.message_factory import GetMessageClass

            pool = DescriptorPool()
            try:
                file = self._added(pool, f"schema-{stored.id}.proto", stored)
                descriptor = pool.FindMessageTypeByName(_named(file, indexes))
            except (KeyError, TypeError) as error:
                raise DataError(f"The Protobuf schema {stored.id} is rejected: {error}") from None
            found = self._classes.put((stored.id, indexes), GetMessageClass(descriptor))
        return found

    def _added(self, pool: Any, name: str, stored: Stored) -> Any:
        """The FileDescriptorProto of a schema, which is in the pool then, with all that it imports."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError

        for imported, subject, version in stored.references:
            if known_file(imported) is None:
                self._added(pool, imported, self._schemas.of_version(subject, version))
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(stored.text, validate=True))
        except (DecodeError, binascii.Error):
            raise DataError(f"The Protobuf schema {stored.id} cannot be read") from None
        file.name = name
        for imported in file.dependency:
            _add_known(pool, imported)
        pool.Add(file)
        return file


def _add_known(pool: Any, name: str) -> None:
    """A file of the libraries, after those that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    known = known_file(name)
    if known is None:
        return
    for one in known.dependencies:
        _add_known(pool, one.name)
    file = FileDescriptorProto.FromString(known.serialized_pb)
    file.name = name
    pool.Add(file)


def _named(file: Any, indexes: tuple[int, ...]) -> str:
    """The full name of a message by its places in the file and in the messages around it. Raises DataError."""
    messages, names = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if index >= len(messages):
            raise DataError(f"The schema has no message number {index}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def _compiled(schema: Schema) -> tuple[str, str, Fill]:
    """The file as the registry takes it, the full name of the message, and the step of its values."""
    file = to_protobuf(schema)
    text = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
    return text, _named(file, (0,)), filler(schema)


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of the schema, and where its bytes begin. A zero alone is the first one. Raises DataError."""
    count, at = _varint(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_INDEXES:
        raise DataError(f"{count} numbers of messages are not read")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise DataError(f"The schema has no message number {index}")
        indexes.append(index)
    return tuple(indexes), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number with a sign (zigzag), and the place after it."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number >> 1 ^ -(number & 1), at
    raise DataError("The number of the message is cut")
