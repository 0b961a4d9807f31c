"""Encodes and decodes the records of Kafka's internal topics, with the prefix that names their schema.

`__cluster_metadata`: unsigned varints for the frame's version (1), the api key and the record's version, then the body.
`__consumer_offsets` and `__transaction_state`: a key begins with two bytes for its kind, a value with two bytes for its
version.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

import msgspec

from moldau.errors import ProtocolError, invariant
from moldau.types import Buffer
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages import group_records, metadata_records
from moldau.wire.protocol.messages.transaction_records import TransactionLogKey
from moldau.wire.protocol.runtime import decode_uvarint, encode_uvarint
from moldau.wire.protocol.schema import declared_messages, message_info

METADATA_FRAME_VERSION: Final = 1

_PREFIX: Final = Struct(">h")

ValueType = TypeVar("ValueType", bound=msgspec.Struct)


def _by_key(*classes: type[msgspec.Struct]) -> dict[int, type[msgspec.Struct]]:
    table: dict[int, type[msgspec.Struct]] = {}
    for cls in classes:
        key = message_info(cls).api_key
        if key is not None:
            invariant(key not in table, f"{cls.__name__}: key {key} is taken")
            table[key] = cls
    return table


METADATA_RECORDS: Final = _by_key(*declared_messages(metadata_records))
"""Api key -> class, for every record that a metadata log of Kafka 4.3 may hold."""

GROUP_KEYS: Final = _by_key(*(cls for cls in declared_messages(group_records) if cls.__name__.endswith("Key")))
"""The kind at the beginning of a `__consumer_offsets` key -> class."""


def encode_metadata_record(record: msgspec.Struct, version: int) -> bytes:
    """Raises ProtocolError as `encode_message`; InvariantError for another class."""
    api_key = message_info(type(record)).api_key
    invariant(api_key is not None and METADATA_RECORDS.get(api_key) is type(record), "not a metadata record")
    frame = encode_uvarint(METADATA_FRAME_VERSION) + encode_uvarint(api_key or 0) + encode_uvarint(version)
    return frame + encode_message(record, version)


def decode_metadata_record(buffer: Buffer) -> tuple[msgspec.Struct, int]:
    """The record and its version. Raises ProtocolError for an unknown frame, kind or version, or bytes left over."""
    try:
        frame_version, position = decode_uvarint(buffer, 0)
        api_key, position = decode_uvarint(buffer, position)
        version, position = decode_uvarint(buffer, position)
    except IndexError as error:
        raise ProtocolError("metadata record cut") from error
    if frame_version != METADATA_FRAME_VERSION:
        raise ProtocolError(f"metadata record of frame version {frame_version}")
    cls = METADATA_RECORDS.get(api_key)
    if cls is None:
        raise ProtocolError(f"metadata record of unknown kind {api_key}")
    return _decode_whole(cls, version, buffer, position), version


def encode_group_key(key: msgspec.Struct) -> bytes:
    """Raises ProtocolError as `encode_message`; InvariantError for another class."""
    kind = message_info(type(key)).api_key
    invariant(kind is not None and GROUP_KEYS.get(kind) is type(key), "not a group key")
    return _PREFIX.pack(kind) + encode_message(key, 0)


def decode_group_key(buffer: Buffer) -> msgspec.Struct:
    """The key, by its class. Raises ProtocolError for an unknown kind and for trailing bytes."""
    kind = _prefix(buffer)
    cls = GROUP_KEYS.get(kind)
    if cls is None:
        raise ProtocolError(f"group key of unknown kind {kind}")
    return _decode_whole(cls, 0, buffer, _PREFIX.size)


def encode_record_value(value: msgspec.Struct, version: int) -> bytes:
    """The value of a group or transactional id record. Raises ProtocolError as `encode_message`."""
    return _PREFIX.pack(version) + encode_message(value, version)


def decode_record_value(cls: type[ValueType], buffer: Buffer) -> tuple[ValueType, int]:
    """The value and its version. `cls` follows from the class of the key. Raises ProtocolError as above."""
    version = _prefix(buffer)
    return _decode_whole(cls, version, buffer, _PREFIX.size), version


def encode_transaction_key(key: TransactionLogKey) -> bytes:
    """Raises ProtocolError as `encode_message`."""
    return _PREFIX.pack(0) + encode_message(key, 0)


def decode_transaction_key(buffer: Buffer) -> TransactionLogKey | None:
    """None for an unknown kind. Raises ProtocolError for cut and for trailing bytes."""
    return None if _prefix(buffer) else _decode_whole(TransactionLogKey, 0, buffer, _PREFIX.size)


def _prefix(buffer: Buffer) -> int:
    if len(buffer) < _PREFIX.size:
        raise ProtocolError("record cut before its kind")
    kind: int = _PREFIX.unpack_from(buffer)[0]
    return kind


def _decode_whole(cls: type[ValueType], version: int, buffer: Buffer, position: int) -> ValueType:
    record, end = decode_message(cls, version, buffer, position)
    if end != len(buffer):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes left over")
    return record
