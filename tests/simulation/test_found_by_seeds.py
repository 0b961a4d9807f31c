"""What seeds once found, each as the shortest story that shows it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.core.log.checkpoint import CLEAN_SHUTDOWN_MARK
from moldau.simulation.checkers.ledger import Value
from moldau.simulation.client import BrokerClient
from moldau.simulation.kinds import settings_of
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.scenario import Scenario
from moldau.simulation.workers import SimulatedWorkers
from moldau.simulation.workloads.producers import PlainProducer
from moldau.simulation.world import World
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.produce import ProduceResponse


def tell(story, seed=1, partitions=1):
    """Runs `story(world, topic)` on a fresh machine with a topic that flushes each batch; gives its result."""
    loop = VirtualLoop()
    world = World(seed, loop, settings_of(Random(1).randrange))

    async def run():
        scenario = Scenario(world, 0)
        assert await world.boot()
        await scenario.create_topic("flushed", partitions, {"flush.messages": "1"})
        return await story(world, scenario.topics[0])

    try:
        return loop.run_until_complete(run())
    finally:
        world.end_work()
        loop.close()


async def produce(world, topic, acks, partitions=(0,)):
    producer = PlainProducer(world, "producer", topic)
    client = await BrokerClient.open(world.network, "producer", world.port, producer.random)
    batches = {index: producer.make_batch(index, [Value(producer.name, 0, True)]) for index in partitions}
    request = producer.make_request(client, batches, acks)
    answer = await client.request(ApiKey.PRODUCE, request, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0


def partition_of(world):
    return next(p for p in world.node.broker.partitions if p.topic_partition.topic == "flushed")


@pytest.mark.parametrize("acks", [1, -1])
def test_an_answer_waits_for_the_flush_whatever_the_acks(acks):
    async def story(world, topic):
        await produce(world, topic, acks)
        world.kill("machine")
        assert await world.boot()
        return partition_of(world).log.log_end_offset

    assert tell(story) == 1


class SlowToFlushPartitions(SimulatedWorkers):
    """The metadata log is flushed at once, partitions take 20 s."""

    async def run(self, work):
        if "Flusher" in work.__qualname__:
            await asyncio.sleep(20)
        return await super().run(work)


def test_a_node_serves_only_when_what_it_recovered_is_below_the_high_watermark_again(monkeypatch):
    async def story(world, topic):
        await produce(world, topic, -1)
        world.kill("process")
        monkeypatch.setattr("moldau.simulation.world.SimulatedWorkers", SlowToFlushPartitions)
        assert await world.boot()
        partition = partition_of(world)
        return partition.high_watermark, partition.log.log_end_offset

    assert tell(story) == (1, 1)


def test_a_stop_waits_for_the_flush_that_is_under_way():
    """Two writers of one leader-epoch-checkpoint.tmp: the stop failed, and left no mark."""

    async def story(world, topic):
        weather = world.worker_weather
        weather.delay_max, weather.interrupted_share, weather.stop_share = 0.1, 1.0, 1.0
        asyncio.ensure_future(produce(world, topic, -1, range(20))).add_done_callback(lambda task: task.exception())
        await asyncio.sleep(world.random.uniform(0, 2))
        is_stopped = await world.stop()
        return is_stopped, world.disks[0].exists(CLEAN_SHUTDOWN_MARK), tuple(world.trace.told)

    for seed in range(1, 11):
        is_stopped, is_marked, told = tell(story, seed, partitions=20)
        assert is_stopped, told
        assert is_marked, told
