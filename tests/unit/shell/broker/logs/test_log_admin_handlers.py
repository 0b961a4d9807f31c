"""DeleteRecords, OffsetForLeaderEpoch, DescribeProducers on a node whose ports the test holds."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.broker.handlers.producers import MAX_PRODUCERS_PER_RESPONSE
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from tests.support.node import NOW_MS, change, produce, result_of

pytestmark = pytest.mark.asyncio


async def append(client: Any, count: int, **batch: Any) -> int:
    result = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(*[b"v"] * count, **batch)))
    assert result.error_code == 0
    return int(result.base_offset)


async def delete(client: Any, *offsets: tuple[int, int], version: int = 2) -> list[tuple[int, int, int]]:
    """(partition, low watermark, error code) of each."""
    partitions = tuple(DeleteRecordsPartition(index, offset) for index, offset in offsets)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic("t", partitions),), timeout_ms=1_000)
    answer = await client.ask(ApiKey.DELETE_RECORDS, version, request)
    (topic,) = answer.topics
    return [(result.partition_index, result.low_watermark, result.error_code) for result in topic.partitions]


async def epoch_end(client: Any, epoch: int, current: int = -1) -> tuple[int, int, int]:
    topic = OffsetForLeaderTopic("t", (OffsetForLeaderPartition(0, current, epoch),))
    answer = await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(-1, (topic,)))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


async def test_deleted_records_stay_deleted_after_a_crash_and_after_a_clean_stop(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    await append(client, 5)
    assert await delete(client, (0, 3)) == [(0, 3, 0)]
    node.node.abort()

    node = await start_node(disk=disk)
    assert node.node.broker.partitions.find("t", 0).log.log_start_offset == 3
    assert await delete(node.connect(), (0, -1)) == [(0, 5, 0)]
    await node.node.stop()

    node = await start_node(disk=disk)
    log = node.node.broker.partitions.find("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert await append(node.connect(), 1) == 5


async def test_a_start_that_is_told_is_on_the_disk_even_if_another_request_moved_it(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    await append(client, 5)
    assert node.node.broker.partitions.find("t", 0).log.advance_log_start_offset(3)  # it is not saved yet
    assert await delete(client, (0, 1)) == [(0, 3, 0)]
    node.node.abort()

    node = await start_node(disk=disk)
    assert node.node.broker.partitions.find("t", 0).log.log_start_offset == 3


async def test_a_reported_log_start_is_on_the_disk_despite_an_earlier_lack_of_room(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    await append(client, 5)
    disk.fail(Fault("write", error="full", path_contains="leader-epoch-checkpoint", times=1))
    assert await delete(client, (0, 3)) == [(0, 3, 0)]
    node.node.abort()

    node = await start_node(disk=disk)
    assert node.node.broker.partitions.find("t", 0).log.log_start_offset == 3


@pytest.mark.parametrize("seed", range(8))
async def test_a_deleted_start_survives_the_loss_of_the_records_behind_it(start_node: Any, seed: int) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    await append(client, 5)
    await delete(client, (0, 4))
    node.node.abort()
    disk.crash_machine(SeededRandom(seed))

    node = await start_node(disk=disk)
    log = node.node.broker.partitions.find("t", 0).log
    assert log.log_start_offset == 4
    assert log.log_end_offset >= 4


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_partition_that_stands_twice_counts_once_with_its_last_offset(
    node: Any, client: Any, version: int
) -> None:
    await node.create_topic("t", 2)
    await append(client, 4)
    assert await delete(client, (0, 1), (1, 0), (0, 2), (7, 0), version=version) == [(0, 2, 0), (1, 0, 0), (7, -1, 3)]


async def test_what_is_deleted_cannot_be_undeleted(node: Any, client: Any) -> None:
    await node.create_topic("t")
    await append(client, 4)
    assert await delete(client, (0, 3)) == [(0, 3, 0)]
    assert await delete(client, (0, 1)) == [(0, 3, 0)]
    assert await delete(client, (0, 5)) == [(0, -1, 1)]
    assert await delete(client, (0, -2)) == [(0, -1, 1)]


async def test_an_epoch_ends_where_the_log_ends_until_another_begins(node: Any, client: Any) -> None:
    await node.create_topic("t")
    change(node, leader_epoch=2)
    assert await epoch_end(client, 2) == (0, 2, 0)
    assert await epoch_end(client, 0) == (0, 0, 0)
    await append(client, 3)
    change(node, leader_epoch=5)
    assert await epoch_end(client, 2) == (0, 2, 3)
    assert await epoch_end(client, 4) == (0, 2, 3)
    assert await epoch_end(client, 5) == (0, 5, 3)
    assert await epoch_end(client, 6) == (0, -1, -1)
    await append(client, 1)
    assert await epoch_end(client, 2) == (0, 2, 3)
    assert await epoch_end(client, 5) == (0, 5, 4)
    assert await epoch_end(client, 5, current=5) == (0, 5, 4)
    assert await epoch_end(client, 5, current=4) == (74, -1, -1)
    assert await epoch_end(client, 5, current=6) == (75, -1, -1)


async def test_producers_are_told_with_their_last_sequence(node: Any, client: Any) -> None:
    await node.create_topic("t")
    await append(client, 1, producer_id=40, producer_epoch=1, base_sequence=0)
    await append(client, 2, producer_id=40, producer_epoch=1, base_sequence=1)
    request = DescribeProducersRequest((DescribeProducersTopic("t", (0, 9)), DescribeProducersTopic("a/b", (0,))))
    answer = await client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    known, unknown = answer.topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (40, 1, 2)
    assert (producer.last_timestamp, producer.coordinator_epoch) == (NOW_MS, -1)
    assert producer.current_txn_start_offset == -1
    assert unknown.error_code == 3
    assert answer.topics[1].partitions[0].error_code == 17


async def test_a_partition_named_again_and_again_does_not_make_a_response_without_end(start_node: Any) -> None:
    producers = 500
    node = await start_node()
    await node.create_topic("t")
    client = node.connect()
    for producer_id in range(producers):
        await append(client, 1, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    times = MAX_PRODUCERS_PER_RESPONSE // producers
    request = DescribeProducersRequest((DescribeProducersTopic("t", (0,) * (times + 2)),))
    client.send(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    while not (answers := client.answers()):
        await node.turns(1)
    told = [(each.error_code, len(each.active_producers)) for each in answers[0].topics[0].partitions]
    assert told == [(0, producers)] * times + [(44, 0)] * 2
