"""The records of the topic `_schemas`, as Confluent's registry writes them: JSON keys and values.

A key has the same bytes as Confluent's (the same order of names, no spaces), so compaction treats both as one record.
"""

from __future__ import annotations

from typing import Any

import msgspec

AVRO = "AVRO"
"""The kind of a schema without one."""


class Reference(msgspec.Struct, frozen=True):
    """`name`: the schema's own name for the other one, which is that version of that subject."""

    name: str
    subject: str
    version: int


class SchemaKey(msgspec.Struct, frozen=True, tag_field="keytype", tag="SCHEMA"):
    subject: str
    version: int
    magic: int = 1


class ConfigKey(msgspec.Struct, frozen=True, tag_field="keytype", tag="CONFIG"):
    """`subject`: None for all subjects without their own level."""

    subject: str | None
    magic: int = 0


class ModeKey(msgspec.Struct, frozen=True, tag_field="keytype", tag="MODE"):
    subject: str | None
    magic: int = 0


class DeleteSubjectKey(msgspec.Struct, frozen=True, tag_field="keytype", tag="DELETE_SUBJECT"):
    subject: str
    magic: int = 0


class ClearSubjectKey(msgspec.Struct, frozen=True, tag_field="keytype", tag="CLEAR_SUBJECT"):
    """Never written: all versions of a subject are deleted."""

    subject: str
    magic: int = 0


class NoopKey(msgspec.Struct, frozen=True, tag_field="keytype", tag="NOOP"):
    """Changes nothing: a registry that reads back its own one has read all records before it."""

    magic: int = 0


class NewestIdKey(msgspec.Struct, frozen=True):
    """Confluent's registry reads it as NOOP and ignores its value. Its bytes differ from those of NoopKey, so
    compaction keeps the newest of both."""

    magic: int = 0
    keytype: str = "NOOP"


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | NoopKey | NewestIdKey


class SchemaValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One version of a subject. The last three fields belong to newer registries and are copied unread."""

    subject: str
    version: int
    id: int
    schema: str
    schemaType: str | None = None  # noqa: N815 - the name in the record
    references: tuple[Reference, ...] | None = None
    deleted: bool = False
    md5: str | None = None
    metadata: Any = None
    ruleSet: Any = None  # noqa: N815


class ConfigValue(msgspec.Struct, frozen=True):
    compatibilityLevel: str | None = None  # noqa: N815


class ModeValue(msgspec.Struct, frozen=True):
    mode: str


class DeleteSubjectValue(msgspec.Struct, frozen=True):
    """All versions up to this one are deleted."""

    subject: str
    version: int


class NewestId(msgspec.Struct, frozen=True):
    """The greatest id ever assigned: after its schema is deleted and the topic is compacted, no other record contains
    it."""

    newestId: int = 0  # noqa: N815 - the name in the record


Value = NewestId | SchemaValue | ConfigValue | ModeValue | DeleteSubjectValue
Record = tuple[Key, Value | None]

_VALUES: dict[type[Key], type[Value]] = {
    SchemaKey: SchemaValue,
    ConfigKey: ConfigValue,
    ModeKey: ModeValue,
    DeleteSubjectKey: DeleteSubjectValue,
    NoopKey: NewestId,
}
_key_decoder = msgspec.json.Decoder(SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | NoopKey)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    key, value = record
    return msgspec.json.encode(key), None if value is None else msgspec.json.encode(value)


def decode_record(key: bytes, value: bytes | None) -> Record:
    """Raises msgspec.DecodeError, UnicodeDecodeError or RecursionError for bytes that are no record of a kind above."""
    read_key: Key = _key_decoder.decode(key)
    kind = _VALUES.get(type(read_key))
    if value is None or kind is None:
        return read_key, None
    return read_key, msgspec.json.decode(value, type=kind)
