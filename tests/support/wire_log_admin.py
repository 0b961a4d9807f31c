"""Requests about a partition's log for a RawConnection."""

from __future__ import annotations

import time

from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.wire import RawConnection

WAIT_S = 60


def delete(
    raw: RawConnection, topic: str, *offsets: tuple[int, int], version: int = 2, timeout_ms: int = 10_000
) -> dict[int, tuple[int, int]]:
    """By partition: (error code, low watermark)."""
    partitions = tuple(DeleteRecordsPartition(index, offset) for index, offset in offsets)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(topic, partitions),), timeout_ms=timeout_ms)
    (answer,) = raw.ask(request, version).topics
    return {result.partition_index: (result.error_code, result.low_watermark) for result in answer.partitions}


def wait_for_leader(raw: RawConnection, topic: str, partition: int = 0) -> None:
    """Apache Kafka's partitions of a new topic have a leader a moment after its creation."""
    end = time.monotonic() + WAIT_S
    while code := fetch_error(raw, topic, 0, partition):
        assert time.monotonic() < end, f"{topic}-{partition} still answers {code}"


def fetch_error(raw: RawConnection, topic: str, offset: int, partition: int = 0) -> int:
    asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1_000)
    request = FetchRequest(topics=(FetchTopic(topic=topic, partitions=(asked,)),), max_bytes=1_000)
    return int(raw.ask(request, 11).responses[0].partitions[0].error_code)
