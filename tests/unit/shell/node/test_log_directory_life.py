"""A deleted topic's leftovers for one of the same name; what a move takes along, and a move with a failing disk."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.cleaning.retention import remove_files
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.moves import PARTITION, move, seal, two_directories, write

pytestmark = pytest.mark.asyncio


async def delete_topic(running: Any) -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    await running.node.broker.submit(request)


async def test_a_new_topic_does_not_begin_where_a_deleted_one_of_its_name_began(start_node: Any) -> None:
    disk = MemoryDisk()
    running = await start_node(disk=disk)
    await running.create_topic("t")
    write(running, 50)
    running.node.broker.partitions.find("t", 0).log.advance_log_start_offset(40)
    await running.node.housekeeping.write_checkpoints()
    assert b"t 0 40" in disk.read_file("log-start-offset-checkpoint")
    await delete_topic(running)
    await running.create_topic("t")
    write(running, 10)
    running.node.abort()
    disk.crash_process()

    again = await start_node(disk=disk)
    log = again.node.broker.partitions.find("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_new_topic_is_compacted_below_what_was_clean_of_a_deleted_one(
    start_node: Any, is_restarted: bool
) -> None:
    disk = MemoryDisk()
    running = await start_node(disk=disk)
    await running.create_topic("t", cleanup_policy="compact")
    write(running, 5)
    await seal(running)
    assert await running.node.housekeeping.cleaner.clean_one()
    assert disk.read_file("cleaner-offset-checkpoint") == b"0\n1\nt 0 5\n"
    await running.node.stop()

    running = await start_node(disk=disk)
    await delete_topic(running)
    await running.create_topic("t", cleanup_policy="compact")
    write(running, 5)
    await seal(running)
    if is_restarted:
        running.node.abort()
        disk.crash_process()
        running = await start_node(disk=disk)
        await seal(running)
    assert await running.node.housekeeping.cleaner.clean_one()


async def test_a_moved_log_stays_as_clean_as_it_was(start_node: Any) -> None:
    running, here, there = await two_directories(start_node, cleanup_policy="compact")
    write(running, 5)
    await seal(running)
    cleaner = running.node.housekeeping.cleaner
    assert await cleaner.clean_one()
    move(running, there)
    await running.turns(30)
    assert PARTITION in there.logs
    assert (here.cleaned_offsets, there.cleaned_offsets) == ({}, {PARTITION: 5})
    assert not await cleaner.clean_one()


async def test_holes_of_a_moved_log_are_no_damage_after_compaction_ends_and_a_crash(start_node: Any) -> None:
    running, _, there = await two_directories(start_node, cleanup_policy="compact")
    write(running, 5)
    await seal(running)
    assert await running.node.housekeeping.cleaner.clean_one()
    move(running, there)
    await running.turns(30)
    running.node.abort()
    there.disk.crash_process()
    settings = LogSettings(cleanup_policy=("delete",))
    (log,) = LogDirectory.open(there.disk).open_all(lambda topic: settings, running.clock.now_ms())
    assert log.read(0, max_bytes=1 << 20, end_offset=5, may_wait=True).records
    assert not log.health.findings


@pytest.mark.parametrize("operation", ["open", "append"])
async def test_a_move_to_a_failing_disk_takes_that_directory_offline_and_no_other(
    start_node: Any, operation: Any
) -> None:
    running, here, there = await two_directories(start_node)
    write(running, 3)
    there.disk.fail(Fault(operation, "io", path_contains="-future"))
    move(running, there)
    await running.turns(30)
    assert there.health.is_offline
    assert not here.health.is_offline
    assert not running.node.broker.moves.futures
    assert PARTITION in here.logs
    write(running, 1)
    assert running.node.broker.partitions.find("t", 0).log.log_end_offset == 4


async def test_a_topic_deleted_before_its_copy_is_durable_leaves_nothing(start_node: Any) -> None:
    running, here, there = await two_directories(start_node)
    write(running, 3)
    there.disk.fail(Fault("open", "full", path_contains="t-0/leader-epoch-checkpoint"))
    move(running, there)
    await running.turns(30)
    assert PARTITION in there.logs
    assert here.disk.exists("t-0"), "the new one is not durable"
    await delete_topic(running)
    await running.create_topic("t")
    there.disk.heal()
    write(running, 2)
    running.node.abort()
    again = await start_node(disk=running.disk, further_disks=running.ports.further_disks)
    log = again.node.broker.partitions.find("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)


class Noting:
    """Inline workers that record their work."""

    def __init__(self) -> None:
        self.functions: list[Any] = []

    async def run(self, work: Any) -> Any:
        self.functions.append(getattr(work, "func", work))
        return work()

    async def drain(self) -> None:
        """No work is in progress when a test stops its node."""

    def close(self) -> None:
        """Nothing to stop."""


async def test_files_of_deleted_segments_are_removed_in_workers(start_node: Any) -> None:
    workers = Noting()
    running = await start_node(workers=workers)
    await running.create_topic("t", retention_ms="1", file_delete_delay_ms="0")
    write(running, 3)
    await seal(running)
    running.clock.advance(10)
    await running.node.housekeeping.apply_retention()
    assert [name for name in running.disk.list_directory("t-0") if name.endswith(".deleted")]
    await running.node.housekeeping.purge_deleted()
    assert remove_files in workers.functions
    assert not [name for name in running.disk.list_directory("t-0") if name.endswith(".deleted")]
