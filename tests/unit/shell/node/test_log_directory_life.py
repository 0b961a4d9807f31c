"""What a topic leaves behind for one of the same name; what a move does where a disk fails, and how fast it is."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.log import AppendOrigin
from moldau.core.log.retention import remove_files
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.image import ResourceType
from moldau.shell.broker import moves
from moldau.shell.io.twins.memory_disk import Fault, MemoryDisk
from moldau.types import Offset, TopicPartition
from moldau.wire.protocol.messages.metadata_records import ConfigRecord
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.records.builder import build_batch

pytestmark = pytest.mark.asyncio

PARTITION = TopicPartition("t", 0)
NAME_OF_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def write(running: Any, count: int) -> None:
    partition = running.node.broker.partitions.find("t", 0)
    now_ms = running.clock.now_ms()
    for number in range(count):
        records = bytearray(build_batch([(b"key", b"%d" % number, now_ms, ())]))
        partition.append(records, now_ms, AppendOrigin.CLIENT)


async def seal(running: Any) -> None:
    log = running.node.broker.partitions.find("t", 0).log
    log.roll(running.clock.now_ms())
    plan = log.unflushed()
    plan.run()
    log.mark_flushed(plan, running.clock.now_ms())


async def delete_topic(running: Any) -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    await running.node.broker.submit(request)


async def two_directories(start_node: Any, **configs: str) -> tuple[Any, Any, Any]:
    """A node with the topic `t`, the directory that it lies in, and the other one."""
    running = await start_node(disk=MemoryDisk(), further_disks=(MemoryDisk(),))
    await running.create_topic("t", **configs)
    logs = running.node.broker.partitions.logs
    here = logs.directory_of(PARTITION)
    (there,) = [directory for directory in logs if directory is not here]
    return running, here, there


def move(running: Any, target: Any) -> None:
    running.node.broker.moves.move(running.node.broker.partitions.find("t", 0), target)


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


async def test_a_log_on_its_way_is_not_cleaned(start_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "PIECE_BYTES", 1)
    running, _, there = await two_directories(start_node, cleanup_policy="compact")
    write(running, 20)
    await seal(running)
    move(running, there)
    await running.turns(2)
    partition = running.node.broker.partitions.find("t", 0)
    assert running.node.broker.moves.is_settling(partition)
    before = [segment.size for segment in partition.log.segments]
    cleaner = running.node.housekeeping.cleaner
    assert not await cleaner.clean_one()
    assert [segment.size for segment in partition.log.segments] == before
    while running.node.broker.moves.is_settling(partition):
        await running.turns(1)
    await seal(running)
    assert PARTITION in there.logs


async def test_a_move_of_a_log_that_is_cut_meanwhile_begins_anew(
    start_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "PIECE_BYTES", 1)
    running, here, there = await two_directories(start_node)
    write(running, 20)
    move(running, there)
    await running.turns(12)
    node_moves, partition = running.node.broker.moves, running.node.broker.partitions.find("t", 0)
    assert node_moves.futures[PARTITION].next_offset > 4
    here.truncate(PARTITION, 4, running.clock.now_ms())
    node_moves.log_cut(partition)
    write(running, 20)
    written = bytes(here.logs[PARTITION].read(Offset(0), max_bytes=1 << 20, end_offset=24).records)
    while node_moves.is_settling(partition) or node_moves.futures:
        await running.turns(1)
    assert bytes(there.logs[PARTITION].read(Offset(0), max_bytes=1 << 20, end_offset=24).records) == written


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
    again = await start_node(disk=running.disk, further_disks=running.doors.further_disks)
    log = again.node.broker.partitions.find("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)


async def test_a_move_keeps_to_its_rate_and_follows_it(start_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "THROTTLE_LOOK_MS", 1)
    running, _, there = await two_directories(start_node)
    broker = running.node.broker
    write(running, 30)
    size_bytes = broker.partitions.find("t", 0).log.size_bytes

    def throttle(bytes_per_second: int) -> None:
        fold = MetadataFold("cluster")
        fold.apply(ConfigRecord(ResourceType.BROKER, "1", NAME_OF_RATE, str(bytes_per_second)))
        broker.dynamic_settings.apply(fold.image, fold.take_delta(Offset(1), 1))

    throttle(200)
    move(running, there)
    await running.turns(200)
    (future,) = broker.moves.futures.values()
    copied = [future.size_bytes]
    assert 0 < copied[0] <= 200
    running.clock.advance(1_000)
    while future.size_bytes == copied[0]:
        await running.turns(1)
    await running.turns(200)
    assert future.size_bytes <= 400
    throttle(0)
    running.clock.advance(60_000)
    await running.turns(200)
    assert future.size_bytes <= 600
    throttle(1 << 62)
    while PARTITION not in there.logs:
        await running.turns(1)
    assert there.logs[PARTITION].size_bytes == size_bytes


class Noting:
    """Inline workers that note what they are given."""

    def __init__(self) -> None:
        self.functions: list[Any] = []

    async def run(self, work: Any) -> Any:
        self.functions.append(getattr(work, "func", work))
        return work()

    async def drain(self) -> None:
        """Nothing is under way when a test stops its node."""

    def close(self) -> None:
        """Nothing is to be stopped."""


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
