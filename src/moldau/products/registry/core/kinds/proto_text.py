"""Writes a FileDescriptorProto as canonical `.proto` text, which compiles to the same descriptor.

Messages keep their order, because records contain their indexes, and so do the entries of map fields. Groups and
editions are rejected, because the text cannot express them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from moldau.products.registry.core.refusals import SchemaError

SYNTAXES = ("", "proto2", "proto3")
""""" means proto2."""
INDENT = "  "
_F = FieldDescriptorProto
_LAST_FIELD = 536_870_912
_LAST_ENUM = 2_147_483_647


class OwnOptionsError(SchemaError):
    """The file was parsed without the files that define its options."""


def proto_text(file: FileDescriptorProto) -> str:
    """The canonical text of the compiled `.proto` file. Raises SchemaError."""
    if file.syntax not in SYNTAXES:
        raise SchemaError(f"{file.syntax} is not kept: use proto2 or proto3")
    syntax = file.syntax or "proto2"
    lines = [f'syntax = "{syntax}";']
    if file.package:
        lines.append(f"package {file.package};")
    for place, name in enumerate(file.dependency):
        lines.append(f"import {'public ' if place in file.public_dependency else ''}{_quoted(name)};")
    lines += [f"option {option};" for option in _options(file.options)]
    for message in file.message_type:
        lines += _message(message, syntax)
    for enum in file.enum_type:
        lines += _enum(enum)
    lines += _extensions(file.extension, syntax)
    for service in file.service:
        lines += _service(service)
    return "\n".join(lines) + "\n"


def _message(message: DescriptorProto, syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    yield from _inside(f"option {option};" for option in _options(message.options))
    yield from _inside(_message_body(message, syntax))
    yield "}"


def _message_body(message: DescriptorProto, syntax: str) -> Iterator[str]:
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    fields_of_maps = {name: field for field in message.field if (name := field.type_name.rpartition(".")[2]) in maps}
    for nested in message.nested_type:
        if nested.name in maps:
            if nested.name not in fields_of_maps:
                raise SchemaError(f"the entry {nested.name} of a map belongs to no field of {message.name}")
            yield _map_field(fields_of_maps[nested.name], nested)
        else:
            yield from _message(nested, syntax)
    for enum in message.enum_type:
        yield from _enum(enum)
    told: set[int] = set()
    for field in message.field:
        if field in fields_of_maps.values():
            continue
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield _field(field, syntax)
        elif not 0 <= field.oneof_index < len(message.oneof_decl):
            raise SchemaError(f"the field {field.name} is in a oneof that {message.name} does not have")
        elif field.oneof_index not in told:
            told.add(field.oneof_index)
            yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
            yield from _inside(
                _field(one, syntax)
                for one in message.field
                if one.HasField("oneof_index") and one.oneof_index == field.oneof_index
            )
            yield "}"
    for ranged in message.extension_range:
        yield f"extensions {_range(ranged.start, ranged.end - 1, _LAST_FIELD - 1)};"
    for ranged in message.reserved_range:
        yield f"reserved {_range(ranged.start, ranged.end - 1, _LAST_FIELD - 1)};"
    if message.reserved_name:
        yield f"reserved {', '.join(map(_quoted, message.reserved_name))};"
    yield from _extensions(message.extension, syntax)


def _field(field: FieldDescriptorProto, syntax: str) -> str:
    if field.type == _F.TYPE_GROUP:
        raise SchemaError(f"the group {field.name} is not kept: use a message")
    label = ""
    if field.label == _F.LABEL_REPEATED:
        label = "repeated "
    elif field.label == _F.LABEL_REQUIRED:
        label = "required "
    elif field.proto3_optional or (syntax == "proto2" and not field.HasField("oneof_index")):
        label = "optional "
    return f"{label}{type_name(field)} {field.name} = {field.number}{_bracketed(_field_options(field))};"


def _map_field(field: FieldDescriptorProto, entry: DescriptorProto) -> str:
    key, value = entry.field
    options = _bracketed(_field_options(field))
    return f"map<{type_name(key)}, {type_name(value)}> {field.name} = {field.number}{options};"


def _field_options(field: FieldDescriptorProto) -> Iterator[str]:
    if field.HasField("default_value"):
        is_text = field.type in (_F.TYPE_STRING, _F.TYPE_BYTES)
        # a default of bytes is already escaped
        escaped = f'"{field.default_value}"' if field.type == _F.TYPE_BYTES else _quoted(field.default_value)
        yield f"default = {escaped if is_text else field.default_value}"
    if field.json_name and field.json_name != _usual_json_name(field.name):
        yield f"json_name = {_quoted(field.json_name)}"
    yield from _options(field.options)


def type_name(field: FieldDescriptorProto) -> str:
    return field.type_name or str(_F.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _inside(f"option {option};" for option in _options(enum.options))
    yield from _inside(f"{one.name} = {one.number}{_bracketed(_options(one.options))};" for one in enum.value)
    yield from _inside(f"reserved {_range(one.start, one.end, _LAST_ENUM)};" for one in enum.reserved_range)
    if enum.reserved_name:
        yield from _inside([f"reserved {', '.join(map(_quoted, enum.reserved_name))};"])
    yield "}"


def _extensions(fields: Sequence[FieldDescriptorProto], syntax: str) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.extendee} {{"
        yield from _inside([_field(field, syntax)])
        yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _inside(f"option {option};" for option in _options(service.options))
    for method in service.method:
        asked = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        yield f"{INDENT}rpc {method.name} ({asked}) returns ({answered}) {{"
        yield from _inside(_inside(f"option {option};" for option in _options(method.options)))
        yield f"{INDENT}}}"
    yield "}"


def _options(options: Message) -> Iterator[str]:
    """Raises SchemaError."""
    if len(UnknownFieldSet(options)):
        raise OwnOptionsError("it has options that no file which it imports defines")
    for field, value in options.ListFields():
        if field.name == "map_entry":
            continue
        if field.message_type is not None and not field.is_extension:
            raise SchemaError(f"the option {field.name} is not kept")
        values = value if field.is_repeated else [value]
        for one in values:
            if field.is_extension:
                yield f"(.{field.full_name}) = {_own_option_value(field, one)}"
            else:
                yield f"{field.name} = {_option_value(field, one)}"


def _own_option_value(field: Any, value: Any) -> str:
    out = io.StringIO()
    text_format.PrintFieldValue(field, value, out, as_utf8=True, as_one_line=True)
    return out.getvalue().strip()


def _option_value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _usual_json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"


def _bracketed(options: Iterator[str]) -> str:
    found = list(options)
    return f" [{', '.join(found)}]" if found else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _inside(lines: Iterable[str]) -> Iterator[str]:
    return (f"{INDENT}{line}" for line in lines)
