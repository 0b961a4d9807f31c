"""Nodes log in to each other by OAUTHBEARER, with tokens of the same issuer as their clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.transport.librdkafka import librdkafka_settings
from tests.support.cluster_of_three import NODE_IDS, cluster_of_three, moldau_command
from tests.support.issuer import Client, Issuer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"


def settings_of(issuer: Issuer) -> dict[str, str]:
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "listener.name.plaintext.oauthbearer.sasl.login.callback.handler.class": HANDLER,
        TOKEN_ENDPOINT: issuer.token_url,
        CLIENT_ID: "node",
        CLIENT_SECRET: "of-all-nodes",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": issuer.url,
        "moldau.oauthbearer.allowed.urls": f"{issuer.token_url},{issuer.jwks_url}",
    }


def test_three_nodes_are_one_cluster_by_tokens_that_expire(tmp_path: Path) -> None:
    with Issuer.running(kind="RSA") as issuer:
        issuer.clients["node"] = Client("of-all-nodes")
        issuer.lifetime_s = 8
        access = ClusterAccess.from_properties(
            {
                "bootstrap.servers": "127.0.0.1:1",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                TOKEN_ENDPOINT: issuer.token_url,
                CLIENT_ID: "service",
                CLIENT_SECRET: "service-secret",
            }
        )
        clients = {name: str(value) for name, value in librdkafka_settings(access).items()}
        clients.pop("bootstrap.servers", None)
        commands = dict.fromkeys(NODE_IDS, moldau_command)
        with cluster_of_three(tmp_path, commands, settings=settings_of(issuer), clients=clients) as cluster:
            cluster.create_topic()
            sent = cluster.produce("before", 100)
            cluster.restart(1, {})
            sent += cluster.produce("after", 100)
            assert sorted(cluster.read_all(200)) == sorted(sent)
