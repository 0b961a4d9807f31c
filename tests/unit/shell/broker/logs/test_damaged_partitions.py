"""A partition with damaged files: its readers get an error, other partitions of the request their records."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from moldau.core.groups.group_partitions import partition_for_group
from moldau.errors import kafka_error
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import ListGroupsRequest
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
)
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import ListTransactionsRequest
from moldau.wire.records.builder import build_batch
from tests.support.node import offset_commit, produce

pytestmark = pytest.mark.asyncio

NOW_MS = 1_800_000_000_000
CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR = 2, 56
OFFLINE = "__consumer_offsets-0/00000000000000000000.log"


def fetch(*places: tuple[int, int], isolation_level: int = 0) -> FetchRequest:
    partitions = tuple(
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index, offset in places
    )
    return FetchRequest(
        topics=(FetchTopic(topic="t", partitions=partitions),),
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
    )


async def node_with_records(start_node: Any, disk: MemoryDisk) -> Any:
    """Three partitions of three segments of four batches each, after a clean stop and a start."""
    node = await start_node(disk=disk)
    await node.create_topic("t", 3, index_interval_bytes="0")
    client = node.connect()
    for number in range(12):
        for partition in range(3):
            if number in (4, 8):
                node.node.broker.partitions.find("t", partition).log.roll(NOW_MS)
            answer = await client.ask(ApiKey.PRODUCE, 9, produce(b"%03d" % number * 60, partition=partition))
            assert answer.responses[0].partition_responses[0].error_code == 0
    await node.node.stop()
    return node


def damage_length(disk: MemoryDisk, path: str, length: int) -> None:
    """The length of the second batch."""
    file = disk.open(path)
    data = file.read(0, 1 << 20)
    begin = 12 + struct.unpack_from(">i", data, 8)[0]
    file.write_at(begin + 8, struct.pack(">i", length))
    file.close()


def codes_of(answer: Any) -> dict[int, int]:
    return {part.partition_index: part.error_code for part in answer.responses[0].partitions}


@pytest.mark.parametrize("length", [-12, -1, 1 << 30])
async def test_a_damaged_batch_fails_its_partition_alone_and_is_logged_once(
    start_node: Any, caplog: Any, length: int
) -> None:
    disk = MemoryDisk()
    await node_with_records(start_node, disk)
    path = "t-1/00000000000000000000.log"
    damage_length(disk, path, length)
    node = await start_node(disk=disk)
    client = node.connect()
    for _ in range(3):
        answer = await client.ask(ApiKey.FETCH, 12, fetch((0, 1), (1, 1), (2, 1)))
        assert codes_of(answer) == {0: 0, 1: CORRUPT_MESSAGE, 2: 0}
        assert [bool(part.records) for part in answer.responses[0].partitions] == [True, False, True]
    for offset in (0, 2, 3, 4, 11):
        answer = await client.ask(ApiKey.FETCH, 12, fetch((1, offset), isolation_level=1))
        assert codes_of(answer) == {1: 0}
        assert answer.responses[0].partitions[0].records
    asked = tuple(ListOffsetsPartition(index, timestamp=NOW_MS + 1) for index in range(3))
    answer = await client.ask(
        ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(topics=(ListOffsetsTopic("t", partitions=asked),))
    )
    assert all(part.error_code in (0, CORRUPT_MESSAGE) for part in answer.topics[0].partitions)
    assert caplog.text.count(f"/disk0/{path}: ") == 1


async def test_a_file_that_cannot_be_read_takes_its_log_directory_offline(start_node: Any) -> None:
    disk = MemoryDisk()
    await node_with_records(start_node, disk)
    node = await start_node(disk=disk)
    client = node.connect()
    disk.fail(Fault("read_cached", "io", "t-1/00000000000000000000.log"))
    answer = await client.ask(ApiKey.FETCH, 12, fetch((0, 1), (1, 1)))
    assert codes_of(answer)[1] == KAFKA_STORAGE_ERROR
    assert node.node.broker.partitions.logs.first.health.is_offline


async def test_a_damaged_log_of_groups_stops_its_shard_once_and_names_the_place(start_node: Any, caplog: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
    log = node.node.broker.partitions.find("__consumer_offsets", 0)
    for number in range(12):
        log.append(bytearray(build_batch([(b"\x00\x01\x00", b"%03d" % number * 60, NOW_MS, ())])), NOW_MS)
        if number == 6:
            log.log.roll(NOW_MS)
    await node.node.stop()
    path = "__consumer_offsets-0/00000000000000000000.log"
    damage_length(disk, path, -12)
    node = await start_node(disk=disk)
    client = node.connect()
    for _ in range(3):
        answer = await client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id="g", topics=None))
        assert answer.error_code == 15
    assert caplog.text.count("__consumer_offsets-0 cannot be loaded, its groups are not served") == 1
    assert path in caplog.text


@pytest.mark.parametrize(
    "faults",
    [[Fault("read_cached", "io", OFFLINE)], [Fault("read_cached", "cold", OFFLINE), Fault("read", "io", OFFLINE)]],
    ids=["cached", "cold"],
)
async def test_a_device_that_fails_while_groups_are_loaded_takes_its_directory_offline(
    start_node: Any, faults: list[Fault]
) -> None:
    """Otherwise no other broker would coordinate them."""
    disks = MemoryDisk(), MemoryDisk()
    settings = {"offsets.topic.num.partitions": "2"}
    node = await start_node(settings, disk=disks[0], further_disks=(disks[1],))
    await node.create_topic("t")
    client = node.connect()
    here, lost = (next(name for name in "abcdefgh" if partition_for_group(name, 2) == index) for index in (1, 0))
    for group in (here, lost):
        await client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(group))
        topics = (OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(0, 5),)),)
        await client.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=group, topics=topics))
    assert disks[1].exists(OFFLINE)
    node.node.broker.coordination.groups.close(kafka_error("NOT_COORDINATOR"))
    for fault in faults:
        disks[1].fail(msgspec.structs.replace(fault, times=1))
    answer = await client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=lost, topics=None))
    assert answer.error_code == 16
    assert node.node.broker.partitions.find("__consumer_offsets", 0).is_offline
    groups = await client.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    assert (groups.error_code, [group.group_id for group in groups.groups]) == (0, [here])


async def test_what_other_coordinators_hold_is_listed_beside_one_whose_log_is_damaged(start_node: Any) -> None:
    """Like Apache Kafka, which lists the loaded ones."""
    disk = MemoryDisk()
    settings = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
    node = await start_node(settings, disk=disk)
    client = node.connect()
    name = next(name for name in "abcdefgh" if partition_for_group(name, 2) == 1)
    for kind in (0, 1):
        await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(name, key_type=kind))
    begin = InitProducerIdRequest(name, transaction_timeout_ms=1_000)
    assert (await client.ask(ApiKey.INIT_PRODUCER_ID, 4, begin)).error_code == 0
    await node.create_topic("t")
    await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(5, group=name))
    for topic in ("__consumer_offsets", "__transaction_state"):
        log = node.node.broker.partitions.find(topic, 0)
        log.append(bytearray(build_batch([(b"\x00\x00\x00", b"", NOW_MS, ())])), NOW_MS)
    await node.node.stop()
    client = (await start_node(settings, disk=disk)).connect()
    damaged = next(name for name in "abcdefgh" if partition_for_group(name, 2) == 0)
    answer = await client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=damaged, topics=None))
    assert answer.error_code == 15
    groups = await client.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    assert (groups.error_code, [group.group_id for group in groups.groups]) == (0, [name])
    answer = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(damaged, transaction_timeout_ms=1_000))
    assert answer.error_code == 15
    transactions = await client.ask(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    assert transactions.error_code == 0
    assert [one.transactional_id for one in transactions.transaction_states] == [name]
