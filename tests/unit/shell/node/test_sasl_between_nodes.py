"""Three nodes whose listeners ask for a login, those between brokers and of controllers too."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.shell.network.authenticating import EXPIRED, REAUTHENTICATIONS, SUCCESSES
from moldau.wire.protocol.jaas import PLAIN_MODULE
from tests.support.three_nodes import NODE_IDS, Cluster, tell

SESSION_S = 4


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


def count(cluster: Cluster, metric: str, listener: str) -> int:
    return sum(node.telemetry.value(metric, listener) for node in cluster.nodes.values())


def test_nodes_log_in_at_each_other_and_again_before_their_sessions_end() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 2, 3, by=1)
        await cluster.all_know("t", 1, 1, 2, 3)
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

    tell(story, {node_id: settings_of(node_id) for node_id in NODE_IDS})


def test_a_node_with_a_wrong_password_is_not_in_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 2, 3, by=1)
        await cluster.all_know("t", 1, 1, 2, 3)
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

    tell(story, {node_id: settings_of(node_id) for node_id in NODE_IDS})


def test_the_metrics_count_logins_by_listener_under_the_names_of_kafka() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.until(lambda: count(cluster, SUCCESSES, "CONTROLLER") >= 2)
        (leader,) = [one for one in NODE_IDS if await cluster.leads_quorum(one)]
        labels = '{listener="CONTROLLER",networkProcessor="0"}'
        metrics = await cluster.metrics(leader)
        assert metrics[f"kafka_server_socket_server_metrics_successful_authentication_total{labels}"] >= 2

    tell(story, {node_id: settings_of(node_id) for node_id in NODE_IDS})
