"""Bugs once found by seeds, each as the shortest scenario that shows it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from moldau.core.log.files.checkpoint import CLEAN_SHUTDOWN_MARK
from moldau.ports import FLUSH_FAILED_MARK
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.simulation.checkers.ledger import Value
from moldau.simulation.client import BrokerClient, UnansweredError
from moldau.simulation.kinds import directory_path, has_kind, settings_of
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.scenario import Scenario
from moldau.simulation.workers import SimulatedWorkers
from moldau.simulation.workloads.producers import PlainProducer
from moldau.simulation.world import World
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)


def tell(story, seed=1, partitions=1):
    """Runs `story(world, topic)` on a new machine with a topic that flushes each batch; gives its result."""
    loop = VirtualLoop()
    world = World(seed, loop, settings_of(1))

    async def run():
        scenario = Scenario(world, 0)
        assert await world.broker.boot()
        await scenario.create_topic("flushed", partitions, {"flush.messages": "1"})
        return await story(world, scenario.topics[0])

    try:
        return loop.run_until_complete(run())
    finally:
        world.end_work()
        loop.close()


async def produce(world, topic, acks, partitions=(0,)):
    producer = PlainProducer(world, "producer", topic)
    client = await BrokerClient.open(world.network, "producer", world.broker.host, producer.random)
    batches = {index: producer.make_batch(index, [Value(producer.name, 0, True)]) for index in partitions}
    request = producer.make_request(client, batches, acks)
    answer = await client.request(request)
    assert answer.responses[0].partition_responses[0].error_code == 0


def partition_of(world):
    return next(p for p in world.broker.node.broker.partitions if p.topic_partition.topic == "flushed")


@pytest.mark.parametrize("acks", [1, -1])
def test_an_answer_waits_for_the_flush_whatever_the_acks(acks):
    async def story(world, topic):
        await produce(world, topic, acks)
        world.broker.kill("machine")
        assert await world.broker.boot()
        return partition_of(world).log.log_end_offset

    assert tell(story) == 1


class SlowToFlushPartitions(SimulatedWorkers):
    """The metadata log is flushed at once; a flush of partitions takes 20 s."""

    async def run(self, work):
        if "Flusher" in getattr(work, "__qualname__", ""):
            await asyncio.sleep(20)
        return await super().run(work)


def test_a_node_serves_only_when_what_it_recovered_is_below_the_high_watermark_again():
    async def story(world, topic):
        await produce(world, topic, -1)
        world.broker.kill("process")
        world.broker.make_workers = SlowToFlushPartitions
        assert await world.broker.boot()
        partition = partition_of(world)
        return partition.high_watermark, partition.log.log_end_offset

    assert tell(story) == (1, 1)


def test_a_stop_waits_for_the_flush_that_is_under_way():
    """Two writers of one leader-epoch-checkpoint.tmp: the stop failed, and left no clean-shutdown mark."""

    async def story(world, topic):
        weather = world.broker.worker_weather
        weather.delay_max, weather.interrupted_share, weather.stop_share = 0.1, 1.0, 1.0
        asyncio.ensure_future(produce(world, topic, -1, range(20))).add_done_callback(lambda task: task.exception())
        await asyncio.sleep(world.random_of("stop").uniform(0, 2))
        is_stopped = await world.broker.stop()
        return is_stopped, world.broker.disks[0].exists(CLEAN_SHUTDOWN_MARK), tuple(world.trace.told)

    for seed in range(1, 11):
        is_stopped, is_marked, told = tell(story, seed, partitions=20)
        assert is_stopped, told
        assert is_marked, told


def while_it_moves(ask):
    """Calls `ask(client, topic)` ten times while a partition with one record moves to the other log directory, a little
    later each time; gives the results."""

    async def story(world, topic):
        await produce(world, topic, -1)
        world.broker.worker_weather.delay_max = 1.0
        asker = await BrokerClient.open(world.network, "asker", world.broker.host, Random(1))
        mover = await BrokerClient.open(world.network, "mover", world.broker.host, Random(2))
        answers = []
        for turn in range(10):
            await asyncio.sleep(20)  # the earlier move has ended
            answer = ask(asker, topic)
            await asyncio.sleep(0.2 * turn)
            wanted = AlterReplicaLogDir(directory_path(1 - turn % 2), (AlterReplicaLogDirTopic(topic.name, (0,)),))
            await mover.request(AlterReplicaLogDirsRequest((wanted,)))
            answers.append(await answer)
        await world.broker.stop()
        return answers

    return tell(story, next(seed for seed in range(50) if has_kind(seed, "directories")))


def test_a_partition_that_moves_while_the_log_directories_are_told_is_told_once():
    def ask(client, topic):
        return client.send(DescribeLogDirsRequest(topics=None))

    for answer in while_it_moves(ask):
        places = [one.log_dir for one in answer.results for found in one.topics if found.name == "flushed"]
        assert len(places) == 1


@pytest.mark.parametrize("timestamp", [0, -3])
def test_a_time_is_found_in_a_partition_that_moves_meanwhile(timestamp):
    def ask(client, topic):
        client.versions[ApiKey.LIST_OFFSETS] = 7
        searched = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        return client.send(ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(topic.name, (searched,)),)))

    for answer in while_it_moves(ask):
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.offset) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_a_deletion_is_not_acknowledged_by_a_directory_that_just_failed(seed):
    """The worker knows that a flush failed before the loop does; then power is lost."""

    async def story(world, topic):
        for _ in range(10):
            await produce(world, topic, -1)
        world.broker.worker_weather.delay_max = 1.0
        world.broker.disks[0].fail(Fault("flush", "io", ".log", times=1))
        clients = [await BrokerClient.open(world.network, f"{n}", world.broker.host, Random(n)) for n in range(10)]
        producer = PlainProducer(world, "last", topic)
        batch = producer.make_batch(0, [Value(producer.name, 0, True)])
        clients[0].send(producer.make_request(clients[0], {0: batch}, -1))
        answers = []
        for offset, client in enumerate(clients[1:], 1):
            await asyncio.sleep(0.15)
            item = DeleteRecordsPartition(partition_index=0, offset=offset)
            request = DeleteRecordsRequest((DeleteRecordsTopic(topic.name, (item,)),), timeout_ms=5_000)
            with suppress(UnansweredError):  # the node halts once the loop knows it
                answers.append(client.send(request))
        deleted = 0
        for answer in answers:
            with suppress(UnansweredError):
                deleted = max(deleted, (await answer).topics[0].partitions[0].low_watermark)
        assert not world.broker.is_alive
        world.broker.lose_power()
        assert await world.broker.boot()
        return deleted, partition_of(world).log.log_start_offset

    deleted, log_start_offset = tell(story, seed)
    assert log_start_offset >= deleted


@pytest.mark.parametrize("restarts", [1, 2])
def test_what_a_later_process_serves_after_a_failed_flush_survives_a_loss_of_power(restarts):
    async def story(world, topic):
        await produce(world, topic, -1)
        world.broker.disks[0].fail(Fault("flush", "io", "flushed-0", times=1))
        with pytest.raises((AssertionError, UnansweredError)):
            await produce(world, topic, -1)
        for _ in range(restarts):
            world.broker.kill("process")
            assert await world.broker.boot()
        # the record that was rejected is now served
        assert partition_of(world).high_watermark == 2
        await produce(world, topic, -1)
        world.broker.kill("machine")
        assert await world.broker.boot()
        assert not world.broker.disks[0].exists(FLUSH_FAILED_MARK)
        return partition_of(world).high_watermark

    assert tell(story) == 3
