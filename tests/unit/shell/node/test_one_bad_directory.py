"""One of two log directories is full or unreadable: the other one continues, and partitions leave the bad one."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.log import AppendOrigin
from moldau.errors import ERROR_CODES
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.records.builder import build_batch
from tests.support.log_directories import append, described, fetch_error, start_with_one_in_each
from tests.support.logs import flush
from tests.support.moves import move, two_directories
from tests.support.node import NOW_MS

pytestmark = pytest.mark.asyncio


def seal(running: Any, index: int, topic: str = "t") -> None:
    """Flushes the partition's records into a segment that no longer grows."""
    log = running.node.broker.partitions.find(topic, index).log
    log.roll(NOW_MS)
    flush(log, NOW_MS)


async def start_again(start_node: Any, running: Any, disks: tuple[MemoryDisk, MemoryDisk]) -> Any:
    """After a clean stop: memory holds nothing of the index files."""
    await running.node.stop()
    return await start_node(disk=disks[0], further_disks=disks[1:])


def rows(count: int) -> bytearray:
    """One batch of that many records with one key."""
    return bytearray(build_batch([(b"key", b"%d" % number, NOW_MS, ()) for number in range(count)]))


def write(running: Any, index: int, count: int = 1, topic: str = "t") -> None:
    running.node.broker.partitions.find(topic, index).append(rows(count), NOW_MS, AppendOrigin.CLIENT)


async def test_a_reader_gets_an_error_if_neither_page_cache_nor_disk_has_the_bytes(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running, second = await start_with_one_in_each(start_node, disks)
    client = running.connect()
    disks[1].fail(Fault("read_cached", "cold"))
    assert await fetch_error(client, second) == 0
    disks[1].fail(Fault("read"))
    assert await fetch_error(client, second) == ERROR_CODES["KAFKA_STORAGE_ERROR"]
    assert await append(client, second) == (ERROR_CODES["KAFKA_STORAGE_ERROR"], -1)
    assert await fetch_error(client, 1 - second) == 0


async def test_a_search_by_time_that_the_disk_does_not_answer_takes_the_directory_offline(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running, second = await start_with_one_in_each(start_node, disks)
    client = running.connect()
    disks[1].fail(Fault("read"))
    row = ListOffsetsPartition(second, -1, NOW_MS)
    request = ListOffsetsRequest(-1, topics=(ListOffsetsTopic("t", (row,)),))
    answer = await client.ask(ApiKey.LIST_OFFSETS, 7, request)
    assert answer.topics[0].partitions[0].error_code == ERROR_CODES["KAFKA_STORAGE_ERROR"]
    disks[1].heal()
    assert await append(client, second) == (ERROR_CODES["KAFKA_STORAGE_ERROR"], -1)
    assert await append(client, 1 - second) == (0, 1)


async def test_a_directory_that_cannot_be_read_goes_offline_and_retention_goes_on(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running, second = await start_with_one_in_each(start_node, disks)
    seal(running, second)
    running = await start_again(start_node, running, disks)
    await running.create_topic("u", 2, retention_ms="1000")
    client = running.connect()
    for index in range(2):
        assert await append(client, index, "u") == (0, 0)
    (other,) = [index for name, index in (await described(client))["/disk0"][1] if name == "u"]
    running.clock.advance(5_000)
    disks[1].fail(Fault("read", path_contains=".timeindex"))
    await running.node.housekeeping.apply_retention()
    assert running.node.broker.partitions.find("u", other).log.log_start_offset == 1
    assert (await described(client))["/disk1"][0] == ERROR_CODES["KAFKA_STORAGE_ERROR"]


async def test_a_directory_that_cannot_be_read_goes_offline_and_the_cleaner_goes_on(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running = await start_node(disk=disks[0], further_disks=disks[1:])
    await running.create_topic("t", 2, cleanup_policy="compact", min_compaction_lag_ms="1")
    (second,) = [index for _, index in (await described(running.connect()))["/disk1"][1]]
    for index in range(2):
        write(running, index, 2)
        seal(running, index)
    running = await start_again(start_node, running, disks)
    running.clock.advance(5_000)
    disks[1].fail(Fault("read", path_contains=".timeindex"))
    assert await running.node.housekeeping.cleaner.clean_one()
    assert running.node.broker.partitions.find("t", second).is_offline
    assert not running.node.broker.partitions.find("t", 1 - second).is_offline


async def test_a_full_directory_keeps_no_log_of_another_one_from_being_cleaned(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running = await start_node(disk=disks[0], further_disks=disks[1:])
    await running.create_topic("t", 2, cleanup_policy="compact")
    (first,) = [index for _, index in (await described(running.connect()))["/disk0"][1]]
    write(running, first, 2)
    seal(running, first)
    disks[1].fail(Fault("write", "full", path_contains="offset-checkpoint"))
    assert await running.node.housekeeping.cleaner.clean_one()
    assert f"t {first} 2".encode() in disks[0].read_file("cleaner-offset-checkpoint")


async def test_a_partition_that_leaves_a_full_directory_makes_room_there(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running, second = await start_with_one_in_each(start_node, disks)
    disks[1].fail(Fault("write", "full", path_contains="offset-checkpoint"))
    target = running.node.broker.partitions.logs.by_path("/disk0")
    running.node.broker.moves.move(running.node.broker.partitions.find("t", second), target)
    await running.turns(60)
    assert disks[0].exists(f"t-{second}")
    assert not disks[1].exists(f"t-{second}")
    await running.node.housekeeping.purge_deleted()
    assert not [name for name in disks[1].list_directory("") if name.startswith("t-")]


async def test_a_new_partition_that_meets_a_failed_directory_begins_in_another_one(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running = await start_node(disk=disks[0], further_disks=disks[1:])
    disks[1].fail(Fault("write", path_contains="partition.metadata"))
    await running.create_topic("t", 2)
    client = running.connect()
    assert [await append(client, index) for index in range(2)] == [(0, 0)] * 2
    assert sorted((await described(client))["/disk0"][1]) == [("t", 0), ("t", 1)]


async def test_a_new_partition_that_found_no_room_leaves_nothing_in_the_way_of_a_move(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    running = await start_node(disk=disks[0], further_disks=disks[1:])
    for disk in disks:
        disk.fail(Fault("write", "full", path_contains="t-0/"))
    await running.create_topic("t")
    client = running.connect()
    assert await append(client, 0) == (ERROR_CODES["KAFKA_STORAGE_ERROR"], -1)
    assert not any(disk.exists("t-0") for disk in disks)
    disks[1].heal()
    await running.node.housekeeping.write_checkpoints()
    assert await append(client, 0) == (0, 0)
    assert [disk.exists("t-0") for disk in disks] == [False, True]


async def test_a_start_with_a_partition_twice_and_no_room_leaves_that_directory_out(start_node: Any) -> None:
    running, here, there = await two_directories(start_node)
    partition = running.node.broker.partitions.find("t", 0)
    write(running, 0, 3)
    partition.log.advance_log_start_offset(2)
    flush(partition.log, NOW_MS)
    await running.node.housekeeping.write_checkpoints()
    there.disk.fail(Fault("open", "full", path_contains="t-0/leader-epoch-checkpoint"))
    move(running, there)
    await running.turns(30)
    running.node.abort()
    assert here.disk.exists("t-0")
    assert there.disk.exists("t-0")
    there.disk.heal()
    there.disk.fail(Fault("write", "full", path_contains="leader-epoch-checkpoint"))
    again = await start_node(disk=running.disk, further_disks=running.ports.further_disks)
    client = again.connect()
    assert (await described(client))[there.path][0] == ERROR_CODES["KAFKA_STORAGE_ERROR"]
    assert await append(client, 0) == (ERROR_CODES["KAFKA_STORAGE_ERROR"], -1)
    again.node.abort()
    there.disk.heal()
    again = await start_node(disk=running.disk, further_disks=running.ports.further_disks)
    log = again.node.broker.partitions.find("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert not here.disk.exists("t-0")
