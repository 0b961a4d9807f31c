"""A slow move to another log directory: its maximum rate, and the log meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.core.log.files.checkpoint import LOG_START_OFFSET_CHECKPOINT
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.image import ResourceType
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.types import Offset, TopicPartition
from moldau.wire.protocol.messages.metadata_records import ConfigRecord
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.moves import NAME_OF_RATE, PARTITION, move, seal, two_directories, write

BATCH_BY_BATCH = {NAME_OF_RATE: "100"}
"""One batch per second: two are longer than 100 bytes."""


def test_a_move_keeps_to_its_rate_and_follows_it(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        running, _, there = await two_directories(start_node)
        broker = running.node.broker
        write(running, 30)
        size_bytes = broker.partitions.find("t", 0).log.size_bytes

        def throttle(bytes_per_second: int) -> None:
            fold = MetadataFold("cluster")
            fold.apply(ConfigRecord(ResourceType.BROKER, "1", NAME_OF_RATE, str(bytes_per_second)))
            broker.own_node.settings.apply(fold.image, fold.take_delta(Offset(1), 1))

        throttle(200)
        move(running, there)
        await asyncio.sleep(0.5)
        (future,) = broker.moves.futures.values()
        assert 0 < future.size_bytes <= 200
        await asyncio.sleep(4)
        copied = future.size_bytes
        assert 600 < copied <= 1_100
        throttle(0)
        await asyncio.sleep(60)
        assert future.size_bytes <= copied + 200
        throttle(1 << 62)
        await asyncio.sleep(0.5)
        assert there.logs[PARTITION].size_bytes == size_bytes

    in_virtual_time(story)


def test_a_new_topic_moves_though_one_of_its_name_was_waiting_to_move_there(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        running, here, there = await two_directories(start_node, BATCH_BY_BATCH)
        broker = running.node.broker
        write(running, 10)
        await running.create_topic("u")
        assert there.disk.exists("u-0")
        move(running, there)
        broker.moves.move(broker.partitions.find("u", 0), here)
        await broker.submit(DeleteTopicsRequest(topics=(DeleteTopicState(name="u"),), timeout_ms=1_000))
        await running.create_topic("u")
        assert TopicPartition("u", 0) in there.logs
        broker.moves.move(broker.partitions.find("u", 0), here)
        await asyncio.sleep(60)
        assert PARTITION in there.logs
        assert TopicPartition("u", 0) in here.logs

    in_virtual_time(story)


def test_a_move_that_finds_no_room_at_its_end_holds_up_no_other(in_virtual_time: Any) -> None:
    """The other move may be the one that frees room there."""

    async def story(start_node: Any) -> None:
        running, here, there = await two_directories(start_node)
        broker, other = running.node.broker, TopicPartition("u", 0)
        write(running, 3)
        await running.create_topic("u")
        assert other in there.logs
        there.disk.fail(Fault("write", "full", path_contains=LOG_START_OFFSET_CHECKPOINT))
        broker.partitions.find("t", 0).log.advance_log_start_offset(2)
        move(running, there)
        broker.moves.move(broker.partitions.find("u", 0), here)
        await asyncio.sleep(5)
        assert PARTITION in there.logs
        assert other in here.logs
        assert here.disk.exists("t-0"), "the copy would not survive the machine"
        # its own next move waits: the directory that it would use still exists
        move(running, here)
        await asyncio.sleep(5)
        assert PARTITION in there.logs
        there.disk.heal()
        await asyncio.sleep(5)
        assert PARTITION in here.logs
        assert not there.disk.exists("t-0")
        assert not broker.moves.is_settling(broker.partitions.find("t", 0))

    in_virtual_time(story)


def test_a_log_on_its_way_is_not_cleaned(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        running, _, there = await two_directories(start_node, BATCH_BY_BATCH, cleanup_policy="compact")
        write(running, 20)
        await seal(running)
        move(running, there)
        await asyncio.sleep(2)
        partition = running.node.broker.partitions.find("t", 0)
        assert running.node.broker.moves.is_settling(partition)
        before = [segment.size for segment in partition.log.segments]
        cleaner = running.node.housekeeping.cleaner
        assert not await cleaner.clean_one()
        assert [segment.size for segment in partition.log.segments] == before
        await asyncio.sleep(30)
        assert not running.node.broker.moves.is_settling(partition)
        assert PARTITION in there.logs

    in_virtual_time(story)


def test_a_move_of_a_log_that_is_cut_meanwhile_begins_anew(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        running, here, there = await two_directories(start_node, BATCH_BY_BATCH)
        write(running, 20)
        move(running, there)
        await asyncio.sleep(10)
        node_moves, partition = running.node.broker.moves, running.node.broker.partitions.find("t", 0)
        assert 4 < node_moves.futures[PARTITION].next_offset < 20
        here.truncate(PARTITION, 4, running.clock.now_ms())
        node_moves.log_cut(partition)
        write(running, 20)
        written = bytes(here.logs[PARTITION].read(Offset(0), max_bytes=1 << 20, end_offset=24).records)
        await asyncio.sleep(60)
        assert not node_moves.is_settling(partition)
        assert bytes(there.logs[PARTITION].read(Offset(0), max_bytes=1 << 20, end_offset=24).records) == written

    in_virtual_time(story)
