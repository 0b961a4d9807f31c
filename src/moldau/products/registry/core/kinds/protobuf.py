"""Protobuf: compiled by Google's compiler, and stored as canonical text without comments.

A client may send the text of a `.proto`, or a serialized FileDescriptorProto as base64, as Confluent's clients for
Python do: both are stored as the same text. A reader can read a writer by Protobuf's rules for updated messages:
numbers identify fields, and types with one form on the wire may replace each other.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from moldau.products.proto_files import MAIN, ProtoError, compile_protos
from moldau.products.registry.core.kinds.kind import Kind, WholeSchema
from moldau.products.registry.core.kinds.proto_text import OwnOptionsError, proto_text, type_name
from moldau.products.registry.core.refusals import SchemaError

COMPILED_KEPT = 1_000
DESCRIPTOR = "google/protobuf/descriptor.proto"
"""A file that defines options imports this one."""

_F = FieldDescriptorProto
_NUMBER, _SIGNED, _TEXT, _FIXED_32, _FIXED_64 = "number", "signed number", "text or bytes", "fixed 32", "fixed 64"
FORMS: dict[int, str] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64), _NUMBER),
    **dict.fromkeys((_F.TYPE_BOOL, _F.TYPE_ENUM), _NUMBER),
    **dict.fromkeys((_F.TYPE_SINT32, _F.TYPE_SINT64), _SIGNED),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_BYTES), _TEXT),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32), _FIXED_32),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), _FIXED_64),
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_MESSAGE: "message",
    _F.TYPE_GROUP: "group",
}
"""Types with the same form have the same encoding. (Protocol Buffers, "Updating A Message Type".)"""


def kept(schema: WholeSchema) -> str:
    """The text of the schema that the registry stores. Raises SchemaError."""
    return proto_text(_compiled(schema)[-1])


def serialized(schema: WholeSchema) -> str:
    """The FileDescriptorProto as base64. Raises SchemaError."""
    return base64.b64encode(_compiled(schema)[-1].SerializeToString()).decode()


def problems(reader: WholeSchema, writer: WholeSchema) -> list[str]:
    return list(_Comparison(_compiled(reader), _compiled(writer)).problems())


@lru_cache(COMPILED_KEPT)
def _compiled(schema: WholeSchema) -> tuple[FileDescriptorProto, ...]:
    """The imports of the schema, then the schema as the last file. Do not modify the result. Raises SchemaError."""
    texts: dict[str, str] = {}
    for name, text in (*schema.references, (MAIN, schema.text)):
        texts[name] = _as_text(text, texts)
    return _parsed(_compile(texts))


def _compile(texts: Mapping[str, str]) -> tuple[bytes, ...]:
    """Raises SchemaError."""
    try:
        return compile_protos(texts, MAIN)
    except ProtoError as error:
        raise SchemaError(str(error)) from error


def _parsed(files: Sequence[bytes]) -> tuple[FileDescriptorProto, ...]:
    """The files, each after its imports, with the options that they define themselves."""
    plain = tuple(map(FileDescriptorProto.FromString, files))
    if DESCRIPTOR not in {file.name for file in plain}:
        return plain
    pool = DescriptorPool()
    for file in plain:
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName(FileDescriptorProto.DESCRIPTOR.full_name))
    return tuple(map(kind.FromString, files))


def _as_text(text: str, texts: Mapping[str, str]) -> str:
    """`texts`: the files that it may import. Raises SchemaError."""
    try:
        data = base64.b64decode(text, validate=True)
        file = FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return text
    try:
        return proto_text(file)
    except OwnOptionsError:
        imports = (f"import {json.dumps(name)};" for name in file.dependency)
        *imported, _ = _compile({**texts, MAIN: f'syntax = "proto3"; {" ".join(imports)}'})
        return proto_text(_parsed((*imported, data))[-1])


class _Comparison:
    """Compares two schemas, each the last one of its files. Of their imports, it compares the messages that both use in
    the same place."""

    def __init__(self, read: Sequence[FileDescriptorProto], written: Sequence[FileDescriptorProto]) -> None:
        self._read, self._written = read, written
        self._readers, self._writers = _messages(read), _messages(written)
        self._used: dict[str, None] = {}
        """Messages that fields of both schemas use, in the order of discovery."""

    def problems(self) -> Iterator[str]:
        read, written = self._read[-1], self._written[-1]
        if read.package != written.package:
            yield f"the package was {written.package!r} and is {read.package!r}"
        yield from self._of_messages(read.message_type, written.message_type, read.package)
        compared = set(_messages([read])) & set(_messages([written]))
        while used := [name for name in self._used if name not in compared]:
            for name in used:
                compared.add(name)
                yield from self._of_fields(self._readers[name], self._writers[name], name.lstrip("."))

    def _of_messages(
        self, readers: Sequence[DescriptorProto], writers: Sequence[DescriptorProto], around: str
    ) -> Iterator[str]:
        there = {message.name: message for message in readers}
        for written in writers:
            name = f"{around}.{written.name}".lstrip(".")
            if written.options.map_entry:
                continue
            if written.name not in there:
                yield f"there is no message {name} any more"
                continue
            read = there[written.name]
            yield from self._of_fields(read, written, name)
            yield from self._of_messages(read.nested_type, written.nested_type, name)

    def _of_fields(self, read: DescriptorProto, written: DescriptorProto, name: str) -> Iterator[str]:
        readers = {field.number: field for field in read.field}
        writers = {field.number: field for field in written.field}
        for number in sorted({*readers, *writers}):
            reader, writer = readers.get(number), writers.get(number)
            if reader is not None and writer is not None:
                yield from self._of_field(reader, writer, read, written, f"{name}, field {number}")
            elif _is_required(reader or writer):
                yield f"{name}, field {number}: a required field was {'added' if writer is None else 'removed'}"
            elif writer is not None and _oneof(writer, written) and _has_any_of_oneof(writer, written, readers):
                yield f"{name}, field {number}: it was removed from its oneof, whose other fields are still there"
        yield from _of_oneofs(read, written, writers, name)

    def _of_field(
        self,
        reader: FieldDescriptorProto,
        writer: FieldDescriptorProto,
        read: DescriptorProto,
        written: DescriptorProto,
        place: str,
    ) -> Iterator[str]:
        map_read, map_written = _map_entry(reader, read), _map_entry(writer, written)
        if map_read is not None and map_written is not None:
            for in_read, in_written in zip(map_read.field, map_written.field, strict=True):
                yield from self._of_field(in_read, in_written, map_read, map_written, f"{place}, {in_read.name}")
            return
        if (map_read is None) != (map_written is None) or FORMS[reader.type] != FORMS[writer.type]:
            yield f"{place}: its type was {type_name(writer)} and is {type_name(reader)}"
        elif reader.type == _F.TYPE_MESSAGE and reader.type_name != writer.type_name:
            yield f"{place}: its type was {writer.type_name} and is {reader.type_name}"
        elif reader.type == _F.TYPE_MESSAGE:
            self._used.setdefault(reader.type_name)
        elif _is_repeated(reader) != _is_repeated(writer) and reader.type not in (_F.TYPE_STRING, _F.TYPE_BYTES):
            yield f"{place}: it was {'' if _is_repeated(writer) else 'not '}repeated, and numbers are packed"


def _messages(files: Sequence[FileDescriptorProto]) -> dict[str, DescriptorProto]:
    """The messages of all files, by their full names as in fields."""
    found: dict[str, DescriptorProto] = {}

    def add(around: str, messages: Iterable[DescriptorProto]) -> None:
        for message in messages:
            found[f"{around}.{message.name}"] = message
            add(f"{around}.{message.name}", message.nested_type)

    for file in files:
        add(f".{file.package}" if file.package else "", file.message_type)
    return found


def _of_oneofs(
    read: DescriptorProto, written: DescriptorProto, writers: Mapping[int, FieldDescriptorProto], name: str
) -> Iterator[str]:
    """Reports fields that were independent of each other and are now in one oneof: only the last would be read."""
    together: dict[str, set[str]] = {}
    for field in read.field:
        if (oneof := _oneof(field, read)) and field.number in writers:
            group = _oneof(writers[field.number], written) or str(field.number)
            together.setdefault(oneof, set()).add(group)
    for oneof, groups in together.items():
        if len(groups) > 1:
            yield f"{name}, oneof {oneof}: it has fields that were independent of each other"


def _has_any_of_oneof(
    field: FieldDescriptorProto, message: DescriptorProto, there: Mapping[int, FieldDescriptorProto]
) -> bool:
    return any(
        one.number in there for one in message.field if _oneof(one, message) and one.oneof_index == field.oneof_index
    )


def _oneof(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    """The name of the oneof that the schema declares for the field; empty if it declares none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)


def _map_entry(field: FieldDescriptorProto, message: DescriptorProto) -> DescriptorProto | None:
    if field.type != _F.TYPE_MESSAGE:
        return None
    name = field.type_name.rpartition(".")[2]
    entries = (one for one in message.nested_type if one.options.map_entry and one.name == name)
    return next(entries, None)


def _is_required(field: FieldDescriptorProto | None) -> bool:
    return field is not None and field.label == _F.LABEL_REQUIRED


def _is_repeated(field: FieldDescriptorProto) -> bool:
    return bool(field.label == _F.LABEL_REPEATED)


PROTOBUF_SCHEMAS = Kind(kept, problems)
