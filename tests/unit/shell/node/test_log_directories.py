"""A node with several log directories: the places of partitions, the effect of a failing one, the findings of a
start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.core.log.files.checkpoint import LOG_START_OFFSET_CHECKPOINT, encode_offsets
from moldau.core.log.log import Log
from moldau.errors import MoldauError, kafka_error
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.storage_format import read_meta_properties
from moldau.types import TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.records.batch import iterate_batches
from tests.support.log_directories import (
    append,
    described,
    fetch_error,
    start_with_one_in_each,
    start_without_second,
)
from tests.support.node import produce

pytestmark = pytest.mark.asyncio


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


async def test_new_partitions_go_where_there_is_room(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 5)
    disks[2].fail(Fault("append", "full"))
    disks[2].fail(Fault("write", "full"))
    await node.create_topic("u", 3)
    client = node.connect()
    assert [await append(client, index, "u") for index in range(3)] == [(0, 0)] * 3
    assert [name for name in disks[2].list_directory("") if name.startswith("u-")] == []
    disks[2].heal()
    await node.create_topic("v", 1)
    assert disks[2].exists("v-0"), "it has the fewest"


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
    disks[1].heal()
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


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ((0,), "the metadata log dir /disk0 has failed"),
        ((1, 0), "all log dirs in /disk0, /disk1 have failed"),
    ],
)
async def test_a_node_without_the_metadata_directory_or_without_any_halts(
    start_node: Any, failing: tuple[int, ...], reason: str
) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 4)
    client = node.connect()
    places = await described(client)
    for place in failing:
        assert node.node.failure is None
        disks[place].fail(Fault("append", "io"))
        (_, index), *_ = places[f"/disk{place}"][1]
        assert await append(client, index) == (56, -1)
        await node.turns(1)
    assert str(node.node.failure) == f"Shutdown broker because {reason}"
    assert node.node.stopped.is_set()
    assert client.wire.is_closed


@pytest.mark.parametrize("reason", ["unopened", "faulty"])
async def test_a_directory_that_is_missing_at_the_start_is_offline_and_comes_back(start_node: Any, reason: str) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node, lost = await start_with_one_in_each(start_node, disks)
    await node.node.stop()

    node = await start_without_second(start_node, disks, reason)
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


@pytest.mark.parametrize("reason", ["unopened", "faulty"])
async def test_what_a_move_left_behind_is_not_served_while_the_new_directory_is_offline(
    start_node: Any, reason: str
) -> None:
    """After a crash the old directory still exists, and lacks later records."""
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 2)
    client = node.connect()
    (index,) = [index for _, index in (await described(client))["/disk1"][1]]
    assert await append(client, index) == (0, 0)
    await node.turns(20)  # the metadata names the directory
    name = f"t-{index}"
    left = {file: disks[1].read_file(f"{name}/{file}") for file in disks[1].list_directory(name)}
    assert await append(client, index) == (0, 1)
    node.node.abort()
    disks[0].make_directory(name)
    for file, data in left.items():
        disks[0].replace_file(f"{name}/{file}", data)

    node = await start_without_second(start_node, disks, reason)
    client = node.connect()
    assert await append(client, index) == (56, -1)
    assert await fetch_error(client, index) == 56
    assert disks[0].exists(name), "it may be the last copy"
    node.node.abort()

    disks[1].faults.clear()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    assert not disks[0].exists(name)
    assert await append(node.connect(), index) == (0, 2)


async def test_a_directory_that_fails_during_the_start_takes_all_its_partitions_offline(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("made-again", 2)
    await node.node.broker.submit(DeleteTopicsRequest(topics=(DeleteTopicState(name="made-again"),), timeout_ms=1_000))
    await node.create_topic("made-again", 2)
    await node.create_topic("t", 4)
    client = node.connect()
    lost = [index for name, index in (await described(client))["/disk1"][1] if name == "t"]
    assert [await append(client, index) for index in range(4)] == [(0, 0)] * 4
    node.node.abort()

    # as if the crash had come before the second "made-again" had its directories: the checkpoints name the first one,
    # so this start writes them before it continues with the partitions of "t"
    for index, disk in enumerate(disks):
        for partition in range(2):
            disk.remove_tree(f"made-again-{partition}")
        disk.replace_file(LOG_START_OFFSET_CHECKPOINT, encode_offsets({TopicPartition("made-again", index): 1}))
    disks[1].fail(Fault("write", "io", path_contains="start-offset-checkpoint"))
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    for index in lost:
        assert await fetch_error(client, index) == 56
        request = DeleteRecordsRequest((DeleteRecordsTopic("t", (DeleteRecordsPartition(index, 1),)),), 1_000)
        answer = await client.ask(ApiKey.DELETE_RECORDS, 2, request)
        assert answer.topics[0].partitions[0].error_code == 56
    assert (await described(client))["/disk1"][0] == 56


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
    node, index = await start_with_one_in_each(start_node, disks)
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
    [known] = node.node.broker.image.brokers.values()
    assert known.cordoned_log_directories == node.node.broker.partitions.logs.cordoned_ids
    assert len(known.log_directories) == 2
    assert known.cordoned_log_directories == (node.node.broker.partitions.logs.by_path("/disk1").directory_id,)


async def test_only_the_partitions_asked_for_are_described(node: Any) -> None:
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


async def alter(client: Any, path: str, *partitions: int, topic: str = "t", version: int = 2) -> list[int]:
    directory = AlterReplicaLogDir(path, (AlterReplicaLogDirTopic(topic, partitions),))
    answer = await client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, AlterReplicaLogDirsRequest((directory,)))
    return [partition.error_code for result in answer.results for partition in result.partitions]


async def path_of(client: Any, partition: int) -> str:
    return next(path for path, (_, found, _) in (await described(client)).items() if ("t", partition) in found)


async def offsets_in(client: Any, partition: int, end_offset: int) -> list[int]:
    """Base offsets of the batches that a reader finds."""
    offsets: list[int] = []
    while not offsets or offsets[-1] < end_offset - 1:
        asked = FetchPartition(partition=partition, fetch_offset=len(offsets), partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=(FetchTopic(topic="t", partitions=(asked,)),))
        (found,) = (await client.ask(ApiKey.FETCH, 11, request)).responses[0].partitions
        assert found.error_code == 0
        offsets += [header.base_offset for _, header in iterate_batches(found.records)]
    return offsets


@pytest.mark.parametrize("how", ["clean", "crash"])
async def test_a_partition_moves_while_it_is_written(start_node: Any, how: str) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 1, segment_bytes="1048576")
    client, writer = node.connect(), node.connect()
    for offset in range(12):
        assert (await writer.ask(ApiKey.PRODUCE, 9, produce(bytes(300_000), acks=1))).responses
        assert node.node.broker.partitions.find("t", 0).log.log_end_offset == offset + 1
    old = await path_of(client, 0)
    new = "/disk1" if old == "/disk0" else "/disk0"
    source, target = (disks[int(path[-1])] for path in (old, new))
    assert await alter(client, new, 0) == [0]
    end_offset = 12
    while (node.node.broker.moves.futures or await path_of(client, 0) == old) and end_offset < 200:
        assert await append(writer, 0) == (0, end_offset)
        end_offset += 1
        await node.turns(1)
    assert await path_of(client, 0) == new
    await node.turns(50)
    assert not source.exists("t-0")
    assert await append(writer, 0) == (0, end_offset)
    assert await offsets_in(client, 0, end_offset + 1) == list(range(end_offset + 1))
    (directory_id,) = node.node.broker.image.topics_by_name["t"].partitions[0].directories
    assert directory_id == read_meta_properties(target).directory_id

    if how == "clean":
        await node.node.stop()
    else:
        node.node.abort()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    client = node.connect()
    assert await path_of(client, 0) == new
    assert await offsets_in(client, 0, end_offset + 1) == list(range(end_offset + 1))
    assert [name for name in source.list_directory("") if name.startswith("t-0")] == []


def written_epochs(log: Log) -> list[tuple[int, int]]:
    """Without the one that begins at a start."""
    return [entry for entry in log.leader_epochs.entries if entry[1] < log.log_end_offset]


async def test_a_moved_partition_keeps_its_start_its_producers_and_its_epochs(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t")
    client = node.connect()
    for sequence in range(4):
        batch = {"producer_id": 7, "producer_epoch": 2, "base_sequence": sequence, "compression": "gzip"}
        await client.ask(ApiKey.PRODUCE, 9, produce(b"v", acks=1, **batch))
    log = node.node.broker.partitions.find("t", 0).log
    log.advance_log_start_offset(2)
    before = (log.log_start_offset, log.log_end_offset, written_epochs(log), sorted(log.producer_state.entries))
    new = "/disk1" if await path_of(client, 0) == "/disk0" else "/disk0"
    assert await alter(client, new, 0) == [0]
    await node.turns(50)
    assert await path_of(client, 0) == new
    for how in ("moved", "stopped"):
        log = node.node.broker.partitions.find("t", 0).log
        after = (log.log_start_offset, log.log_end_offset, written_epochs(log), sorted(log.producer_state.entries))
        assert after == before, how
        if how == "moved":
            await node.node.stop()
            node = await start_node(disk=disks[0], further_disks=disks[1:])


class HeldWorkers:
    """Inline workers; while `is_holding`, the next piece of work waits for `release`."""

    def __init__(self) -> None:
        self.is_holding = False
        self.release: asyncio.Future[None] | None = None

    async def run(self, work: Any) -> Any:
        if self.is_holding:
            self.is_holding = False
            self.release = asyncio.get_running_loop().create_future()
            await self.release
        return work()

    async def drain(self) -> None:
        """No work is in progress when a test stops its node."""

    def close(self) -> None:
        """Nothing to stop."""


async def test_a_move_waits_for_the_flush_that_runs(start_node: Any) -> None:
    """Data that it makes durable in the old directory must be durable in the new one before that is served."""
    disks, workers = (MemoryDisk(), MemoryDisk()), HeldWorkers()
    node = await start_node(disk=disks[0], further_disks=disks[1:], workers=workers)
    await node.create_topic("t")
    client = node.connect()
    for offset in range(3):
        assert await append(client, 0) == (0, offset)
    partition = node.node.broker.partitions.find("t", 0)
    old = await path_of(client, 0)
    new = "/disk1" if old == "/disk0" else "/disk0"
    await node.turns(20)  # the metadata log has been flushed: the flush of the partition is the one that is held
    workers.is_holding = True
    node.node.broker.partitions.flusher.request(partition)
    await node.turns(3)
    assert workers.release is not None
    assert await alter(client, new, 0) == [0]
    await node.turns(200)
    assert partition.log.disk is disks[int(old[-1])]
    assert partition.log.recovery_point == 0
    workers.release.set_result(None)
    while partition.log.disk is not disks[int(new[-1])]:
        await node.turns(1)
    assert partition.log.recovery_point == 3
    while disks[int(old[-1])].exists("t-0"):
        await node.turns(1)

    node.node.abort()
    for disk in disks:
        disk.crash_machine(SeededRandom(3))
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    assert await offsets_in(node.connect(), 0, 3) == [0, 1, 2]


async def test_a_topic_deleted_while_its_move_waits_for_a_flush_blocks_no_other_move(start_node: Any) -> None:
    disks, workers = (MemoryDisk(), MemoryDisk()), HeldWorkers()
    node = await start_node(disk=disks[0], further_disks=disks[1:], workers=workers)
    await node.create_topic("t", 2)
    client = node.connect()
    for index in range(2):
        assert await append(client, index) == (0, 0)
    broker = node.node.broker
    first, second = (broker.partitions.find("t", index) for index in range(2))
    logs = broker.partitions.logs
    await node.turns(20)
    workers.is_holding = True
    broker.partitions.flusher.request(first)
    await node.turns(3)
    there = {
        index: next(each for each in logs if each is not logs.directory_of(TopicPartition("t", index)))
        for index in (0, 1)
    }
    broker.moves.move(first, there[0])
    broker.moves.move(second, there[1])
    await node.turns(50)
    broker.partitions.flusher.fail(first, kafka_error("UNKNOWN_TOPIC_OR_PARTITION"))
    first.end()
    await node.turns(5)
    workers.release.set_result(None)
    await node.turns(200)
    assert logs.directory_of(TopicPartition("t", 1)) is there[1]


async def test_a_move_that_is_asked_for_again_while_it_waits_its_turn_comes_to_its_end(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 4)
    client = node.connect()
    here = [index for _, index in (await described(client))["/disk0"][1]]
    assert len(here) == 2
    # two begin together: the second one waits for the first
    assert await alter(client, "/disk1", *here) == [0, 0]
    assert await alter(client, "/disk1", *here) == [0, 0]
    await node.turns(200)
    assert [await path_of(client, index) for index in here] == ["/disk1", "/disk1"]


async def test_where_a_partition_may_not_go(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:], unopened_paths=("/gone",))
    await node.create_topic("t", 2)
    client = node.connect()
    for path in ("", "/nowhere", "disk0", "/disk0/", "..", "/disk0/../disk1"):
        assert await alter(client, path, 0, 1) == [57, 57]
    assert await alter(client, "/gone", 0) == [56]
    assert await alter(client, "/disk0", 9) == [3]
    assert await alter(client, "/disk0", 0, topic="absent") == [3]
    assert await alter(client, await path_of(client, 0), 0, version=1) == [0]
    assert not node.node.broker.moves.futures


async def test_a_topic_deleted_on_its_way_leaves_nothing(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t", 1, file_delete_delay_ms="0")
    client = node.connect()
    for _ in range(8):
        await client.ask(ApiKey.PRODUCE, 9, produce(bytes(900_000), acks=1))
    new = "/disk1" if await path_of(client, 0) == "/disk0" else "/disk0"
    client.send(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        AlterReplicaLogDirsRequest((AlterReplicaLogDir(new, (AlterReplicaLogDirTopic("t", (0,)),)),)),
    )
    await node.turns(2)
    assert node.node.broker.moves.futures
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    await node.node.broker.submit(request)
    await node.turns(20)
    assert not node.node.broker.moves.futures
    assert [name for name in disks[int(new[-1])].list_directory("") if name.startswith("t-0")] == []


async def test_a_directory_that_lost_its_meta_properties_is_not_formatted_anew(start_node: Any) -> None:
    disk = MemoryDisk()
    await (await start_node(disk=disk)).node.stop()
    kept = disk.read_file("meta.properties")
    disk.remove("meta.properties")
    with pytest.raises(MoldauError, match=r"but no meta\.properties, which names its cluster and node"):
        await start_node(disk=disk)
    assert not disk.exists("meta.properties")
    disk.replace_file("meta.properties", kept)
    await start_node(disk=disk)


async def test_partitions_whose_metadata_is_gone_are_not_taken_for_strays(start_node: Any) -> None:
    disk = MemoryDisk()
    running = await start_node(disk=disk)
    await running.create_topic("t", 1)
    await append(running.connect(), 0)
    await running.node.stop()
    disk.remove_tree("__cluster_metadata-0")
    with pytest.raises(MoldauError, match=r"has no __cluster_metadata-0: put __cluster_metadata-0 back"):
        await start_node(disk=disk)
    assert disk.list_directory("t-0")
