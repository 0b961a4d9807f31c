"""A node with several log directories: where partitions go, what a failing one takes with it, what a start finds."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import MoldauError
from moldau.shell.io.twins.memory_disk import Fault, MemoryDisk
from moldau.shell.node.storage_format import read_meta_properties
from moldau.types import TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch

pytestmark = pytest.mark.asyncio

NOW_MS = 1_800_000_000_000


async def append(client: Any, partition: int, topic: str = "t") -> tuple[int, int]:
    records = build_batch([(None, b"v%d" % partition, NOW_MS, ())])
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(partition, records),)),)
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data)
    answer = (await client.ask(ApiKey.PRODUCE, 9, request)).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def fetch_error(client: Any, partition: int, topic: str = "t") -> int:
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(max_wait_ms=0, max_bytes=1_000, topics=(FetchTopic(topic=topic, partitions=(asked,)),))
    return int((await client.ask(ApiKey.FETCH, 11, request)).responses[0].partitions[0].error_code)


async def described(client: Any, version: int = 5) -> dict[str, tuple[int, list[tuple[str, int]], bool]]:
    """By path: error code, partitions, cordoned."""
    answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=None))
    return {
        result.log_dir: (
            result.error_code,
            [(topic.name, partition.partition_index) for topic in result.topics for partition in topic.partitions],
            result.is_cordoned,
        )
        for result in answer.results
    }


async def test_new_partitions_go_to_the_directory_with_the_fewest(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 7)
    counts = [len(partitions) for _, partitions, _ in (await described(node.connect())).values()]
    assert sorted(counts) == [2, 2, 3]
    await node.create_topic("u", 2)
    counts = [len(partitions) for _, partitions, _ in (await described(node.connect())).values()]
    assert counts == [3, 3, 3]


async def test_the_metadata_says_in_which_directory_a_partition_lies(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 4)
    await node.turns(20)
    ids = [read_meta_properties(disk).directory_id for disk in disks]
    image = node.node.broker.image
    assert sorted(ids) == list(image.brokers[1].log_directories)
    for index in range(4):
        (directory_id,) = image.topics_by_name["t"].partitions[index].directories
        assert disks[ids.index(directory_id)].exists(f"t-{index}")
        assert not disks[1 - ids.index(directory_id)].exists(f"t-{index}")


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_start_finds_each_partition_where_it_lay(start_node: Any, is_clean: bool) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 4)
    client = node.connect()
    for index in range(4):
        assert await append(client, index) == (0, 0)
    before = await described(client)
    if is_clean:
        await node.node.stop()
        assert all(disk.exists(".kafka_cleanshutdown") for disk in disks)
    else:
        node.node.abort()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    assert await described(client) == before
    assert [await append(client, index) for index in range(4)] == [(0, 1)] * 4


async def test_a_failing_directory_takes_only_its_partitions_offline(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 4)
    client = node.connect()
    lost = [index for _, index in (await described(client))["/disk1"][1]]
    kept = [index for index in range(4) if index not in lost]
    disks[1].fail(Fault("append", "io"))
    assert await append(client, lost[0]) == (56, -1)
    for index in lost:
        assert await append(client, index) == (56, -1)
        assert await fetch_error(client, index) == 56
    for index in kept:
        assert await append(client, index) == (0, 0)
        assert await fetch_error(client, index) == 0
    told = await described(client)
    assert told["/disk1"] == (56, [], False)
    assert told["/disk0"][0] == 0
    await node.create_topic("u", 2)
    assert [index for name, index in (await described(client))["/disk0"][1] if name == "u"] == [0, 1]
    await node.node.stop()
    assert disks[0].exists(".kafka_cleanshutdown")
    assert not disks[1].exists(".kafka_cleanshutdown")


@pytest.mark.parametrize("reason", ["unopened", "faulty"])
async def test_a_directory_that_is_missing_at_the_start_is_offline_and_comes_back(start_node: Any, reason: str) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 2)
    client = node.connect()
    assert [await append(client, index) for index in range(2)] == [(0, 0)] * 2
    (lost,) = [index for _, index in (await described(client))["/disk1"][1]]
    await node.turns(20)
    await node.node.stop()

    if reason == "unopened":
        node = await start_node(disk=disks[0], unopened_paths=("/disk1",))
    else:
        disks[1].fail(Fault("open", "io"))
        disks[1].fail(Fault("read", "io"))
        node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    assert await append(client, lost) == (56, -1)
    assert await fetch_error(client, lost) == 56
    assert await append(client, 1 - lost) == (0, 1)
    assert (await described(client))["/disk1"][0] == 56
    assert not disks[0].exists(f"t-{lost}"), "it is not made anew in another directory"
    await node.node.stop()

    disks[1].faults.clear()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    assert await append(client, lost) == (0, 1)
    assert await append(client, 1 - lost) == (0, 2)


async def test_a_directory_of_another_cluster_is_refused(start_node: Any) -> None:
    other = MemoryDisk()
    await (await start_node(disk=other, seed=8)).node.stop()
    first = MemoryDisk()
    await (await start_node(disk=first)).node.stop()
    with pytest.raises(MoldauError, match="belongs to cluster"):
        await start_node(disk=first, further_disks=(other,))
    with pytest.raises(MoldauError, match=r"the first of log\.dirs is new"):
        await start_node(disk=MemoryDisk(), further_disks=(other,))


async def test_a_partition_in_two_directories_stays_where_the_metadata_says(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 2)
    client = node.connect()
    assert [await append(client, index) for index in range(2)] == [(0, 0)] * 2
    (index,) = [index for _, index in (await described(client))["/disk1"][1]]
    await node.turns(20)
    await node.node.stop()
    name = f"t-{index}"
    disks[0].make_directory(name)
    for file in disks[1].list_directory(name):
        disks[0].replace_file(f"{name}/{file}", disks[1].read_file(f"{name}/{file}"))

    node = await start_node(disk=disks[0], further_disks=disks[1:])
    assert not disks[0].exists(name)
    directory = node.node.broker.partitions.logs.directory_of(TopicPartition("t", index))
    assert directory.path == "/disk1"
    assert await append(node.connect(), index) == (0, 1)


async def test_a_cordoned_directory_takes_no_new_partitions(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    settings = {"log.dirs": "/disk0,/disk1", "cordoned.log.dirs": "/disk1"}
    node = await start_node(settings, disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 3)
    client = node.connect()
    told = await described(client)
    assert (len(told["/disk0"][1]), told["/disk0"][2]) == (3, False)
    assert (len(told["/disk1"][1]), told["/disk1"][2]) == (0, True)


async def test_only_the_partitions_asked_for_are_described(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", 3)
    await node.create_topic("u")
    client = node.connect()
    await append(client, 1)
    asked = (DescribableLogDirTopic("t", (1, 1, 9)), DescribableLogDirTopic("absent", (0,)))
    answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=asked))
    (result,) = answer.results
    ((topic,), (total, usable)) = result.topics, (result.total_bytes, result.usable_bytes)
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.offset_lag, partition.is_future_key) == ("t", 1, 0, False)
    assert partition.partition_size > 61
    assert (total, usable) == (-1, -1), "memory has no volume"
