"""Requests to a node with several log directories, and a start without the second of them."""

from __future__ import annotations

from typing import Any

from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsRequest
from tests.support.node import produce, result_of


async def append(client: Any, partition: int, topic: str = "t", value: bytes = b"v") -> tuple[int, int]:
    """The error code and the offset."""
    request = produce(b"%s%d" % (value, partition), topic=topic, partition=partition)
    result = result_of(await client.ask(ApiKey.PRODUCE, 9, request))
    return result.error_code, result.base_offset


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


async def start_with_one_in_each(start_node: Any, disks: tuple[MemoryDisk, MemoryDisk]) -> tuple[Any, int]:
    """A node whose topic t has a partition with one record in each of two log directories, by the metadata; and the
    partition in the second."""
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 2)
    client = node.connect()
    assert [await append(client, index) for index in range(2)] == [(0, 0)] * 2
    (second,) = [index for _, index in (await described(client))["/disk1"][1]]
    await node.turns(20)
    return node, second


async def start_without_second(start_node: Any, disks: tuple[MemoryDisk, MemoryDisk], reason: str) -> Any:
    """A node whose second log directory cannot be opened, or fails at once. Its ids differ from those of the last
    life."""
    if reason == "unopened":
        return await start_node(disk=disks[0], unopened_paths=("/disk1",), seed=8)
    disks[1].fail(Fault("open", "io"))
    disks[1].fail(Fault("read", "io"))
    return await start_node(disk=disks[0], further_disks=disks[1:], seed=8)
