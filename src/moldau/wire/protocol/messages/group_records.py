"""The records of `__consumer_offsets`: all keys, and the values of classic groups and offsets.

A key begins with the number of its kind, in the place of the version of other messages (`record_codec`). Kinds of
unsupported groups are declared by key only, to recognise them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int32, Int64, message, wire


@message(versions="0", api_key=0)
class LegacyOffsetCommitKey(msgspec.Struct, frozen=True):
    """A committed offset, with the key of Kafka before 0.9.1."""

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@message(versions="0", api_key=1)
class OffsetCommitKey(msgspec.Struct, frozen=True):
    """A committed offset."""

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@message(versions="0", api_key=2)
class GroupMetadataKey(msgspec.Struct, frozen=True):
    """A classic group."""

    group: str = ""


@message(versions="0", api_key=4)
class ConsumerGroupPartitionMetadataKey(msgspec.Struct, frozen=True):
    """The partition counts a consumer group subscribed to; no longer written."""

    group_id: str = ""


@message(versions="0", api_key=3)
class ConsumerGroupMetadataKey(msgspec.Struct, frozen=True):
    """A consumer group's epoch (KIP-848)."""

    group_id: str = ""


@message(versions="0", api_key=5)
class ConsumerGroupMemberMetadataKey(msgspec.Struct, frozen=True):
    """A member of a consumer group."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=6)
class ConsumerGroupTargetAssignmentMetadataKey(msgspec.Struct, frozen=True):
    """The epoch of a consumer group's target assignment."""

    group_id: str = ""


@message(versions="0", api_key=7)
class ConsumerGroupTargetAssignmentMemberKey(msgspec.Struct, frozen=True):
    """A member's part of the target assignment."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=8)
class ConsumerGroupCurrentMemberAssignmentKey(msgspec.Struct, frozen=True):
    """The current assignment of a member of a consumer group."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=16)
class ConsumerGroupRegularExpressionKey(msgspec.Struct, frozen=True):
    """The topics of a subscribed expression."""

    group_id: str = ""
    regular_expression: str = ""


@message(versions="0", api_key=10)
class ShareGroupMemberMetadataKey(msgspec.Struct, frozen=True):
    """A member of a share group (KIP-932)."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=11)
class ShareGroupMetadataKey(msgspec.Struct, frozen=True):
    """A share group's epoch."""

    group_id: str = ""


@message(versions="0", api_key=12)
class ShareGroupTargetAssignmentMetadataKey(msgspec.Struct, frozen=True):
    """The epoch of a share group's target assignment."""

    group_id: str = ""


@message(versions="0", api_key=13)
class ShareGroupTargetAssignmentMemberKey(msgspec.Struct, frozen=True):
    """A member's part of the target assignment."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=14)
class ShareGroupCurrentMemberAssignmentKey(msgspec.Struct, frozen=True):
    """The current assignment of a member of a share group."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=15)
class ShareGroupStatePartitionMetadataKey(msgspec.Struct, frozen=True):
    """The partitions whose share state is initialized."""

    group_id: str = ""


@message(versions="0", api_key=17)
class StreamsGroupMetadataKey(msgspec.Struct, frozen=True):
    """A streams group's epoch (KIP-1071)."""

    group_id: str = ""


@message(versions="0", api_key=19)
class StreamsGroupMemberMetadataKey(msgspec.Struct, frozen=True):
    """A member of a streams group."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=20)
class StreamsGroupTargetAssignmentMetadataKey(msgspec.Struct, frozen=True):
    """The epoch of a streams group's target assignment."""

    group_id: str = ""


@message(versions="0", api_key=21)
class StreamsGroupTargetAssignmentMemberKey(msgspec.Struct, frozen=True):
    """A member's part of the target assignment."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=22)
class StreamsGroupCurrentMemberAssignmentKey(msgspec.Struct, frozen=True):
    """The current assignment of a member of a streams group."""

    group_id: str = ""
    member_id: str = ""


@message(versions="0", api_key=23)
class StreamsGroupTopologyKey(msgspec.Struct, frozen=True):
    """A streams group's topology."""

    group_id: str = ""


@message(versions="0-4", flexible="4+", api_key=1)
class OffsetCommitValue(msgspec.Struct, frozen=True):
    """A committed offset. v1 expiry instead of retention; v2 neither (KIP-211); v3 leader epoch (KIP-320); v4 topic
    id."""

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, wire("3+", ignorable=True)] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, wire("1", ignorable=True)] = -1
    topic_id: Annotated[Uuid, wire("4+", tag=0, ignorable=True)] = ZERO_UUID


class MemberMetadata(msgspec.Struct, frozen=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("3+", nullable="3+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, wire("1+", ignorable=True)] = -1
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@message(versions="0-4", flexible="4+", api_key=2)
class GroupMetadataValue(msgspec.Struct, frozen=True):
    """A classic group and its members. An empty one has no leader and no protocol.

    v1 rebalance timeout; v2 time of the last state change (KIP-211); v3 instance ids (KIP-345); v4 flexible.
    """

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: Annotated[str | None, wire(nullable="0+")] = ""
    leader: Annotated[str | None, wire(nullable="0+")] = ""
    current_state_timestamp: Annotated[Int64, wire("2+", ignorable=True)] = -1
    members: tuple[MemberMetadata, ...] = ()
