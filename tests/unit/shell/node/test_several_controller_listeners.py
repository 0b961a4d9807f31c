"""Controllers with several listeners: all are served and registered, and nodes move from one to the other in turn."""

from __future__ import annotations

from moldau.core.metadata.image import BrokerListener
from moldau.shell.network.authenticating import SUCCESSES
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.cluster import DescribeClusterRequest
from tests.support.stories import run_by
from tests.support.three_nodes import NODE_IDS, Cluster, tell

TIMEOUT_MS = 5_000
MODULE = f'{PLAIN_MODULE} required username="node" password="of-nodes" user_node="of-nodes";'
SASL = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OPEN:PLAINTEXT,SASL:SASL_PLAINTEXT,CLOSED:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": MODULE,
    "listener.name.closed.plain.sasl.jaas.config": MODULE,
}


def listeners(node_id: int, **ports: int) -> str:
    return ",".join(f"{name}://node-{node_id}:{port}" for name, port in ports.items())


def voters(port: int) -> str:
    return ",".join(f"{node_id}@node-{node_id}:{port}" for node_id in NODE_IDS)


def open_alone(node_id: int) -> dict[str, str]:
    return SASL | {"listeners": listeners(node_id, PLAINTEXT=9092, OPEN=9093), "controller.listener.names": "OPEN"}


def both(node_id: int) -> dict[str, str]:
    return SASL | {
        "listeners": listeners(node_id, CLOSED=9095, PLAINTEXT=9092, OPEN=9093, SASL=9094),
        "controller.listener.names": "OPEN,CLOSED",
    }


def closed_first(node_id: int) -> dict[str, str]:
    return both(node_id) | {
        "controller.listener.names": "CLOSED,OPEN",
        "controller.quorum.voters": voters(9095),
        "inter.broker.listener.name": "SASL",
    }


def closed_alone(node_id: int) -> dict[str, str]:
    return closed_first(node_id) | {
        "listeners": listeners(node_id, SASL=9094, CLOSED=9095),
        "controller.listener.names": "CLOSED",
    }


@run_by(tell, {node_id: both(node_id) for node_id in NODE_IDS})
async def test_all_are_registered_and_served_and_the_first_is_that_of_the_nodes(cluster: Cluster) -> None:
    controllers = cluster.nodes[1].quorum.image.controllers
    await cluster.until(lambda: len(controllers) == 3)
    known = [(each.name, each.port, each.security_protocol) for each in controllers[2].listeners]
    assert known == [("OPEN", 9093, 0), ("CLOSED", 9095, 2)]
    assert sum(node.telemetry.value(SUCCESSES, "CLOSED") for node in cluster.nodes.values()) == 0
    peer = Peer(BrokerListener("OPEN", "node-3", 9093), HostNetwork(cluster.network, "node-1"))
    answer = await peer.request(DescribeClusterRequest(endpoint_type=2), TIMEOUT_MS)
    peer.close()
    assert [row.port for row in answer.brokers] == [9093] * 3
    await cluster.create_known("t", 1, 2, 3, by=1)


@run_by(tell, {node_id: open_alone(node_id) for node_id in NODE_IDS})
async def test_a_cluster_leaves_its_open_listeners_by_rolling_restarts(cluster: Cluster) -> None:
    number = 0
    for step in (both, closed_first, closed_alone):
        for node_id in NODE_IDS:
            await cluster.stop(node_id)
            await cluster.start(node_id, settings=step(node_id))
            number += 1
            await cluster.create(f"t{number}", 1, 2, 3, by=node_id)
            await cluster.all_know(f"t{number}", 1, 1, 2, 3)
    for node_id in NODE_IDS:
        [point] = cluster.nodes[1].quorum.image.controllers[node_id].listeners
        assert point.name == "CLOSED"
    assert sum(node.telemetry.value(SUCCESSES, "CLOSED") for node in cluster.nodes.values()) > 0
