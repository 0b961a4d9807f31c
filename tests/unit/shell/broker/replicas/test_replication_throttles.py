"""A new replica is copied at the throttled rate of leader or follower; one in sync is not throttled (KIP-73)."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.metadata.image import ConfigResource, MetadataDelta, ResourceType
from tests.support.brokers import Brokers, run_brokers

RATE = 10_000
VALUE = bytes(5_000)
COUNT = 20
"""Records: ten seconds at RATE."""


async def add_a_replica(brokers: Brokers, **configs: str) -> float:
    """Broker 1 leads and holds 100 KB, broker 2 gets a replica. Gives the seconds until it is in sync."""
    brokers.controller.create_topic("t", (1,), **configs)
    await brokers.until(lambda: brokers.machines[1].leads(), "a leader")
    for _ in range(COUNT):
        assert await brokers.produce(1, VALUE) == 0
    began_s = asyncio.get_running_loop().time()
    brokers.controller.change(replicas=(1, 2))
    await brokers.until(brokers.is_joined, "the new replica is in sync")
    return asyncio.get_running_loop().time() - began_s


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_new_replica_is_copied_no_faster_than_the_throttle_lets_it(role: str) -> None:
    async def story(brokers: Brokers) -> None:
        throttled = {f"{role}_replication_throttled_replicas": "0:1,0:2"}
        took_s = await add_a_replica(brokers, **throttled)
        assert 6 < took_s < 20

    # a batch at a time, otherwise the first fetch gets everything
    limits = {f"{role}.replication.throttled.rate": str(RATE), "replica.fetch.response.max.bytes": "6000"}
    run_brokers(story, settings=limits)


@pytest.mark.parametrize("named", ["0:9", "1:1,1:2"])
def test_a_replica_that_the_topic_does_not_name_is_copied_at_once(named: str) -> None:
    async def story(brokers: Brokers) -> None:
        took_s = await add_a_replica(
            brokers, leader_replication_throttled_replicas=named, follower_replication_throttled_replicas=named
        )
        assert took_s < 2

    limits = {f"{role}.replication.throttled.rate": "1" for role in ("leader", "follower")}
    run_brokers(story, settings=limits)


def test_who_is_in_sync_is_not_held_back() -> None:
    async def story(brokers: Brokers) -> None:
        throttled = {f"{role}_replication_throttled_replicas": "*" for role in ("leader", "follower")}
        brokers.controller.create_topic("t", (1, 2), **throttled)
        await brokers.until(lambda: brokers.machines[1].leads(), "a leader")
        began_s = asyncio.get_running_loop().time()
        for _ in range(COUNT):
            assert await brokers.produce(1, VALUE) == 0
        assert asyncio.get_running_loop().time() - began_s < 2

    limits = {f"{role}.replication.throttled.rate": "1" for role in ("leader", "follower")}
    run_brokers(story, settings=limits)


def test_a_throttle_that_is_taken_away_holds_nobody_back() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.controller.create_topic("t", (1,), leader_replication_throttled_replicas="*")
        await brokers.until(lambda: brokers.machines[1].leads(), "a leader")
        for _ in range(COUNT):
            assert await brokers.produce(1, VALUE) == 0
        brokers.controller.change(replicas=(1, 2))
        await brokers.pass_time(3)
        assert not brokers.is_joined()
        none = {ConfigResource(ResourceType.TOPIC, "t"): {}}
        brokers.controller.publish(MetadataDelta(end_offset=brokers.controller.image.end_offset, configs=none))
        began_s = asyncio.get_running_loop().time()
        await brokers.until(brokers.is_joined, "the new replica is in sync")
        assert asyncio.get_running_loop().time() - began_s < 2

    limits = {"leader.replication.throttled.rate": "100", "replica.fetch.response.max.bytes": "6000"}
    run_brokers(story, settings=limits)
