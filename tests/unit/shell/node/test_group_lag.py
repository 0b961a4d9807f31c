"""The lag in `/metrics` of a group's coordinator, in a cluster where not every broker has every partition."""

from __future__ import annotations

from typing import Any

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.core.metadata.image import BrokerListener
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.stories import run_by
from tests.support.three_nodes import NODE_IDS, Cluster, tell


async def ask(cluster: Cluster, broker_id: int, request: Any) -> Any:
    peer = Peer(BrokerListener("PLAINTEXT", f"node-{broker_id}", 9092), HostNetwork(cluster.network, "client"))
    try:
        return await peer.request(request, 30_000)
    finally:
        peer.close()


async def commit(cluster: Cluster, coordinator: int, *topics: str) -> None:
    """Group g has read nothing of the one partition of each topic."""
    image = cluster.nodes[coordinator].broker.image
    rows = (OffsetCommitRequestPartition(0, 0),)
    asked = tuple(OffsetCommitRequestTopic(topic, image.topic_id(topic), rows) for topic in topics)
    answer = await ask(cluster, coordinator, OffsetCommitRequest("g", topics=asked))
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {0}


@run_by(tell)
async def test_a_lag_that_the_coordinator_does_not_know_is_left_out_with_every_sum_of_it(cluster: Cluster) -> None:
    await ask(cluster, 1, FindCoordinatorRequest(coordinator_keys=("g",)))
    await cluster.until(lambda: OFFSETS_TOPIC in cluster.nodes[1].broker.image.topics_by_name)
    coordinator = cluster.nodes[1].broker.coordination.groups.leader_for("g")
    other = next(node_id for node_id in NODE_IDS if node_id != coordinator)
    await cluster.create("here", coordinator, by=1)
    await cluster.create("elsewhere", other, by=1)
    for topic, leader in (("here", coordinator), ("elsewhere", other)):
        await cluster.all_know(topic, leader, leader)

    async def lags() -> dict[str, float]:
        page = await cluster.metrics(coordinator)
        return {name: value for name, value in page.items() if "lag" in name and "group=" in name}

    await commit(cluster, coordinator, "here")
    known = {
        'kafka_consumergroup_lag{consumergroup="g",topic="here",partition="0"}': 0.0,
        'kafka_consumergroup_lag_sum{consumergroup="g",topic="here"}': 0.0,
    }
    of_group = {f'redpanda_kafka_consumer_group_lag_{kind}{{redpanda_group="g"}}': 0.0 for kind in ("sum", "max")}
    assert await lags() == known | of_group
    await commit(cluster, coordinator, "elsewhere")
    assert await lags() == known
    committed = 'kafka_consumergroup_current_offset{consumergroup="g",topic="elsewhere",partition="0"}'
    assert committed in await cluster.metrics(coordinator)
