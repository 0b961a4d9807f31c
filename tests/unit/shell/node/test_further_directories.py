"""A further log directory that is damaged, full or missing at a start: nothing in it starts from scratch."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.log import AppendOrigin
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.partitions import ElectionTopicPartitions, ElectLeadersRequest
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.records.builder import build_batch
from tests.support.log_directories import append, start_with_one_in_each, start_without_second
from tests.support.node import NOW_MS

pytestmark = pytest.mark.asyncio


def batch() -> bytearray:
    return bytearray(build_batch([(None, b"v", NOW_MS, ())]))


@pytest.mark.parametrize("damage", ["emptied", "cut", "of another version"])
async def test_a_further_directory_whose_meta_properties_cannot_be_read_is_left_out(
    start_node: Any, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node, lost = await start_with_one_in_each(start_node, disks)
    await node.node.stop()

    whole = disks[1].read_file("meta.properties")
    changed = {
        "emptied": b"",
        "cut": whole[: whole.index(b"version")],
        "of another version": whole.replace(b"version=1", b"version=2"),
    }
    disks[1].replace_file("meta.properties", changed[damage])
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    assert await append(client, lost) == (56, -1)
    assert await append(client, 1 - lost) == (0, 1)
    assert any("/disk1 cannot be opened and is left out: meta.properties" in line for line in caplog.messages)
    assert disks[1].read_file("meta.properties") == changed[damage]
    await node.node.stop()

    disks[1].replace_file("meta.properties", whole)
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    assert await append(node.connect(), lost) == (0, 1)


async def test_a_further_directory_is_offline_until_its_recovery_has_room(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node, lost = await start_with_one_in_each(start_node, disks)
    client = node.connect()
    node.node.broker.partitions.find("t", lost).log.roll(NOW_MS)  # recovery writes the producers after each segment
    assert await append(client, lost) == (0, 1)
    node.node.abort()

    disks[1].fail(Fault("write", "full", path_contains=".snapshot"))
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    assert await append(client, lost) == (56, -1)
    assert await append(client, 1 - lost) == (0, 1)
    await node.node.stop()

    disks[1].faults.clear()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    assert await append(node.connect(), lost) == (0, 2)


@pytest.mark.parametrize("reason", ["unopened", "faulty"])
async def test_a_partition_without_a_known_directory_waits_for_an_offline_one(start_node: Any, reason: str) -> None:
    """A crash came between its first records and the record of its directory in the metadata log."""
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 2)
    (lost,) = [
        partition.topic_partition.partition
        for partition in node.node.broker.partitions
        if partition.log.disk is disks[1]
    ]
    log = node.node.broker.partitions.find("t", lost).log
    log.append(batch(), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    node.node.abort()

    node = await start_without_second(start_node, disks, reason)
    client = node.connect()
    assert await append(client, lost) == (56, -1)
    assert await append(client, 1 - lost) == (0, 0)
    assert not disks[0].exists(f"t-{lost}")
    await node.node.stop()

    disks[1].faults.clear()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    assert await append(node.connect(), lost) == (0, 1)


@pytest.mark.parametrize("reason", ["unopened", "faulty"])
async def test_a_topic_made_anew_begins_beside_a_directory_that_is_offline(start_node: Any, reason: str) -> None:
    """The directory can hold no records of the new topic, only of a deleted one with its name."""
    disks = MemoryDisk(), MemoryDisk()
    node, lost = await start_with_one_in_each(start_node, disks)
    await node.node.stop()

    node = await start_without_second(start_node, disks, reason)
    assert await append(node.connect(), lost) == (56, -1)
    await node.node.broker.submit(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000))
    await node.create_topic("t", 2)
    client = node.connect()
    assert [await append(client, index) for index in (0, 1)] == [(0, 0), (0, 0)]


async def elect_uncleanly(client: Any, partition: int) -> int:
    asked = ElectionTopicPartitions("t", (partition,))
    answer = await client.ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(1, (asked,), 1_000))
    return int(answer.replica_election_results[0].partition_result[0].error_code)


@pytest.mark.parametrize("replacement", ["nothing", "an empty disk"])
async def test_a_partition_whose_disk_is_lost_begins_anew_with_an_unclean_election(
    start_node: Any, replacement: str
) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node, lost = await start_with_one_in_each(start_node, disks)
    client = node.connect()
    assert await append(client, lost) == (0, 1)
    await node.node.stop()

    empty = () if replacement == "nothing" else (MemoryDisk(),)
    node = await start_node(disk=disks[0], further_disks=empty, seed=8)
    client = node.connect()
    assert (await append(client, lost))[0] != 0, "nobody has asked for it"
    assert await elect_uncleanly(client, lost) == 0
    assert await append(client, lost, value=b"anew") == (0, 0)
    assert await append(client, 1 - lost) == (0, 1)
    await node.turns(20)  # the metadata names the new directory
    await node.node.stop()

    node = await start_node(disk=disks[0], further_disks=(*empty, disks[1]), seed=9)
    assert await append(node.connect(), lost) == (0, 1), "what came back is older, though there is more of it"


@pytest.mark.parametrize("reason", ["unopened", "faulty"])
async def test_a_partition_whose_disk_is_away_does_not_begin_anew_with_an_unclean_election(
    start_node: Any, reason: str
) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node, lost = await start_with_one_in_each(start_node, disks)
    await node.node.stop()

    node = await start_without_second(start_node, disks, reason)
    client = node.connect()
    await elect_uncleanly(client, lost)
    assert (await append(client, lost))[0] != 0
    assert not disks[0].exists(f"t-{lost}")
    node.node.abort()

    disks[1].faults.clear()
    node = await start_node(disk=disks[0], further_disks=disks[1:], seed=9)
    assert await append(node.connect(), lost) == (0, 1)
