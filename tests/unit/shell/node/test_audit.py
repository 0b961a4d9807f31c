"""The audit log of a node, and of three."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.client.protocol.sasl import Credentials
from moldau.core.auditing.repeated import CLIENT_LINES, WINDOW_MS
from moldau.core.authentication.jaas import PLAIN_MODULE
from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.core.metadata.image import BrokerListener
from moldau.errors import KafkaError
from moldau.shell.io.twins.random import SeededRandom
from moldau.shell.io.twins.workers import InlineWorkers
from moldau.shell.network.audit import DROPPED, NOT_WRITTEN
from moldau.shell.peers.logins import NetworkWithLogins
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.node import produce
from tests.support.three_nodes import NODE_IDS, Cluster, tell
from tests.unit.shell.conftest import NodeUnderTest, StartNode
from tests.unit.shell.node.test_sasl_listener import SETTINGS, InVirtualTime, log_in

ALICE, BOB = Credentials("PLAIN", "alice", "secret"), Credentials("PLAIN", "bob", "other")
AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node;User:alice"}
CLIENT_ADDRESS = "10.0.0.9"
NEW_TOPIC = CreateTopicsRequest(topics=(CreatableTopic("new\n\x1b[2J", 1, 1), CreatableTopic("t", 1, 1)))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def story(run: InVirtualTime, path: Path, tell: Callable[[NodeUnderTest], Awaitable[None]], **settings: str) -> None:
    async def start(start_node: StartNode) -> None:
        more = {name.replace("_", "."): text for name, text in settings.items()}
        node = await start_node({**SETTINGS, **AUTHORIZED, "moldau.audit.file": str(path), **more})
        await tell(node)
        await node.node.stop()

    run(start)


def test_refusals_and_changes_are_written_down(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        with pytest.raises(KafkaError):
            await log_in(node.connect(), Credentials("PLAIN", "alice", "mistaken"))
        alice, bob = node.connect(), node.connect()
        await log_in(alice, ALICE)
        await log_in(bob, BOB)
        for client in (alice, bob):
            client.send(ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
            await asyncio.sleep(1)
        bob.send(ApiKey.PRODUCE, 9, produce())
        bob.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert bob.answers()[-1].topics == ()

    path = tmp_path / "audit"
    story(in_virtual_time, path, tell)
    written = lines(path)
    assert [line["event"] for line in written] == [
        "authentication",
        "change",
        "change",
        "authorization",
        "authorization",
        "authorization",
    ]
    assert all(line["address"] and line["listener"] == "SASL" for line in written)
    of_alice = [line for line in written if line.get("principal") == "User:alice"]
    assert [(line["operation"], line["resource_type"], line["result"]) for line in of_alice] == [
        ("CREATE_TOPICS", "topic", "INVALID_TOPIC_EXCEPTION"),
        ("CREATE_TOPICS", "topic", "allowed"),
    ]
    assert of_alice[1]["detail"] == "partitions 1, replication factor 1"
    of_bob = [line for line in written if line.get("principal") == "User:bob"]
    assert [(line["operation"], line["resource"], line["detail"], line["result"]) for line in of_bob] == [
        ("Create", "new\n\x1b[2J", "CREATE_TOPICS", "denied"),
        ("Create", "t", "CREATE_TOPICS", "denied"),
        ("Write", "t", "PRODUCE", "denied"),
    ]
    text = path.read_text()
    assert "\x1b" not in text
    assert "mistaken" not in text
    assert "secret" not in text


def test_a_client_that_is_refused_again_and_again_fills_no_file(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        bob = node.connect()
        await log_in(bob, BOB)
        for _ in range(500):
            bob.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("x", 1, 1),)))
        assert node.node.telemetry.value(NOT_WRITTEN) == 500 - CLIENT_LINES
        await asyncio.sleep(2 * WINDOW_MS / 1_000)

    story(in_virtual_time, tmp_path / "audit", tell)
    written = lines(tmp_path / "audit")
    assert len(written) == CLIENT_LINES + 1
    assert (written[-1]["event"], written[-1]["left_out"]) == ("left out", 500 - CLIENT_LINES)


def test_a_file_that_cannot_be_written_stops_nothing(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    path = tmp_path / "absent" / "audit"

    async def tell(node: NodeUnderTest) -> None:
        alice = node.connect()
        await log_in(alice, ALICE)
        alice.send(ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
        await asyncio.sleep(1)
        assert [topic.error_code for topic in alice.answers()[-1].topics] == [17, 0]
        assert node.node.telemetry.value(DROPPED) == 2
        path.parent.mkdir()
        alice.send(ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
        await asyncio.sleep(1)

    story(in_virtual_time, path, tell)
    assert [line["result"] for line in lines(path)] == ["INVALID_TOPIC_EXCEPTION", "TOPIC_ALREADY_EXISTS"]


def test_a_full_queue_drops_and_counts(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        alice = node.connect()
        await log_in(alice, ALICE)
        topics = tuple(CreatableTopic(f"t{number}", 1, 1) for number in range(20))
        alice.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
        await asyncio.sleep(1)
        assert node.node.telemetry.value(DROPPED) == 15

    story(in_virtual_time, tmp_path / "audit", tell, moldau_audit_queue_events="5")
    assert len(lines(tmp_path / "audit")) == 5


# -- of three nodes


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
    """A connection to this broker, logged in under this name."""
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
    """A broker that trusts more users than the controller does changes nothing for them."""
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
