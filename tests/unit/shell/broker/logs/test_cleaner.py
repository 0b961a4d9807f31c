"""The cleaner of a running node: in slices over a disk in memory, in a child process over a real one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import pytest

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin
from moldau.core.log.settings import LogSettings
from moldau.core.replication.partition import Partition
from moldau.shell.broker.logs.cleaner import UNCLEANABLE_COUNT
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush, records_in
from tests.support.node import committed, offset_commit

CHECKPOINT = "cleaner-offset-checkpoint"


class WorkersBehind:
    """Inline workers; `call` comes before each piece of work."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    async def run(self, work: Any) -> Any:
        self._call()
        return work()

    async def drain(self) -> None:
        """No work is in progress when a test stops its node."""

    def close(self) -> None:
        """Nothing to stop."""


def write(running: Any, partition: Partition, *pairs: tuple[str, str | None]) -> None:
    now_ms = running.clock.now_ms()
    rows = [(key.encode(), None if value is None else value.encode(), now_ms, ()) for key, value in pairs]
    partition.append(bytearray(build_batch(rows)), now_ms, AppendOrigin.CLIENT)


async def seal(running: Any, partition: Partition) -> None:
    """The active segment is full, and flushed."""
    partition.log.roll(running.clock.now_ms())
    flush(partition.log, running.clock.now_ms())


def content(partition: Partition) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {record.offset: (record.key, record.value) for record in records_in(partition.log)}


@pytest.mark.asyncio
async def test_a_compacted_topic_is_cleaned_while_the_node_runs(start_node: Any) -> None:
    running = await start_node({"log.cleaner.backoff.ms": "1"})
    await running.create_topic("table", cleanup_policy="compact")
    partition = running.node.broker.partitions.find("table", 0)
    write(running, partition, ("a", "1"), ("b", "1"))
    write(running, partition, ("a", "2"))
    await seal(running, partition)
    write(running, partition, ("a", "3"))
    while len(content(partition)) == 4:
        await running.turns(1)
    assert content(partition) == {1: (b"b", b"1"), 2: (b"a", b"2"), 3: (b"a", b"3")}
    while b"table 0 3" not in running.disk.read_file(CHECKPOINT):
        await running.turns(1)
    assert running.disk.read_file(CHECKPOINT) == b"0\n1\ntable 0 3\n"


@pytest.mark.asyncio
async def test_how_far_a_log_is_clean_is_remembered_and_forgotten_with_the_topic(start_node: Any) -> None:
    disk = MemoryDisk()
    running = await start_node(disk=disk)
    await running.create_topic("table", cleanup_policy="compact")
    partition = running.node.broker.partitions.find("table", 0)
    write(running, partition, ("a", "1"), ("a", "2"))
    await seal(running, partition)
    cleaner = running.node.housekeeping.cleaner
    assert await cleaner.clean_one()
    assert not await cleaner.clean_one()
    await running.node.stop()

    again = await start_node(disk=disk)
    assert not await again.node.housekeeping.cleaner.clean_one()


@pytest.mark.asyncio
async def test_a_damaged_log_is_served_on_and_not_tried_again(
    start_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    running = await start_node()
    await running.create_topic("table", cleanup_policy="compact")
    partition = running.node.broker.partitions.find("table", 0)
    write(running, partition, ("a", "1"))
    await seal(running, partition)
    running.disk.open("table-0/00000000000000000000.log").write_at(66, b"x")
    cleaner = running.node.housekeeping.cleaner
    assert not await cleaner.clean_one()
    assert not await cleaner.clean_one()
    failures = [line for line in caplog.messages if "was not cleaned" in line]
    assert len(failures) == 1
    assert "damaged record batch at 0" in failures[0]
    write(running, partition, ("a", "2"))


@pytest.mark.asyncio
async def test_a_damaged_log_counts_as_uncleanable_until_its_topic_is_deleted(start_node: Any) -> None:
    running = await start_node()
    await running.create_topic("table", cleanup_policy="compact")
    partition = running.node.broker.partitions.find("table", 0)
    write(running, partition, ("a", "1"))
    await seal(running, partition)
    running.disk.open("table-0/00000000000000000000.log").write_at(66, b"x")
    cleaner, telemetry = running.node.housekeeping.cleaner, running.node.telemetry
    assert [await cleaner.clean_one() for _ in range(2)] == [False, False]
    assert telemetry.value(UNCLEANABLE_COUNT) == 1
    topic = DeleteTopicState("table")
    await running.connect().ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest((topic,), timeout_ms=30_000))
    assert not await cleaner.clean_one()
    assert telemetry.value(UNCLEANABLE_COUNT) == 0


@pytest.mark.asyncio
async def test_a_full_disk_leaves_the_log_as_it_was(start_node: Any) -> None:
    running = await start_node()
    await running.create_topic("table", cleanup_policy="compact")
    partition = running.node.broker.partitions.find("table", 0)
    write(running, partition, ("a", "1"), ("a", "2"))
    await seal(running, partition)
    cleaner = running.node.housekeeping.cleaner
    running.disk.fail(Fault("append", error="full", path_contains=".cleaned"))
    assert not await cleaner.clean_one()
    assert not [name for name in running.disk.list_directory("table-0") if "cleaned" in name]
    assert len(content(partition)) == 2
    running.disk.heal()
    assert await cleaner.clean_one()
    assert len(content(partition)) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("error", ["full", "io"])
async def test_a_log_that_cannot_be_cleaned_keeps_no_other_from_its_round(
    start_node: Any, error: Literal["full", "io"]
) -> None:
    running = await start_node()
    partitions = []
    for name in "ab":
        await running.create_topic(name, cleanup_policy="compact")
        partitions.append(running.node.broker.partitions.find(name, 0))
        write(running, partitions[-1], ("k", "1"), ("k", "2"))
        await seal(running, partitions[-1])
    cleaner = running.node.housekeeping.cleaner
    running.disk.fail(Fault("append", error, path_contains="a-0/"))
    assert [await cleaner.clean_one() for _ in range(3)] == [False, True, False]
    assert [len(content(partition)) for partition in partitions] == [2, 1]
    running.disk.heal()
    assert await cleaner.clean_one()
    assert len(content(partitions[0])) == 1


@pytest.mark.asyncio
async def test_a_log_that_is_cut_when_its_round_is_almost_over_is_clean_up_to_the_cut_only(start_node: Any) -> None:
    def cut_what_was_cleaned() -> None:
        if partition and not cuts and len(content(partition[0])) < 4:
            cuts.append(directory.logs[place].log_end_offset)
            directory.truncate(place, 2, running.clock.now_ms())

    partition: list[Partition] = []
    cuts: list[int] = []
    running = await start_node(workers=WorkersBehind(cut_what_was_cleaned))
    await running.create_topic("table", cleanup_policy="compact")
    partition.append(running.node.broker.partitions.find("table", 0))
    place = partition[0].topic_partition
    directory = running.node.broker.partitions.logs.directory_of(place)
    for value in "1234":
        write(running, partition[0], ("a", value))
        await seal(running, partition[0])
    cleaner = running.node.housekeeping.cleaner
    assert not await cleaner.clean_one()
    assert cuts == [4]
    assert directory.cleaned_offsets[place] == 1
    for key, value in ("a5", "a6", "a7", "a8", "b1"):
        write(running, partition[0], (key, value))
        await seal(running, partition[0])
    assert await cleaner.clean_one()
    assert list(content(partition[0]).values()) == [(b"a", b"8"), (b"b", b"1")]


@pytest.mark.asyncio
async def test_holes_of_an_interrupted_first_round_are_no_damage_after_compaction_ends(
    start_node: Any,
) -> None:
    def keep_disk() -> None:
        if partition and not disks and len(content(partition[0])) < 4:
            disks.append(MemoryDisk())
            disks[0]._root = copy.deepcopy(running.disk._root)

    partition: list[Partition] = []
    disks: list[MemoryDisk] = []
    running = await start_node(workers=WorkersBehind(keep_disk))
    await running.create_topic("table", cleanup_policy="compact")
    partition.append(running.node.broker.partitions.find("table", 0))
    for value in "1234":
        write(running, partition[0], ("a", value))
        await seal(running, partition[0])
    assert await running.node.housekeeping.cleaner.clean_one()
    disks[0].crash_process()
    settings = LogSettings(cleanup_policy=("delete",))
    (log,) = LogDirectory.open(disks[0]).open_all(lambda _: settings, running.clock.now_ms())
    assert [record.value for record in records_in(log)] == [b"4"]
    assert not log.health.findings


@pytest.mark.asyncio
async def test_an_active_segment_without_room_to_be_sealed_does_not_block_its_round(start_node: Any) -> None:
    running = await start_node()
    await running.create_topic("a", cleanup_policy="compact", max_compaction_lag_ms="1000", segment_ms="1000")
    await running.create_topic("b", cleanup_policy="compact")
    early, late = (running.node.broker.partitions.find(name, 0) for name in "ab")
    write(running, early, ("k", "1"))
    write(running, late, ("k", "1"), ("k", "2"))
    await seal(running, late)
    running.clock.advance(5_000)
    running.disk.fail(Fault("write", "full", path_contains="a-0/"))
    assert await running.node.housekeeping.cleaner.clean_one()
    assert len(content(late)) == 1


@pytest.mark.asyncio
async def test_committed_offsets_are_compacted_and_found_again(start_node: Any) -> None:
    disk = MemoryDisk()
    running = await start_node(disk=disk)
    await running.create_topic("t")
    client = running.connect()
    found = await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    assert found.error_code == 0
    for offset in range(100):
        answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(offset))
        assert answer.topics[0].partitions[0].error_code == 0
    partition = running.node.broker.partitions.find("__consumer_offsets", 0)
    await seal(running, partition)
    assert len(content(partition)) >= 100
    assert await running.node.housekeeping.cleaner.clean_one()
    assert len(content(partition)) <= 2
    await running.node.stop()

    again = await start_node(disk=disk)
    assert await committed(again.connect()) == 99
