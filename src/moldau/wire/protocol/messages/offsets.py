"""OffsetCommit and OffsetFetch: the committed offsets of a group (KIP-211, 447, 709, 848)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message, wire


class OffsetCommitRequestPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, wire("6+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, wire(nullable="0+")] = ""


class OffsetCommitRequestTopic(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("10+", ignorable=True)] = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


@message(versions="2-10", flexible="8+")
class OffsetCommitRequest(Request["OffsetCommitResponse"], frozen=True):
    """Commits offsets of a group. A simple consumer has generation -1 and no member id.

    v2-4 retention time; v6 leader epoch (KIP-320); v7 instance id (KIP-345); v9 the member epoch of KIP-848 instead of
    the generation; v10 topic ids.
    """

    group_id: str = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("7+", nullable="7+")] = None
    retention_time_ms: Annotated[Int64, wire("2-4", ignorable=True)] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("10+", ignorable=True)] = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@message(versions="2-10", flexible="8+")
class OffsetCommitResponse(msgspec.Struct, frozen=True):
    """v3 throttle time; v10 topic ids."""

    throttle_time_ms: Annotated[Int32, wire("3+", ignorable=True)] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


class OffsetFetchRequestTopic(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-7")] = ""
    partition_indexes: Annotated[tuple[Int32, ...], wire("0-7")] = ()


class OffsetFetchRequestTopics(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("10+", ignorable=True)] = ZERO_UUID
    partition_indexes: Annotated[tuple[Int32, ...], wire("8+")] = ()


class OffsetFetchRequestGroup(msgspec.Struct, frozen=True):
    group_id: Annotated[str, wire("8+")] = ""
    member_id: Annotated[str | None, wire("9+", nullable="9+", ignorable=True)] = None
    member_epoch: Annotated[Int32, wire("9+", ignorable=True)] = -1
    topics: Annotated[tuple[OffsetFetchRequestTopics, ...] | None, wire("8+", nullable="8+")] = ()


@message(versions="1-10", flexible="6+")
class OffsetFetchRequest(Request["OffsetFetchResponse"], frozen=True):
    """Reads the committed offsets of a group. Null topics (v2+): all of them.

    v7 wait for open transactions (KIP-447); v8 several groups (KIP-709); v9 member id and epoch (KIP-848); v10 topic
    ids.
    """

    group_id: Annotated[str, wire("0-7")] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, wire("0-7", nullable="2-7")] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], wire("8+")] = ()
    require_stable: Annotated[bool, wire("7+")] = False


class OffsetFetchResponsePartition(msgspec.Struct, frozen=True):
    partition_index: Annotated[Int32, wire("0-7")] = 0
    committed_offset: Annotated[Int64, wire("0-7")] = 0
    committed_leader_epoch: Annotated[Int32, wire("5-7", ignorable=True)] = -1
    metadata: Annotated[str | None, wire("0-7", nullable="0-7")] = ""
    error_code: Annotated[Int16, wire("0-7")] = 0


class OffsetFetchResponseTopic(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("0-7")] = ""
    partitions: Annotated[tuple[OffsetFetchResponsePartition, ...], wire("0-7")] = ()


class OffsetFetchResponsePartitions(msgspec.Struct, frozen=True):
    partition_index: Annotated[Int32, wire("8+")] = 0
    committed_offset: Annotated[Int64, wire("8+")] = 0
    committed_leader_epoch: Annotated[Int32, wire("8+", ignorable=True)] = -1
    metadata: Annotated[str | None, wire("8+", nullable="8+")] = ""
    error_code: Annotated[Int16, wire("8+")] = 0


class OffsetFetchResponseTopics(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, wire("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[OffsetFetchResponsePartitions, ...], wire("8+")] = ()


class OffsetFetchResponseGroup(msgspec.Struct, frozen=True):
    group_id: Annotated[str, wire("8+")] = ""
    topics: Annotated[tuple[OffsetFetchResponseTopics, ...], wire("8+")] = ()
    error_code: Annotated[Int16, wire("8+")] = 0


@message(versions="1-10", flexible="6+")
class OffsetFetchResponse(msgspec.Struct, frozen=True):
    """-1 for no commit. v2 top-level error; v3 throttle time; v5 leader epoch; v8 an entry for each group."""

    throttle_time_ms: Annotated[Int32, wire("3+", ignorable=True)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], wire("0-7")] = ()
    error_code: Annotated[Int16, wire("2-7", ignorable=True)] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], wire("8+")] = ()
