"""The other brokers of the cluster in a broker's responses, from its metadata."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.metadata.image import BrokerImage, BrokerListener, MetadataDelta
from moldau.types import BrokerId, Offset, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.cluster import DescribeClusterRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
)

pytestmark = pytest.mark.asyncio

INCARNATION = Uuid(b"i" * 16)


def broker(broker_id: int, listener: str = "PLAINTEXT", *, is_fenced: bool = False) -> BrokerImage:
    points = (BrokerListener(listener, f"host{broker_id}", 9000 + broker_id),)
    return BrokerImage(BrokerId(broker_id), 7, INCARNATION, points, rack=f"rack{broker_id}", is_fenced=is_fenced)


def learn(node: Any, *others: BrokerImage, **leaders: int) -> None:
    """Gives the image of the node's broker other brokers, and other leaders for partition 0 of topics."""
    image = node.node.broker.image
    delta = MetadataDelta(end_offset=Offset(image.end_offset + 1), brokers={one.broker_id: one for one in others})
    for name, leader in leaders.items():
        topic = image.topics_by_name[name]
        partition = topic.partitions[0]
        replicas = tuple(sorted({1, *(one.broker_id for one in others)}))
        changed = type(partition)(replicas, replicas, BrokerId(leader), partition.leader_epoch, 9)
        topic.partitions[0] = delta.partitions[TopicPartition(name, 0)] = changed
        delta.topics[topic.topic_id] = topic
    image.apply_delta(delta)


async def test_metadata_names_the_brokers_that_serve_on_the_listener_that_asks(node: Any, client: Any) -> None:
    learn(node, broker(2), broker(3, is_fenced=True), broker(4, "INTERNAL"))
    answer = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=()))
    assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [
        (1, "10.0.0.1", 9092, None),
        (2, "host2", 9002, "rack2"),
    ]
    described = await client.ask(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(include_fenced_brokers=True))
    assert [(one.broker_id, one.is_fenced) for one in described.brokers] == [(1, False), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("settings", "alone", "among_others"),
    [
        # what the other brokers report of it, not the address of the connection
        ({"listeners": "PLAINTEXT://kt1:9092"}, ("kt1", 9092), ("kt1", 9092)),
        ({"advertised.listeners": "PLAINTEXT://public:19092"}, ("public", 19092), ("public", 19092)),
        # a single node has no other node to agree with
        ({"listeners": "PLAINTEXT://:9092"}, ("10.0.0.1", 9092), ("localhost", 9092)),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, ("10.0.0.1", 9092), ("localhost", 9092)),
    ],
)
async def test_a_broker_names_itself_as_it_is_registered(
    start_node: Any, settings: dict[str, str], alone: tuple[str, int], among_others: tuple[str, int]
) -> None:
    node = await start_node(settings)
    client = node.connect()

    async def own_address() -> tuple[str, int]:
        answer = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=()))
        return next((one.host, one.port) for one in answer.brokers if one.node_id == 1)

    assert await own_address() == alone
    learn(node, broker(2))
    assert await own_address() == among_others


async def test_a_broker_without_a_listener_for_brokers_is_named(node: Any, caplog: Any) -> None:
    image = node.node.broker.image
    delta = MetadataDelta(end_offset=Offset(image.end_offset + 1), brokers={BrokerId(2): broker(2, "CLIENTS")})
    image.apply_delta(delta)
    node.node.broker.metadata_changed(image, delta)
    assert "broker 2 is not reached: it has registered no listener PLAINTEXT" in caplog.text


async def test_a_leader_that_the_client_cannot_reach_is_none(node: Any, client: Any) -> None:
    for name in ("elsewhere", "none", "fenced", "internal"):
        await node.create_topic(name)
    others = broker(2), broker(3, is_fenced=True), broker(4, "INTERNAL")
    learn(node, *others, elsewhere=2, none=-1, internal=4)
    for version, code in ((12, 72), (5, 5)):
        answer = await client.ask(ApiKey.METADATA, version, MetadataRequest(topics=None))
        rows = {topic.name: topic.partitions[0] for topic in answer.topics}
        found = {name: (row.error_code, row.leader_id, row.offline_replicas) for name, row in rows.items()}
        assert found == {
            "elsewhere": (0, 2, (3, 4)),
            "none": (5, -1, (3, 4)),
            "internal": (code, -1, (3, 4)),
            "fenced": (0, 1, ()),
        }
    asked = DescribeTopicPartitionsRequest((DescribeTopicPartitionsTopicRequest("internal"),))
    page = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, asked)
    row = page.topics[0].partitions[0]
    assert (row.error_code, row.leader_id, row.offline_replicas) == (5, -1, (3, 4))


async def test_the_coordinator_of_a_group_is_the_leader_of_its_partition(start_node: Any) -> None:
    node = await start_node({"offsets.topic.num.partitions": "1"})
    client = node.connect()
    request = FindCoordinatorRequest(key="g", key_type=0)
    own = await client.ask(ApiKey.FIND_COORDINATOR, 3, request)
    assert (own.node_id, own.host, own.port) == (1, "10.0.0.1", 9092)
    for leader, expected in ((2, (0, 2, "host2", 9002)), (4, (15, -1, "", -1)), (-1, (15, -1, "", -1))):
        learn(node, broker(2), broker(4, "INTERNAL"), __consumer_offsets=leader)
        found = await client.ask(ApiKey.FIND_COORDINATOR, 3, request)
        assert (found.error_code, found.node_id, found.host, found.port) == expected
