"""The declaration of messages: a class becomes a list of typed, versioned fields.

    @message(versions="0-13", flexible="9+")
    class MetadataRequest(Request["MetadataResponse"], frozen=True):
        topics: Annotated[tuple[MetadataRequestTopic, ...] | None, wire(nullable="1+")] = ()
        allow_auto_topic_creation: Annotated[bool, wire("4+")] = True

One class is for all versions. Fields are in Kafka's order and have Kafka's defaults. `wire(...)` has the versions in
which a field is sent (default "0+"), where it may be null, and its tag. A field without `wire` is in every version.
Nested structs are plain frozen structs with the version of their message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from moldau.errors import InvariantError, invariant
from moldau.types import Buffer, Uuid

MAX_VERSION: Final = 32_767


class Versions(msgspec.Struct, frozen=True):
    """An inclusive range of versions; `first > last` is the empty one."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Reads Kafka's notation: "3", "0-12", "4+", "none"."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


NO_VERSIONS: Final = Versions(0, -1)
ALL_VERSIONS: Final = Versions(0, MAX_VERSION)


class Primitive(msgspec.Struct, frozen=True):
    """A value of fixed size; `format` is its `struct` code."""

    name: str
    format: str
    size: int


class Text(msgspec.Struct, frozen=True):
    """A UTF-8 string of at most 32,767 bytes."""


class Bytes(msgspec.Struct, frozen=True):
    """A byte string. `is_view`: record batches, decoded as a view of the input and never copied."""

    is_view: bool = False


class Array(msgspec.Struct, frozen=True):
    element: FieldType


class Nested(msgspec.Struct, frozen=True):
    struct: type[msgspec.Struct]


FieldType = Primitive | Text | Bytes | Array | Nested

BOOLEAN: Final = Primitive("bool", "?", 1)
UUID: Final = Primitive("uuid", "16s", 16)
FLOAT64: Final = Primitive("float64", "d", 8)
RECORDS: Final = Bytes(is_view=True)

Int8 = Annotated[int, Primitive("int8", "b", 1)]
Int16 = Annotated[int, Primitive("int16", "h", 2)]
Uint16 = Annotated[int, Primitive("uint16", "H", 2)]
Int32 = Annotated[int, Primitive("int32", "i", 4)]
Int64 = Annotated[int, Primitive("int64", "q", 8)]
Records = Annotated[Buffer, RECORDS]


class Wire(msgspec.Struct, frozen=True):
    """The annotation of a field, besides its type."""

    versions: Versions = ALL_VERSIONS
    nullable: Versions = NO_VERSIONS
    tag: int | None = None
    tagged: Versions = NO_VERSIONS
    is_ignorable: bool = False


def wire(
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
) -> Wire:
    """The versions of a field on the wire.

    `nullable`: versions in which it may be None. `tag`: it is a tagged field (KIP-482) in the versions `tagged`, by
    default all of `versions`. `ignorable`: a value is dropped in a version that lacks the field; without it, a value
    other than the default is a ProtocolError there.
    """
    present = Versions.parse(versions)
    tag_range = NO_VERSIONS if tag is None else present if tagged is None else Versions.parse(tagged)
    return Wire(present, Versions.parse(nullable), tag, tag_range, ignorable)


class Field(msgspec.Struct, frozen=True):
    """One field of a struct, read from its annotation."""

    name: str
    type: FieldType
    wire: Wire
    default: object

    def is_present(self, version: int) -> bool:
        """Whether messages of this version have the field."""
        return version in self.wire.versions

    def is_tagged(self, version: int) -> bool:
        """Whether the field is a tagged field in this version (KIP-482)."""
        return version in self.wire.tagged and self.is_present(version)

    def is_nullable(self, version: int) -> bool:
        """Whether the field may be null in this version."""
        return version in self.wire.nullable


def is_error_message(field: str) -> bool:
    """Whether the field has an error message, which is cut if it is too long."""
    return field.endswith("error_message")


class MessageInfo(msgspec.Struct, frozen=True):
    """The declaration of a class by `@message`."""

    versions: Versions
    flexible: Versions
    api_key: int | None = None

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return version in self.flexible


_MESSAGES: Final[dict[type[msgspec.Struct], MessageInfo]] = {}

StructType = TypeVar("StructType", bound=msgspec.Struct)
ResponseType = TypeVar("ResponseType", bound=msgspec.Struct, covariant=True)


class Request(msgspec.Struct, Generic[ResponseType], frozen=True):
    """A request. Its type parameter is the response."""


def message(
    *, versions: str, flexible: str = "none", api_key: int | None = None
) -> Callable[[type[StructType]], type[StructType]]:
    """Declares a class as a message: its versions, the flexible ones (KIP-482), and its key.

    `api_key` is for record schemas, which have it in their own frame; those of requests are in `api_keys`.
    """
    info = MessageInfo(Versions.parse(versions), Versions.parse(flexible), api_key)

    def declare(cls: type[StructType]) -> type[StructType]:
        _MESSAGES[cls] = info
        return cls

    return declare


def declared_messages(module: ModuleType) -> list[type[msgspec.Struct]]:
    """The messages that a module declares, in order."""
    return [cls for cls in vars(module).values() if isinstance(cls, type) and cls in _MESSAGES]


def message_info(cls: type[msgspec.Struct]) -> MessageInfo:
    """Raises InvariantError for a class without `@message`."""
    info = _MESSAGES.get(cls)
    if info is None:
        raise InvariantError(f"{cls.__name__} is not declared with @message")
    return info


@cache
def fields_of(cls: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a declared struct, in wire order."""
    hints = get_type_hints(cls, include_extras=True)
    defaults = cls.__struct_defaults__
    invariant(len(defaults) == len(cls.__struct_fields__), f"{cls.__name__}: every field needs Kafka's default")
    return tuple(
        _read_field(cls, name, hints[name], default)
        for name, default in zip(cls.__struct_fields__, defaults, strict=True)
    )


def _read_field(cls: type[msgspec.Struct], name: str, hint: object, default: object) -> Field:
    place = next((extra for extra in _extras(hint) if isinstance(extra, Wire)), Wire())
    field_type, may_be_null = _read_type(hint)
    invariant(
        may_be_null == (place.nullable.first <= place.nullable.last),
        f"{cls.__name__}.{name}: `| None` and wire(nullable=...) must agree",
    )
    return Field(name, field_type, place, default)


def _extras(hint: object) -> tuple[object, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _read_type(hint: object) -> tuple[FieldType, bool]:
    """The wire type that an annotation names, and whether it has `| None`."""
    for extra in _extras(hint):
        if isinstance(extra, Primitive | Bytes):
            return extra, False
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        invariant(len(rest) == 1, f"no wire type: {hint}")
        return _read_type(rest[0])[0], True
    if origin is tuple:
        return Array(_read_type(get_args(hint)[0])[0]), False
    known: dict[object, FieldType] = {bool: BOOLEAN, str: Text(), bytes: Bytes(), float: FLOAT64, Uuid: UUID}
    if hint in known:
        return known[hint], False
    invariant(isinstance(hint, type) and issubclass(hint, msgspec.Struct), f"no wire type: {hint}")
    return Nested(hint), False  # type: ignore[arg-type]  # checked by the invariant above


def minimal_size(field_type: FieldType, version: int, *, is_flexible: bool, is_nullable: bool = False) -> int:
    """The smallest size of a value of this type on the wire, in bytes."""
    if isinstance(field_type, Primitive):
        return field_type.size
    if isinstance(field_type, Text):
        return 1 if is_flexible else 2
    if isinstance(field_type, Bytes | Array):
        return 1 if is_flexible else 4
    if is_nullable:
        return 1
    size = 1 if is_flexible else 0
    for field in fields_of(field_type.struct):
        if field.is_present(version) and not field.is_tagged(version):
            size += minimal_size(field.type, version, is_flexible=is_flexible, is_nullable=field.is_nullable(version))
    return size


def has_views(cls: type[msgspec.Struct]) -> bool:
    """Whether the struct, or a nested one, has a field of record batches."""

    def is_view(field_type: FieldType) -> bool:
        if isinstance(field_type, Bytes):
            return field_type.is_view
        if isinstance(field_type, Array):
            return is_view(field_type.element)
        return isinstance(field_type, Nested) and has_views(field_type.struct)

    return any(is_view(field.type) for field in fields_of(cls))
