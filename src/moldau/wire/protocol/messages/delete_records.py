"""DeleteRecords: moves the log start offset forward (KIP-107)."""

from __future__ import annotations

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, message


class DeleteRecordsPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


@message(versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request["DeleteRecordsResponse"], frozen=True):
    """`offset` -1: up to the high watermark."""

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


@message(versions="0-2", flexible="2+")
class DeleteRecordsResponse(msgspec.Struct, frozen=True):
    """`low_watermark`: the new log start offset; -1 on error."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
