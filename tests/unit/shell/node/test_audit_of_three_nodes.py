"""The audit log of three nodes: the controller logs a forwarded request, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.peers.logins import NetworkWithLogins
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.support.three_nodes import NODE_IDS, Cluster, tell

CLIENT_ADDRESS = "10.0.0.9"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def settings_of(node_id: int, path: Path) -> dict[str, str]:
    users = "".join(f' user_{user}="of-{user}"' for user in ("node", "alice", "bob"))
    module = f'{PLAIN_MODULE} required username="node" password="of-node"{users};'
    return {
        "listeners": f"SASL://node-{node_id}:9092,CONTROLLER://node-{node_id}:9093",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": module,
        "listener.name.controller.plain.sasl.jaas.config": module,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node;User:alice",
        "moldau.audit.file": str(path / f"audit-{node_id}"),
    }


def client_of(cluster: Cluster, name: str, node_id: int) -> Peer:
    """A connection to this broker, logged in with this name."""
    credentials = {"SASL": Credentials("PLAIN", name, f"of-{name}")}
    network = HostNetwork(cluster.network, CLIENT_ADDRESS)
    logging_in = NetworkWithLogins(network, credentials, SeededRandom(node_id), InlineWorkers())
    return Peer(BrokerListener("SASL", f"node-{node_id}", 9092), logging_in)


async def roles(cluster: Cluster) -> tuple[int, int]:
    """The active controller, and a broker that is not."""
    (leader,) = [one for one in NODE_IDS if await cluster.leads_quorum(one)]
    return leader, next(one for one in NODE_IDS if one != leader)


async def stop_all(cluster: Cluster, *clients: Peer) -> None:
    for client in clients:
        client.close()
    for node_id in list(cluster.nodes):
        await cluster.stop(node_id)


def test_a_forwarded_request_is_written_down_once_by_the_controller_for_its_client(tmp_path: Path) -> None:
    found: dict[str, int] = {}

    async def story(cluster: Cluster) -> None:
        leader, other = await roles(cluster)
        found["leader"] = leader
        alice, near = client_of(cluster, "alice", other), client_of(cluster, "alice", leader)
        topics = (CreatableTopic("far", 1, 1),)
        assert (await alice.request(CreateTopicsRequest(topics), 10_000)).topics[0].error_code == 0
        acl = AclCreation(2, "far", 3, "User:bob", "*", 3, 3)
        assert (await alice.request(CreateAclsRequest((acl,)), 10_000)).results[0].error_code == 0
        config = IncrementalAlterableConfig("retention.ms", 0, "60000")
        change = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(2, "far", (config,)),))
        assert (await alice.request(change, 10_000)).responses[0].error_code == 0
        near_topics = (CreatableTopic("near", 1, 1),)
        assert (await near.request(CreateTopicsRequest(near_topics), 10_000)).topics[0].error_code == 0
        await stop_all(cluster, alice, near)

    tell(story, {node_id: settings_of(node_id, tmp_path) for node_id in NODE_IDS})
    leader = found["leader"]
    written = {node_id: lines(tmp_path / f"audit-{node_id}") for node_id in NODE_IDS}
    assert [written[node_id] for node_id in NODE_IDS if node_id != leader] == [[], []]
    rows = [(line["principal"], line["operation"], line["resource"], line["result"]) for line in written[leader]]
    assert rows == [
        ("User:alice", "CREATE_TOPICS", "far", "allowed"),
        ("User:alice", "CREATE_ACLS", "far", "allowed"),
        ("User:alice", "INCREMENTAL_ALTER_CONFIGS", "far", "allowed"),
        ("User:alice", "CREATE_TOPICS", "near", "allowed"),
    ]
    assert {line["address"] for line in written[leader]} == {CLIENT_ADDRESS}
    assert ["forwarded_by" in line for line in written[leader]] == [True, True, True, False]
    assert "60000" not in (tmp_path / f"audit-{leader}").read_text()


def test_a_broker_writes_down_what_it_denies_itself(tmp_path: Path) -> None:
    found: dict[str, int] = {}

    async def story(cluster: Cluster) -> None:
        _, other = await roles(cluster)
        found["other"] = other
        bob = client_of(cluster, "bob", other)
        answer = await bob.request(CreateTopicsRequest((CreatableTopic("x", 1, 1),)), 10_000)
        assert answer.topics[0].error_code == 29
        await stop_all(cluster, bob)

    tell(story, {node_id: settings_of(node_id, tmp_path) for node_id in NODE_IDS})
    written = {node_id: lines(tmp_path / f"audit-{node_id}") for node_id in NODE_IDS}
    (line,) = written.pop(found["other"])
    assert (line["event"], line["principal"], line["operation"]) == ("authorization", "User:bob", "Create")
    assert list(written.values()) == [[], []]


def test_what_only_the_controller_denies_is_written_down_there_for_its_client(tmp_path: Path) -> None:
    """A broker that has more super users than the controller gives them no further rights."""
    found: dict[str, int] = {}

    async def story(cluster: Cluster) -> None:
        leader, other = await roles(cluster)
        found["leader"] = leader
        await cluster.stop(other)
        await cluster.start(other, settings={"super.users": "User:node;User:alice;User:bob"})
        assert await cluster.leads_quorum(leader)
        bob = client_of(cluster, "bob", other)
        answer = await bob.request(CreateTopicsRequest((CreatableTopic("x", 1, 1),)), 10_000)
        assert answer.topics[0].error_code == 29
        assert "x" not in cluster.nodes[leader].broker.image.topics_by_name
        await stop_all(cluster, bob)

    tell(story, {node_id: settings_of(node_id, tmp_path) for node_id in NODE_IDS})
    (line,) = lines(tmp_path / f"audit-{found['leader']}")
    assert (line["event"], line["principal"], line["operation"], line["resource"]) == (
        "authorization",
        "User:bob",
        "Create",
        "x",
    )
    assert line["forwarded_by"]
