"""A transaction that Apache Kafka left open: readers of committed records see no record from its begin on (KIP-98)."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.records.builder import build_batch

pytestmark = pytest.mark.asyncio

LATEST = -1
NOW_MS = 1_800_000_000_000


async def look(client: Any, isolation_level: int, offset: int = 0) -> tuple[int, int, int]:
    """(bytes read, high watermark, last stable offset)"""
    topics = (FetchTopic(topic="t", partitions=(FetchPartition(0, -1, offset, partition_max_bytes=1 << 20),)),)
    request = FetchRequest(max_wait_ms=0, isolation_level=isolation_level, topics=topics)
    answer = await client.ask(ApiKey.FETCH, 11, request)
    [partition] = answer.responses[0].partitions
    assert partition.error_code == 0
    return len(partition.records or b""), partition.high_watermark, partition.last_stable_offset


async def found(client: Any, isolation_level: int, timestamp: int) -> int:
    topics = (ListOffsetsTopic("t", (ListOffsetsPartition(0, -1, timestamp),)),)
    answer = await client.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, isolation_level, topics))
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def test_readers_of_committed_records_end_before_an_open_transaction(start_node: Any, caplog: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await first.create_topic("t")
    first.node.abort()
    file = disk.open("t-0/00000000000000000000.log")
    plain = build_batch([(None, b"v", NOW_MS, ()) for _ in range(2)])
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    undecided = build_batch([(None, b"undecided", NOW_MS + 10, ())], base_offset=2, **fields)
    file.append(bytes(plain) + bytes(undecided) + bytes(build_batch([(None, b"v", NOW_MS + 20, ())], base_offset=3)))
    caplog.set_level("INFO", "moldau")
    client = (await start_node(disk=disk)).connect()

    assert "a transaction is open in 1 partition, first in t-0 at offset 2" in caplog.text
    assert await look(client, 1) == (len(plain), 4, 2)
    assert await look(client, 1, 2) == (0, 4, 2)
    assert (await look(client, 0))[0] == file.size()
    assert [await found(client, level, LATEST) for level in (0, 1)] == [4, 2]
    assert [await found(client, level, NOW_MS + 5) for level in (0, 1)] == [2, -1]
    assert [await found(client, level, NOW_MS) for level in (0, 1)] == [0, 0]

    deleting = DeleteRecordsRequest((DeleteRecordsTopic("t", (DeleteRecordsPartition(0, 3),)),), 1000)
    await client.ask(ApiKey.DELETE_RECORDS, 2, deleting)
    assert (await look(client, 1, 3))[1:] == (4, 3), "what was deleted holds nobody up; what comes after is not decided"


async def test_of_a_batch_that_does_not_fit_no_transactions_are_told(node: Any) -> None:
    """Null as in Apache Kafka, not an empty list: no record of that partition was read."""
    await node.create_topic("t", 2)
    for index in (0, 1):
        node.node.broker.partitions.find("t", index).append(bytearray(build_batch([(None, b"v", NOW_MS, ())])), NOW_MS)
    partitions = tuple(FetchPartition(index, -1, 0, partition_max_bytes=1) for index in (0, 1))
    request = FetchRequest(max_wait_ms=0, isolation_level=1, topics=(FetchTopic(topic="t", partitions=partitions),))
    [topic] = (await node.connect().ask(ApiKey.FETCH, 11, request)).responses
    assert [bool(partition.records) for partition in topic.partitions] == [True, False]
    assert [partition.aborted_transactions for partition in topic.partitions] == [(), None]
