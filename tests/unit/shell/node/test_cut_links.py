"""Links between nodes are cut, and connections reset: live brokers are not fenced, and writers do not wait for long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.core.metadata.image import BrokerListener
from moldau.errors import ERROR_CODES
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.network import End, SimulatedNetwork
from moldau.wire.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.records.builder import build_batch
from tests.support.stories import run_by
from tests.support.three_nodes import NODE_IDS, Cluster, tell

SESSION_S = 9
"""`broker.session.timeout.ms`"""
MOST_S = 4.0
"""Until a write is acknowledged after a follower's connection was silently lost: two seconds to notice, and up to
another two for a new connection."""

PRODUCER_IDS_S = 5.1
"""Until a client learns that a broker has no producer ids."""


class UnwatchedNetwork(HostNetwork):
    """Of a node that leaves a connection to TCP, like Apache Kafka's nodes."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        super().__init__(network, host)
        self._all, self._name = network, host

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: object = None) -> End:
        return await self._all.connect(self._name, host, port, protocol)


async def leader_and_follower(cluster: Cluster) -> tuple[int, int]:
    """The node whose controller is active, and another one."""
    for node_id in NODE_IDS:
        if await cluster.leads_quorum(node_id):
            return node_id, next(one for one in NODE_IDS if one != node_id)
    raise AssertionError("no controller is active")


async def was_fenced(cluster: Cluster, active: int, broker_id: int, duration_s: float) -> bool:
    """Whether the broker is fenced at any time until then."""
    end_s = cluster.loop.time() + duration_s
    while cluster.loop.time() < end_s:
        if cluster.nodes[active].broker.image.brokers[broker_id].is_fenced:
            return True
        await cluster.pass_time(0.02)
    return False


def connections_between(cluster: Cluster, client: int, server: int, port: int) -> list[Any]:
    names = f"node-{client}", f"node-{server}", port
    return [
        each
        for each in cluster.network.connections.values()
        if (each.client.name, each.server.name, each.port) == names
    ]


@pytest.mark.parametrize("length_s", [1.5, 3.0, 4.6, 5.5, 6.0])
@pytest.mark.parametrize("ways", ["both", "there", "back"])
@run_by(tell)
async def test_a_cut_that_is_shorter_than_the_session_fences_no_broker_that_lives(
    cluster: Cluster, *, length_s: float, ways: str
) -> None:
    active, broker_id = await leader_and_follower(cluster)
    for start_s in (0.1, 0.9, 1.7):
        await cluster.pass_time(start_s)
        here, there = f"node-{broker_id}", f"node-{active}"
        if ways != "back":
            cluster.network.cut(here, there, length_s)
        if ways != "there":
            cluster.network.cut(there, here, length_s)
        assert not await was_fenced(cluster, active, broker_id, length_s + SESSION_S + 3)


@run_by(tell)
async def test_a_late_heartbeat_on_an_old_connection_makes_no_broker_suspect(cluster: Cluster) -> None:
    active, broker_id = await leader_and_follower(cluster)
    broker = cluster.nodes[active].broker.image.brokers[broker_id]
    request = BrokerHeartbeatRequest(broker_id, broker.epoch, cluster.nodes[active].quorum.high_watermark - 1)
    address = BrokerListener("CONTROLLER", f"node-{active}", 9093)
    old = Peer(address, UnwatchedNetwork(cluster.network, f"node-{broker_id}"))
    assert (await old.request(request, 1_000)).error_code == 0
    for connection in connections_between(cluster, broker_id, active, 9093):
        if connection.is_watched:
            cluster.network.reset(connection)
    await cluster.pass_time(1)
    assert (await old.request(request, 1_000)).error_code == 0
    old.close()
    assert not await was_fenced(cluster, active, broker_id, 3)


@run_by(tell)
async def test_a_heartbeat_connection_reset_at_the_controller_fences_no_live_broker(cluster: Cluster) -> None:
    active, broker_id = await leader_and_follower(cluster)
    for start_s in (0.1, 0.6, 1.1, 1.6):
        await cluster.pass_time(start_s)
        for connection in connections_between(cluster, broker_id, active, 9093):
            cluster.network.tear(connection.server)
        assert not await was_fenced(cluster, active, broker_id, 4)


@pytest.mark.parametrize("fault", ["there", "back", "both", "reset at the leader", "reset at the follower"])
@run_by(tell)
async def test_a_write_waits_only_seconds_for_a_follower_with_a_lost_connection(
    cluster: Cluster, *, fault: str
) -> None:
    await cluster.create_known("t", 1, 2, 3, by=1)
    topic_id = cluster.nodes[1].broker.image.topic_id("t")
    peer = Peer(BrokerListener("PLAINTEXT", "node-1", 9092), HostNetwork(cluster.network, "client"))

    async def write() -> float:
        """Gives its duration."""
        began_s = cluster.loop.time()
        batch = bytes(build_batch([(None, b"v", cluster.clock.now_ms(), ())]))
        topic = TopicProduceData(topic_id=topic_id, partition_data=(PartitionProduceData(0, batch),))
        answer = await peer.request(ProduceRequest(None, -1, 30_000, (topic,)), 30_000)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return cluster.loop.time() - began_s

    assert await write() < 0.5
    cut_s = 3.0
    if fault in ("there", "both"):
        cluster.network.cut("node-2", "node-1", cut_s)
    if fault in ("back", "both"):
        cluster.network.cut("node-1", "node-2", cut_s)
    for connection in connections_between(cluster, 2, 1, 9092):
        if fault.startswith("reset"):
            cluster.network.tear(connection.server if fault.endswith("leader") else connection.client)
    assert await write() < (MOST_S if fault.startswith("reset") else cut_s + 2)
    assert await write() < 0.5


@run_by(tell)
async def test_a_broker_cut_from_the_controller_soon_reports_a_lack_of_producer_ids(cluster: Cluster) -> None:
    active, broker_id = await leader_and_follower(cluster)
    peer = Peer(BrokerListener("PLAINTEXT", f"node-{broker_id}", 9092), HostNetwork(cluster.network, "client"))
    asked = InitProducerIdRequest(None, 60_000)
    cluster.network.cut(f"node-{broker_id}", f"node-{active}", SESSION_S)
    began_s = cluster.loop.time()
    answer = await peer.request(asked, 60_000)
    assert (answer.error_code, answer.producer_id) == (ERROR_CODES["COORDINATOR_LOAD_IN_PROGRESS"], -1)
    assert cluster.loop.time() - began_s <= PRODUCER_IDS_S
    await cluster.pass_time(2 * SESSION_S)
    assert (await peer.request(asked, 60_000)).error_code == 0
