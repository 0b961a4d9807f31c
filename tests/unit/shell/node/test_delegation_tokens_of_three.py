"""Delegation tokens of three nodes: a broker forwards changes, and each node knows all tokens (KIP-48)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.peers.logins import NetworkWithLogins
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.support.three_nodes import NODE_IDS, Cluster, tell

SECRET_KEY = "a secret of the cluster"
TIMEOUT_MS = 10_000


def settings_of(node_id: int, path: Path) -> dict[str, str]:
    module = f'{PLAIN_MODULE} required username="node" password="of-node" user_node="of-node" user_alice="of-alice";'
    return {
        # plain text between nodes: the client's listener decides whether a token may be requested
        "listeners": f"SASL://node-{node_id}:9092,CONTROLLER://node-{node_id}:9093",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": module,
        "delegation.token.secret.key": SECRET_KEY,
        "moldau.audit.file": str(path / f"audit-{node_id}"),
    }


def client_of(cluster: Cluster, credentials: Credentials, node_id: int) -> Peer:
    """A connection to this broker."""
    network = HostNetwork(cluster.network, "10.0.0.9")
    logging_in = NetworkWithLogins(network, {"SASL": credentials}, SeededRandom(node_id), InlineWorkers())
    return Peer(BrokerListener("SASL", f"node-{node_id}", 9092), logging_in)


def test_tokens_are_made_known_and_ended_on_all_nodes(tmp_path: Path) -> None:
    made: list[Any] = []

    async def story(cluster: Cluster) -> None:
        (leader,) = [one for one in NODE_IDS if await cluster.leads_quorum(one)]
        first, last = (one for one in NODE_IDS if one != leader)
        alice = client_of(cluster, Credentials("PLAIN", "alice", "of-alice"), first)
        renewers = (CreatableRenewers("User", "bob"),)
        token = await alice.request(CreateDelegationTokenRequest(None, None, renewers, -1), TIMEOUT_MS)
        made.extend((leader, token))
        assert (token.error_code, token.principal_name) == (0, "alice")
        renewed = await alice.request(RenewDelegationTokenRequest(token.hmac, 60_000), TIMEOUT_MS)
        assert renewed.error_code == 0
        by_token = Credentials("SCRAM-SHA-256", token.token_id, base64.b64encode(token.hmac).decode(), is_token=True)

        def knows_renewal(node_id: int) -> bool:
            found = cluster.nodes[node_id].broker.image.logins.delegation_token(token.token_id)
            return found is not None and found.expiration_timestamp == renewed.expiry_timestamp_ms

        await cluster.until(lambda: all(knows_renewal(node_id) for node_id in NODE_IDS))
        bearers = [client_of(cluster, by_token, node_id) for node_id in (first, last, leader)]
        for bearer in bearers:
            assert (await bearer.request(MetadataRequest(topics=()), TIMEOUT_MS)).brokers
            for request in (
                CreateDelegationTokenRequest(None, None),
                RenewDelegationTokenRequest(token.hmac),
                ExpireDelegationTokenRequest(token.hmac, -1),
                DescribeDelegationTokenRequest(None),
            ):
                assert (await bearer.request(request, TIMEOUT_MS)).error_code == 64
        (seen,) = (await alice.request(DescribeDelegationTokenRequest(None), TIMEOUT_MS)).tokens
        assert (seen.token_id, seen.hmac, seen.renewers[0].principal_name) == (token.token_id, token.hmac, "bob")
        ended = await alice.request(ExpireDelegationTokenRequest(token.hmac, -1), TIMEOUT_MS)
        assert ended.error_code == 0
        await cluster.until(lambda: not any(node.broker.image.logins for node in cluster.nodes.values()))
        for client in (alice, *bearers):
            client.close()
        for node_id in list(cluster.nodes):
            await cluster.stop(node_id)

    tell(story, {node_id: settings_of(node_id, tmp_path) for node_id in NODE_IDS})
    leader, token = made
    written = (tmp_path / f"audit-{leader}").read_text()
    rows = [row for row in map(json.loads, written.splitlines()) if row["result"] == "allowed"]
    assert [(row["principal"], row["operation"], row["resource"]) for row in rows] == [
        ("User:alice", "CREATE_DELEGATION_TOKEN", token.token_id),
        ("User:alice", "RENEW_DELEGATION_TOKEN", token.token_id),
        ("User:alice", "EXPIRE_DELEGATION_TOKEN", token.token_id),
    ]
    assert rows[0]["detail"] == "owner User:alice, renewers User:bob"
    for secret in (base64.b64encode(token.hmac).decode(), token.hmac.hex(), SECRET_KEY):
        assert secret not in written
