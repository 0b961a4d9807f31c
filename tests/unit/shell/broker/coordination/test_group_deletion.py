"""Groups and committed offsets that end, through a node: by request, by age, and in idle shards."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.groups.counters import OFFSET_DELETIONS, OFFSET_EXPIRATIONS
from moldau.core.groups.group_partitions import partition_for_group
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import ListGroupsRequest
from moldau.wire.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from moldau.wire.records.batch import iterate_batches
from tests.support.node import offset_commit

pytestmark = pytest.mark.asyncio

DAY_MS = 86_400_000
CHECKS_AT_ONCE = {"offsets.retention.minutes": "1440", "offsets.retention.check.interval.ms": "5"}


async def commit(client: Any, group: str, *partitions: int) -> None:
    found = await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key=group))
    assert found.error_code == 0
    answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(1, group=group, partitions=partitions))
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {0}


async def positions(client: Any, group: str) -> list[int]:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
    answer = (await client.ask(ApiKey.OFFSET_FETCH, 8, request)).groups[0]
    assert answer.error_code == 0
    return [row.partition_index for topic in answer.topics for row in topic.partitions]


async def listed(client: Any) -> list[str]:
    return [group.group_id for group in (await client.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())).groups]


async def test_groups_of_several_shards_are_deleted_by_one_request(start_node: Any) -> None:
    node = await start_node({"offsets.topic.num.partitions": "3"})
    await node.create_topic("t")
    client = node.connect()
    for group in ("a", "b", "c"):
        await commit(client, group, 0)
    answer = await client.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(("a", "b", "absent", "a")))
    assert [(row.group_id, row.error_code) for row in answer.results] == [("a", 0), ("b", 0), ("absent", 69)]
    assert await listed(client) == ["c"]
    assert node.node.telemetry.value(OFFSET_DELETIONS) == 2


async def test_without_an_offsets_topic_there_is_no_coordinator(client: Any) -> None:
    answer = await client.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(("a",)))
    assert [row.error_code for row in answer.results] == [16]
    assert (await client.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest("a"))).error_code == 16


async def test_what_was_deleted_stays_deleted_after_a_restart(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t", 3)
    client = node.connect()
    await commit(client, "a", 0, 1)
    await commit(client, "b", 0)
    topics = (
        OffsetDeleteRequestTopic("t", (OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(7))),
        OffsetDeleteRequestTopic("absent", (OffsetDeleteRequestPartition(0),)),
    )
    answer = await client.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest("a", topics))
    told = [(topic.name, row.partition_index, row.error_code) for topic in answer.topics for row in topic.partitions]
    assert told == [("t", 7, 3), ("t", 0, 0), ("absent", 0, 3)]
    await client.ask(ApiKey.DELETE_GROUPS, 0, DeleteGroupsRequest(("b",)))
    await node.node.stop()
    again = (await start_node(disk=disk)).connect()
    assert await listed(again) == ["a"]
    assert await positions(again, "a") == [1]


async def test_positions_expire_also_in_a_shard_that_nobody_asks(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    await commit(node.connect(), "a", 0)
    await node.node.stop()
    late = await start_node(CHECKS_AT_ONCE, disk=disk)
    late.clock.set_now(node.clock.now_ms() + DAY_MS)
    log = late.node.broker.partitions.find("__consumer_offsets", 0).log
    before = log.log_end_offset
    while log.log_end_offset < before + 2:  # the loop's own timers: the first check loads it, the next one ends it
        late.clock.advance(5)
        await late.turns(1)
    assert await listed(late.connect()) == []
    assert late.node.telemetry.value(OFFSET_EXPIRATIONS) == 1


async def test_groups_are_listed_though_the_partition_of_others_is_offline(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node({"offsets.topic.num.partitions": "2"}, disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t")
    client = node.connect()
    for group in ("a", "b"):
        await commit(client, group, 0)
    groups = {partition_for_group(group, 2): group for group in ("a", "b")}
    assert await listed(client) == [groups[0], groups[1]]
    (lost,) = (index for index in groups if disks[1].exists(f"__consumer_offsets-{index}"))
    disks[1].fail(Fault("append", "io"))
    await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(1, group=groups[lost]))
    assert await listed(client) == [groups[1 - lost]]


async def test_batches_of_offsets_are_compressed_as_told(start_node: Any) -> None:
    node = await start_node({"offsets.topic.compression.codec": "1"})
    await node.create_topic("t")
    client = node.connect()
    await commit(client, "a", 0)
    log = node.node.broker.partitions.find("__consumer_offsets", 0).log
    records = log.read(0, max_bytes=10_000, end_offset=log.log_end_offset).records
    assert [header.compression for _, header in iterate_batches(records)] == [1]
    assert await positions(client, "a") == [0]
