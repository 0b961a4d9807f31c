"""Records of internal topics and of the metadata log as JSON, with Kafka's field names."""

from __future__ import annotations

import json
import re
from base64 import b64encode

import msgspec

from moldau.core.transactions.state import TransactionState
from moldau.errors import MoldauError
from moldau.types import Uuid, uuid_to_text
from moldau.wire.protocol import consumer_protocol
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.messages import group_records, raft_records, share_records
from moldau.wire.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from moldau.wire.protocol.record_codec import (
    GROUP_KEYS,
    decode_group_key,
    decode_metadata_record,
    decode_record_value,
)
from moldau.wire.protocol.schema import UUID, Array, FieldType, fields_of, message_info
from moldau.wire.records.control import ControlType, decode_control_key, decode_end_transaction_marker

# a whole escape at a time: the character after an escaped backslash is text
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_RAFT_RECORDS: dict[ControlType, tuple[str, type[msgspec.Struct]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", raft_records.LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", raft_records.SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", raft_records.SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", raft_records.KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", raft_records.VotersRecord),
}
_GROUP_VALUES: dict[str, type[msgspec.Struct]] = {
    "LegacyOffsetCommitKey": group_records.OffsetCommitValue,
    "OffsetCommitKey": group_records.OffsetCommitValue,
    "GroupMetadataKey": group_records.GroupMetadataValue,
}
_SHARE_RECORDS: dict[int, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    0: (share_records.ShareSnapshotKey, share_records.ShareSnapshotValue),
    1: (share_records.ShareUpdateKey, share_records.ShareUpdateValue),
}


def control_record(key: bytes | None, value: bytes | None) -> str:
    """The content of a control record."""
    kind = decode_control_key(key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = decode_end_transaction_marker(key, value)
        verdict = "COMMIT" if marker.is_commit else "ABORT"
        return f"endTxnMarker: {verdict} coordinatorEpoch: {marker.coordinator_epoch}"
    if kind is None or kind not in _RAFT_RECORDS or value is None:
        return f"controlType: {kind}"
    name, cls = _RAFT_RECORDS[kind]
    version = int.from_bytes(value[:2], "big")
    message, _ = decode_message(cls, version, value)
    document = as_json(message, version)
    return f"{name} {json_text({'version': version, **{k: v for k, v in document.items() if k != 'version'}})}"


def kind_of(key: bytes) -> int:
    """The kind of a coordinator's record: the first number of its key. Raises ValueError for a truncated key."""
    if len(key) < 2:
        raise ValueError("the key is cut before its kind")
    return int.from_bytes(key[:2], "big", signed=True)


def offsets_record(key: bytes, value: bytes | None) -> tuple[str, str]:
    """Key and payload of a record of `__consumer_offsets` whose kind is one of OFFSETS_KINDS."""
    decoded = decode_group_key(key)
    kind = message_info(type(decoded)).api_key
    key_text = json_text({"type": str(kind), "data": as_json(decoded, 0)})
    if value is None:
        return key_text, "<DELETE>"
    cls = _GROUP_VALUES.get(type(decoded).__name__)
    if cls is None:
        return key_text, f"{len(value)} bytes of a kind that is not decoded here"
    message, version = decode_record_value(cls, value)
    document = as_json(message, version)
    if isinstance(message, group_records.GroupMetadataValue) and message.protocol_type == "consumer":
        document["members"] = [
            _with_protocol(as_json(member, version), member.subscription, member.assignment)
            for member in message.members
        ]
    return key_text, json_text({"version": str(version), "data": document})


def _with_protocol(member: dict[str, object], subscription: bytes, assignment: bytes) -> dict[str, object]:
    """Decodes the subscription and the assignment of a consumer group's member, if they are readable."""
    try:
        member["subscription"] = consumer_protocol.subscription(subscription)
        member["assignment"] = consumer_protocol.assignment(assignment)
    except ValueError:
        pass
    return member


OFFSETS_KINDS = frozenset(GROUP_KEYS)


def transaction_record(key: bytes, value: bytes | None) -> tuple[str, str]:
    """Key and payload of a record of `__transaction_state` whose kind is one of TRANSACTION_KINDS."""
    decoded, kind = decode_record_value(TransactionLogKey, key)
    key_text = json_text({"type": str(kind), "data": as_json(decoded, 0)})
    if value is None:
        return key_text, "<DELETE>"
    message, version = decode_record_value(TransactionLogValue, value)
    return key_text, json_text({"version": str(version), "data": as_json(message, version)})


TRANSACTION_KINDS = frozenset((0,))


def share_record(key: bytes, value: bytes | None) -> tuple[str, str]:
    """Key and payload of a record of `__share_group_state` whose kind is one of SHARE_KINDS."""
    kind = kind_of(key)
    key_class, value_class = _SHARE_RECORDS[kind]
    # the first number of a key is its kind: keys have only one version
    decoded, _ = decode_record_value(key_class, bytes(2) + key[2:])
    key_text = json_text({"type": str(kind), "data": as_json(decoded, 0)})
    if value is None:
        return key_text, "<DELETE>"
    message, version = decode_record_value(value_class, value)
    return key_text, json_text({"version": str(version), "data": as_json(message, version)})


SHARE_KINDS = frozenset(_SHARE_RECORDS)


def metadata_record(value: bytes) -> str:
    """The payload of a record of the metadata log."""
    message, version = decode_metadata_record(value)
    name = "".join(f"_{letter}" if letter.isupper() else letter for letter in type(message).__name__).lstrip("_")
    return json_text({"type": name.upper(), "version": version, "data": as_json(message, version)})


def as_json(message: msgspec.Struct, version: int) -> dict[str, object]:
    """The fields of a version in wire order; tagged fields only if they differ from their default."""
    found: dict[str, object] = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.is_present(version) or (field.is_tagged(version) and value == field.default):
            continue
        found[_camel(field.name)] = _value(value, field.type, version)
    if isinstance(message, TransactionLogValue):
        found["transactionStatus"] = _state_label(message.transaction_status)
    return found


def _state_label(state: int) -> str | int:
    try:
        return TransactionState(state).label
    except ValueError:
        return state


def _value(value: object, kind: FieldType, version: int) -> object:
    if isinstance(value, msgspec.Struct):
        return as_json(value, version)
    if isinstance(kind, Array) and isinstance(value, tuple):
        return [_value(item, kind.element, version) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return uuid_to_text(Uuid(bytes(value))) if kind == UUID else b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.replace("kraft", "k_raft").split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_text(document: object) -> str:
    """JSON as Jackson writes it: escapes of control characters have capital hex digits, unlike Python's."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(lambda found: found[0][:2] + found[0][2:].upper(), text)


DECODE_ERRORS = (MoldauError, ValueError)
"""Errors that the decoders raise for a record of an unexpected kind."""
