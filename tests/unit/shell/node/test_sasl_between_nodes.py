"""Three nodes whose listeners require a login, including those between brokers and of controllers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.authenticating import EXPIRED, REAUTHENTICATIONS, SUCCESSES
from moldau.shell.peers.logins import NetworkWithLogins
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.simulation.host_network import HostNetwork
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.wire.protocol.sasl_tokens import Credentials, salted_password
from tests.support.stories import run_by
from tests.support.three_nodes import NODE_IDS, Cluster, tell

SESSION_S = 4
TIMEOUT_MS = 10_000


def settings_of(node_id: int, password: str = "of-nodes") -> dict[str, str]:
    module = f'{PLAIN_MODULE} required username="node" password="{password}" user_node="of-nodes";'
    return {
        "listeners": f"SASL://node-{node_id}:9092,CONTROLLER://node-{node_id}:9093",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": module,
        "listener.name.controller.plain.sasl.jaas.config": module,
        "connections.max.reauth.ms": str(SESSION_S * 1_000),
    }


SCRAM = "SCRAM-SHA-512"
CAROL = Credentials(SCRAM, "carol", "pencil")


def offering_scram(node_id: int) -> dict[str, str]:
    return settings_of(node_id) | {"sasl.enabled.mechanisms": f"PLAIN,{SCRAM}", "connections.max.reauth.ms": "0"}


async def change_carol(cluster: Cluster, **change: tuple[object, ...]) -> None:
    answer = await cluster.nodes[2].broker.submit(AlterUserScramCredentialsRequest(**change))
    assert [result.error_code for result in answer.results] == [0]


async def create_carol(cluster: Cluster) -> None:
    salt = b"a salt of twenty byt"
    salted = salted_password(SCRAM, CAROL.password, salt, 4_096)
    await change_carol(cluster, upsertions=(ScramCredentialUpsertion("carol", 2, 4_096, salt, salted),))


def count(cluster: Cluster, metric: str, listener: str) -> int:
    return sum(node.telemetry.value(metric, listener) for node in cluster.nodes.values())


@run_by(tell, {node_id: settings_of(node_id) for node_id in NODE_IDS})
async def test_nodes_log_in_at_each_other_and_again_before_their_sessions_end(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, 3, by=1)
    for listener in ("SASL", "CONTROLLER"):
        await cluster.until(lambda listener=listener: count(cluster, SUCCESSES, listener) >= 2)
    await cluster.pass_time(SESSION_S)
    logged_in = count(cluster, SUCCESSES, "SASL") + count(cluster, SUCCESSES, "CONTROLLER")
    await cluster.pass_time(5 * SESSION_S)
    assert count(cluster, SUCCESSES, "SASL") + count(cluster, SUCCESSES, "CONTROLLER") == logged_in
    assert count(cluster, REAUTHENTICATIONS, "SASL") >= 2 * 4
    assert count(cluster, REAUTHENTICATIONS, "CONTROLLER") >= 2 * 4
    assert count(cluster, EXPIRED, "SASL") + count(cluster, EXPIRED, "CONTROLLER") == 0
    await cluster.all_know("t", 1, 1, 2, 3)


@run_by(tell, {node_id: settings_of(node_id) for node_id in NODE_IDS})
async def test_a_node_with_a_wrong_password_is_not_in_and_says_why(
    cluster: Cluster, *, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create_known("t", 1, 2, 3, by=1)
    await cluster.stop(3)
    with caplog.at_level(logging.WARNING, "moldau.node"):
        starting = cluster.loop.create_task(cluster.start(3, settings=settings_of(3, "mistaken")))
        await cluster.pass_time(40)
    assert not starting.done()
    cluster.nodes.pop(3).abort()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert "Invalid username or password" in caplog.text or "no answer to the login" in caplog.text
    assert "mistaken" not in caplog.text
    await cluster.all_know("t", 1, 1, 2)


@run_by(tell, {node_id: offering_scram(node_id) for node_id in NODE_IDS})
async def test_a_deleted_user_is_out_of_all_nodes_within_a_second(cluster: Cluster) -> None:
    await create_carol(cluster)
    network = HostNetwork(cluster.network, "node-1")
    of_carol = NetworkWithLogins(network, {"SASL": CAROL}, SeededRandom(7), InlineWorkers())
    lost_s: dict[int, float] = {}

    def peer_of(node_id: int) -> Peer:
        address = BrokerListener("SASL", f"node-{node_id}", 9092)
        return Peer(address, of_carol, lambda: lost_s.setdefault(node_id, cluster.loop.time()))

    def has_carol(node_id: int) -> bool:
        sessions = [one.session for one in cluster.nodes[node_id].connections.connections.values()]
        return any(session.principal == "User:carol" for session in sessions)

    peers = {node_id: peer_of(node_id) for node_id in NODE_IDS}
    for node_id, peer in peers.items():
        await cluster.until(lambda node_id=node_id: "carol" in scram_users(cluster, node_id))
        assert (await peer.request(MetadataRequest(topics=()), TIMEOUT_MS)).brokers
        assert has_carol(node_id)
    deleted_s = cluster.loop.time()
    await change_carol(cluster, deletions=(ScramCredentialDeletion("carol", 2),))
    await cluster.until(lambda: len(lost_s) == len(NODE_IDS))
    assert max(lost_s.values()) - deleted_s < 1
    for node_id, peer in peers.items():
        assert not has_carol(node_id)
        with pytest.raises(NoAnswerError, match="Authentication failed"):
            await peer.request(MetadataRequest(topics=()), TIMEOUT_MS)
        peer.close()


def scram_users(cluster: Cluster, node_id: int) -> list[str]:
    return [record.name for record in cluster.nodes[node_id].quorum.image.logins.scram_credentials()]


@run_by(tell, {node_id: settings_of(node_id) for node_id in NODE_IDS})
async def test_the_metrics_count_logins_by_listener_under_the_names_of_kafka(cluster: Cluster) -> None:
    await cluster.until(lambda: count(cluster, SUCCESSES, "CONTROLLER") >= 2)
    (leader,) = [one for one in NODE_IDS if await cluster.leads_quorum(one)]
    labels = '{listener="CONTROLLER",networkProcessor="0"}'
    metrics = await cluster.metrics(leader)
    assert metrics[f"kafka_server_socket_server_metrics_successful_authentication_total{labels}"] >= 2
