"""Log directories: their content, and moves of replicas to another one (KIP-113, 827, 1066)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message, wire


class AlterReplicaLogDirTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[Int32, ...] = ()


class AlterReplicaLogDir(msgspec.Struct, frozen=True):
    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


@message(versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"], frozen=True):
    """Moves replicas of this broker to other log directories."""

    dirs: tuple[AlterReplicaLogDir, ...] = ()


class AlterReplicaLogDirPartitionResult(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


@message(versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(msgspec.Struct, frozen=True):
    """One result for each partition. 0: the move has begun."""

    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


class DescribableLogDirTopic(msgspec.Struct, frozen=True):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@message(versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"], frozen=True):
    """Null `topics`: all partitions."""

    topics: Annotated[tuple[DescribableLogDirTopic, ...] | None, wire(nullable="0+")] = ()


class DescribeLogDirsPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, wire("4+", ignorable=True)] = -1
    usable_bytes: Annotated[Int64, wire("4+", ignorable=True)] = -1
    is_cordoned: Annotated[bool, wire("5+", ignorable=True)] = False


@message(versions="1-5", flexible="2+")
class DescribeLogDirsResponse(msgspec.Struct, frozen=True):
    """Sizes in bytes. v3 error of the request; v4 total and usable bytes of the volume (KIP-827); v5 cordoned
    directories (KIP-1066).
    """

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, wire("3+", ignorable=True)] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()
