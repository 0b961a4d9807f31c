"""OffsetForLeaderEpoch: the end offset of a leader epoch (KIP-101, 279, 320)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message, wire


class OffsetForLeaderPartition(msgspec.Struct, frozen=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(msgspec.Struct, frozen=True):
    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


@message(versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"], frozen=True):
    """`replica_id` -1: a consumer. v2 current leader epoch, for fencing; v3 replica id."""

    replica_id: Annotated[Int32, wire("3+", ignorable=True)] = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EpochEndOffset(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(msgspec.Struct, frozen=True):
    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


@message(versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(msgspec.Struct, frozen=True):
    """The largest known epoch that is not above the requested one, and its end offset (exclusive). -1, -1: unknown."""

    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
