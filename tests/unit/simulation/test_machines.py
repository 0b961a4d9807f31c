"""A world of several machines on one network: each a host with its own disks, clock and node."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.simulation.client import BrokerClient, UnansweredError
from moldau.simulation.kinds import settings_of
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.world import World
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

SECOND = "second"


def tell(story):
    """Runs `story(world, second)` with the nodes of two machines started; gives its result."""
    loop = VirtualLoop()
    world = World(1, loop, settings_of(1))

    async def run():
        second = world.add_machine(SECOND, settings_of(1, SECOND), [MemoryDisk()])
        assert await world.broker.boot()
        assert await second.boot()
        return await story(world, second)

    try:
        return loop.run_until_complete(run())
    finally:
        world.end_work()
        loop.close()


async def client_of(world, machine):
    client = await BrokerClient.open(world.network, "client", machine.host, Random(1))
    client.versions[ApiKey.METADATA] = 12
    return client


async def create(client, name):
    answer = await client.request(CreateTopicsRequest((CreatableTopic(name, 1, 1),), timeout_ms=5_000))
    assert answer.topics[0].error_code == 0


async def topics_of(client):
    answer = await client.request(MetadataRequest(None))
    return sorted(topic.name for topic in answer.topics if not topic.is_internal)


def test_nodes_on_two_machines_serve_side_by_side_on_disks_of_their_own():
    async def story(world, second):
        clients = [await client_of(world, machine) for machine in (world.broker, second)]
        for client, name in zip(clients, ("first", "second"), strict=True):
            await create(client, name)
        return [await topics_of(client) for client in clients]

    assert tell(story) == [["first"], ["second"]]


@pytest.mark.parametrize("kind", ["process", "machine"])
def test_one_machine_goes_down_and_comes_back_while_the_other_one_serves(kind):
    async def story(world, second):
        await create(await client_of(world, second), "kept")
        second.kill(kind)
        with pytest.raises(UnansweredError):
            await client_of(world, second)
        first = await client_of(world, world.broker)
        await create(first, "meanwhile")
        assert await second.boot()
        return await topics_of(await client_of(world, second)), await topics_of(first), second.boots

    assert tell(story) == (["kept"], ["meanwhile"], 2)


def test_a_node_whose_only_disk_fails_stops_and_serves_after_a_restart():
    async def story(world, second):
        second.disks[0].fail(Fault("flush", "io", times=1))
        with pytest.raises(UnansweredError):
            await create(await client_of(world, second), "lost")
        await second.died.wait()
        assert second.node is None
        assert await second.boot()
        await create(await client_of(world, second), "kept")
        return await topics_of(await client_of(world, world.broker)), second.boots

    assert tell(story) == ([], 2)


def test_a_client_is_cut_off_from_one_machine_alone():
    async def story(world, second):
        first, other = await client_of(world, world.broker), await client_of(world, second)
        world.network.cut("client", SECOND, 1_000)
        served = await topics_of(first)
        waiting = asyncio.ensure_future(topics_of(other))
        await asyncio.sleep(5)
        was_waiting = not waiting.done()
        world.network.mend()
        return served, was_waiting, await waiting

    assert tell(story) == ([], True, [])


def test_the_wall_clock_of_one_machine_is_set_alone():
    async def story(world, second):
        second.clock.set_off(-5_000)
        return world.broker.clock.now_ms() - second.clock.now_ms()

    assert tell(story) == 5_000
