"""The records of `__consumer_offsets` for classic groups.

Records of newer kinds of groups (KIP-848, 932, 1071) are recognised by their keys and otherwise ignored.
"""

from __future__ import annotations

import msgspec

from moldau.core.groups.classic.group import Group, Member
from moldau.errors import InvariantError, ProtocolError
from moldau.types import Buffer
from moldau.wire.protocol.messages.group_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    StreamsGroupMetadataKey,
)
from moldau.wire.protocol.record_codec import (
    GROUP_KEYS,
    decode_group_key,
    decode_record_value,
    encode_group_key,
    encode_record_value,
)

GROUP_METADATA_VERSION = 3
"""Kafka 4.3 writes v3, because older brokers cannot read the flexible v4 (KIP-915)."""


class OffsetRecord(msgspec.Struct, frozen=True):
    """A committed offset, or its tombstone (`value` None). `version`: of the value."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None
    version: int = 3


class GroupMetadataRecord(msgspec.Struct, frozen=True):
    """The generation and members of a group, or its tombstone."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None
    version: int = GROUP_METADATA_VERSION


class OtherKindRecord(msgspec.Struct, frozen=True):
    """A group of another kind: `kind` is "consumer", "share" or "streams"."""

    group_id: str
    kind: str
    is_tombstone: bool


GroupRecord = OffsetRecord | GroupMetadataRecord | OtherKindRecord


def encode_group_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value in the log. A tombstone has no value."""
    if isinstance(record, OtherKindRecord):
        raise InvariantError("records of other kinds of groups are not written")
    value = None if record.value is None else encode_record_value(record.value, record.version)
    return encode_group_key(record.key), value


def decode_group_record(key: Buffer | None, value: Buffer | None) -> GroupRecord | None:
    """The record. None if it is not about classic groups. Raises ProtocolError for malformed bytes.

    Unknown kinds of keys are ignored, as in Kafka after a downgrade (KIP-915).
    """
    if key is None or len(key) < 2:
        raise ProtocolError("a record of __consumer_offsets has no key")
    if int.from_bytes(key[:2], "big", signed=True) not in GROUP_KEYS:
        return None
    decoded = decode_group_key(key)
    if isinstance(decoded, LegacyOffsetCommitKey):
        decoded = OffsetCommitKey(group=decoded.group, topic=decoded.topic, partition=decoded.partition)
    if isinstance(decoded, OffsetCommitKey):
        if value is None:
            return OffsetRecord(decoded, None)
        offset, version = decode_record_value(OffsetCommitValue, value)
        return OffsetRecord(decoded, offset, version)
    if isinstance(decoded, GroupMetadataKey):
        if value is None:
            return GroupMetadataRecord(decoded, None)
        metadata, version = decode_record_value(GroupMetadataValue, value)
        return GroupMetadataRecord(decoded, metadata, version)
    if isinstance(decoded, ConsumerGroupMetadataKey):
        return OtherKindRecord(decoded.group_id, "consumer", value is None)
    if isinstance(decoded, ShareGroupMetadataKey):
        return OtherKindRecord(decoded.group_id, "share", value is None)
    if isinstance(decoded, StreamsGroupMetadataKey):
        return OtherKindRecord(decoded.group_id, "streams", value is None)
    return None


def group_metadata_record(
    group: Group, members: tuple[Member, ...], leader_id: str | None, assignments: dict[str, bytes]
) -> GroupMetadataRecord:
    """The group's generation with `members`. `assignments`: by member id; a missing one is empty."""
    return GroupMetadataRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=leader_id,
            current_state_timestamp=group.state_timestamp_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name or ""),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in members
            ),
        ),
    )


def empty_group_record(group: Group) -> GroupMetadataRecord:
    """The record of a group without members."""
    return group_metadata_record(group, (), None, {})


def new_group_record(group: Group) -> GroupMetadataRecord:
    """The record of a new group, before its first member has joined."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms)
    return GroupMetadataRecord(GroupMetadataKey(group=group.group_id), value)
