"""ListOffsets: the offset of a timestamp or of an end of the log (KIP-79, 405)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, Request, message, wire


class ListOffsetsPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, wire("4+", ignorable=True)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


@message(versions="1-11", flexible="6+")
class ListOffsetsRequest(Request["ListOffsetsResponse"], frozen=True):
    """`timestamp`: milliseconds, or -1 latest, -2 earliest, -3 (v7+) of the largest timestamp, -4 (v8+) earliest
    local, -5 (v9+) latest tiered, -6 (v11+) earliest still to be tiered.

    v2 isolation level; v4 leader epoch (KIP-320); v7 KIP-734; v8 and v9 KIP-405, 1005; v10 how long to wait for
    tiered storage (KIP-1075); v11 KIP-1023.
    """

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, wire("2+")] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, wire("10+", ignorable=True)] = 0


class ListOffsetsPartitionResponse(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, wire("4+")] = -1


class ListOffsetsTopicResponse(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


@message(versions="1-11", flexible="6+")
class ListOffsetsResponse(msgspec.Struct, frozen=True):
    """The first offset at or after the timestamp, or -1. v1 one offset and its timestamp; v2 throttle time; v4
    leader epoch.
    """

    throttle_time_ms: Annotated[Int32, wire("2+", ignorable=True)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
