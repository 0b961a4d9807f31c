"""A disk that is full for a while: the broker's reports, and its work once there is room again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from moldau.core.log.files.checkpoint import CLEAN_SHUTDOWN_MARK
from moldau.errors import ERROR_CODES
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.wire.protocol.api_keys import ApiKey
from tests.support.node import produce, result_of

pytestmark = pytest.mark.asyncio


async def append(client: Any, index: int = 0, **batch: Any) -> int:
    """The error code."""
    return int(result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"v", partition=index, **batch))).error_code)


async def test_a_topic_made_on_a_full_disk_is_served_once_there_is_room(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    client = node.connect()
    disk.fail(Fault("append", error="full", path_contains="t-0/"))
    disk.fail(Fault("write", error="full", path_contains="t-0/"))
    await node.create_topic("t")
    await node.node.housekeeping.write_checkpoints()
    assert await append(client) == ERROR_CODES["KAFKA_STORAGE_ERROR"]
    disk.heal()
    await node.node.housekeeping.write_checkpoints()
    assert await append(client) == 0


async def test_refused_records_are_told_in_the_log(start_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    disk.fail(Fault("append", error="full", path_contains="t-0/"))
    caplog.clear()
    with caplog.at_level(logging.ERROR, logger="moldau"):
        for _ in range(3):
            assert await append(client) == ERROR_CODES["KAFKA_STORAGE_ERROR"]
    assert [record.getMessage() for record in caplog.records] == [
        "node 1: records are refused: no space left in the log directory"
    ]
    disk.heal()
    assert await append(client) == 0


async def test_a_log_without_room_to_be_closed_leaves_no_mark_of_a_clean_stop(start_node: Any) -> None:
    """The mark says that all of each log is on the disk: a tail torn by a loss of power would count as damage."""
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    for _ in range(20):
        assert await append(client) == 0
    disk.fail(Fault("write", error="full", path_contains="t-0/"))
    await node.node.stop()
    disk.heal()
    assert not disk.exists(CLEAN_SHUTDOWN_MARK)
    disk.crash_machine(SeededRandom(3))
    again = await start_node(disk=disk)
    assert await append(again.connect()) == 0


async def test_a_log_without_room_for_a_roll_does_not_keep_retention_from_the_next_one(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t", partitions=2, retention_ms="1000")
    logs = [node.node.broker.partitions.find("t", index).log for index in range(2)]
    client = node.connect()
    for index in range(2):
        assert await append(client, index, producer_id=7, producer_epoch=0, base_sequence=0) == 0
    node.clock.advance(5_000)
    disk.fail(Fault("append", error="full", path_contains="t-0/"))
    disk.fail(Fault("write", error="full", path_contains="t-0/"))
    await node.node.housekeeping.apply_retention()
    assert [log.log_start_offset for log in logs] == [0, 1]
    disk.heal()
    await node.node.housekeeping.apply_retention()
    assert [log.log_start_offset for log in logs] == [1, 1]
