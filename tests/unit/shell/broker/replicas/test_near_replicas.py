"""A consumer reads from a replica in its own rack, up to the offset that all in-sync replicas have (KIP-392)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from moldau.core.config.broker_settings import RACK_AWARE, parse_broker_settings
from moldau.errors import ERROR_CODES, KafkaError
from moldau.types import BrokerId, LeaderEpoch
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.brokers import Brokers, run_brokers
from tests.support.node import BROKER_EPOCH, change, data_of, fetch, produce, register, values_of

NEAR, FAR = 7, 8
SELECTOR = {"replica.selector.class": RACK_AWARE, "broker.rack": "here"}
NOT_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]


async def led_here(start_node: Any, settings: dict[str, str] | None = None) -> Any:
    """Topic t: this broker leads; 7 in rack "there" and 8 without a rack hold the other replicas. It has one record."""
    node = await start_node(settings)
    await node.create_topic("t")
    register(node, NEAR, rack="there")
    register(node, FAR)
    everybody = (node.node.node_id, NEAR, FAR)
    change(node, replicas=everybody, isr=everybody, leader_epoch=LeaderEpoch(5))
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
    return node


async def follow(node: Any, replica_id: int, offset: int) -> None:
    """The follower has everything below `offset`."""
    topic_id = node.node.broker.image.topic_id("t")
    partition = FetchPartition(0, 5, offset, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    request = FetchRequest(replica_state=ReplicaState(replica_id, BROKER_EPOCH), topics=topics)
    assert data_of(await node.connect().ask(ApiKey.FETCH, 17, request)).error_code == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(("version", "rack", "named"), [(11, "there", NEAR), (12, "there", NEAR), (12, "here", -1)])
async def test_the_leader_names_the_replica_in_the_rack_of_the_consumer(
    start_node: Any, version: int, rack: str, named: int
) -> None:
    node = await led_here(start_node, SELECTOR)
    for replica_id in (NEAR, FAR):
        await follow(node, replica_id, 1)
    answer = await node.connect().ask(ApiKey.FETCH, version, fetch(0, rack_id=rack, max_wait_ms=60_000))
    row = data_of(answer)
    assert (row.error_code, row.preferred_read_replica, row.high_watermark) == (0, named, 1)
    assert values_of(answer) == ([] if named == NEAR else [b"a"])


@pytest.mark.asyncio
async def test_only_a_replica_that_has_the_offset_and_is_in_sync_is_named(start_node: Any) -> None:
    node = await led_here(start_node, SELECTOR)
    client = node.connect()
    await follow(node, NEAR, 0)
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(1, rack_id="there"))).preferred_read_replica == -1
    await follow(node, NEAR, 1)
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(1, rack_id="there"))).preferred_read_replica == NEAR
    change(node, isr=(node.node.node_id, FAR))
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(1, rack_id="there"))).preferred_read_replica == -1


@pytest.mark.asyncio
async def test_without_a_selector_the_leader_serves_everybody(start_node: Any) -> None:
    node = await led_here(start_node)
    for replica_id in (NEAR, FAR):
        await follow(node, replica_id, 1)
    assert values_of(await node.connect().ask(ApiKey.FETCH, 12, fetch(0, rack_id="there"))) == [b"a"]


def test_a_selector_that_is_not_known_refuses_the_start() -> None:
    with pytest.raises(KafkaError, match=r"replica\.selector\.class must be"):
        parse_broker_settings({"replica.selector.class": "com.example.Mine"})


def test_a_follower_serves_consumers_up_to_its_high_watermark() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.controller.create_topic("t", (1, 2))
        await brokers.until(lambda: brokers.machines[1].leads(), "a leader")
        assert await brokers.produce(1, b"a", b"b") == 0
        await brokers.until(brokers.is_whole, "all replicas have everything")
        peer = brokers.peer(2)
        assert values_of(await peer.request(ask(brokers, 0), 5_000)) == [b"a", b"b"]
        assert data_of(await peer.request(ask(brokers, 9), 5_000)).error_code == ERROR_CODES["OFFSET_OUT_OF_RANGE"]

    run_brokers(story)


def test_a_consumer_that_waits_at_a_follower_gets_what_the_follower_copies() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.controller.create_topic("t", (1, 2))
        await brokers.until(lambda: brokers.machines[1].leads() and brokers.machines[2].has_topic("t"), "replicas")
        waiting = asyncio.ensure_future(brokers.peer(2).request(ask(brokers, 0, max_wait_ms=30_000), 60_000))
        await brokers.pass_time(1)
        began_s = asyncio.get_running_loop().time()
        assert await brokers.produce(1, b"a") == 0
        assert values_of(await waiting) == [b"a"]
        assert asyncio.get_running_loop().time() - began_s < 2

    run_brokers(story)


def test_where_followers_serve_their_rack_they_hear_of_the_high_watermark_at_once() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.controller.create_topic("t", (1, 2))
        await brokers.until(lambda: brokers.machines[1].leads() and brokers.machines[2].has_topic("t"), "replicas")
        await brokers.pass_time(2)
        reader = brokers.peer(2)
        for offset in range(5):
            waiting = asyncio.ensure_future(reader.request(ask(brokers, offset, max_wait_ms=30_000), 60_000))
            await brokers.pass_time(0.7)
            assert await brokers.produce(1, b"a") == 0
            committed_s = asyncio.get_running_loop().time()
            assert values_of(await waiting) == [b"a"]
            assert asyncio.get_running_loop().time() - committed_s < 0.1

    run_brokers(story, settings={"replica.selector.class": RACK_AWARE})


@pytest.mark.asyncio
async def test_a_consumer_of_an_old_version_must_read_from_the_leader(start_node: Any) -> None:
    node = await led_here(start_node)
    change(node, leader=BrokerId(NEAR), leader_epoch=LeaderEpoch(6))
    assert data_of(await node.connect().ask(ApiKey.FETCH, 10, fetch(0))).error_code == NOT_LEADER
    assert data_of(await node.connect().ask(ApiKey.FETCH, 11, fetch(0))).error_code == 0


def ask(brokers: Brokers, offset: int, **fields: Any) -> FetchRequest:
    """In the newest version."""
    topic_id = brokers.controller.image.topic_id("t")
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(min_bytes=1, topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),))
    return msgspec.structs.replace(request, **fields)
