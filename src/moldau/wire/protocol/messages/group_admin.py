"""DeleteGroups and OffsetDelete (KIP-229, 496)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Request, message, wire


@message(versions="0-3", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"], frozen=True):
    """Only groups without members."""

    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(msgspec.Struct, frozen=True):
    group_id: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire("3+", nullable="3+", ignorable=True)] = None


@message(versions="0-3", flexible="2+")
class DeleteGroupsResponse(msgspec.Struct, frozen=True):
    """One result for each group. v3 error message."""

    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


class OffsetDeleteRequestPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


@message(versions="0", flexible="none")
class OffsetDeleteRequest(Request["OffsetDeleteResponse"], frozen=True):
    """Only for topics without a subscribed member."""

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


@message(versions="0", flexible="none")
class OffsetDeleteResponse(msgspec.Struct, frozen=True):
    """An `error_code` other than 0 counts for all partitions."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
