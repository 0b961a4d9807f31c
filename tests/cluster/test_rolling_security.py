"""A cluster of three processes changes the security of its listeners, and clients see no error."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from moldau.core.config.replicated import replicated
from moldau.testing import history
from moldau.wire.protocol.jaas import SCRAM_MODULE
from tests.support.cluster_of_three import (
    NODE_IDS,
    PARTITIONS,
    TOPIC,
    WAIT_S,
    ClusterOfThree,
    cluster_of_three,
    moldau_command,
)
from tests.support.held_port import held_port, port_of
from tests.support.load import under_load
from tests.support.tls_settings import of_broker, trusting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MECHANISM = "SCRAM-SHA-512"
PASSWORDS = {"node": "of-all-nodes", "app": "of-the-app"}
OPEN = ("PLAINTEXT", "CONTROLLER")
SECURE = ("CLIENTS", "QUORUM")
"""The listeners for clients and for controllers, before and after."""


class Steps:
    """The settings of each node, step by step, as in docs/operate/tls.md."""

    def __init__(self, scratch: Path, cluster: ClusterOfThree, stack: ExitStack, *, voters_in_log: bool) -> None:
        self._scratch = scratch
        self._voters_in_log = voters_in_log
        self._ports = {
            node_id: (*cluster.ports_of(node_id), *(port_of(stack.enter_context(held_port())) for _ in SECURE))
            for node_id in NODE_IDS
        }

    def clients(self) -> dict[str, str]:
        """Of librdkafka, for the secure listeners."""
        return {
            **trusting(self._scratch),
            "bootstrap.servers": ",".join(f"127.0.0.1:{self.port(node_id, 'CLIENTS')}" for node_id in NODE_IDS),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": "app",
            "sasl.password": PASSWORDS["app"],
        }

    def port(self, node_id: int, listener: str) -> int:
        return self._ports[node_id][(*OPEN, *SECURE).index(listener)]

    def add(self, node_id: int) -> dict[str, str]:
        """Adds the secure listeners; they are not used yet."""
        login = f'{SCRAM_MODULE} required username="node" password="{PASSWORDS["node"]}";'
        return {
            **self._listening(node_id, (*OPEN, *SECURE)),
            **of_broker(self._scratch),
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": MECHANISM,
            **{f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config": login for name in SECURE},
        }

    def switch(self, _: int) -> dict[str, str]:
        """Nodes use the secure listeners; nodes that still use the old ones find them."""
        at = {node_id: f"127.0.0.1:{self.port(node_id, 'QUORUM')}" for node_id in NODE_IDS}
        quorum = {"controller.quorum.bootstrap.servers": ",".join(at.values())}
        if not self._voters_in_log:
            quorum = {"controller.quorum.voters": ",".join(f"{node_id}@{where}" for node_id, where in at.items())}
        return {
            "controller.listener.names": "QUORUM,CONTROLLER",
            "inter.broker.listener.name": "CLIENTS",
            **quorum,
        }

    def remove(self, node_id: int) -> dict[str, str]:
        """Removes the open listeners, and turns ACLs on."""
        return self._listening(node_id, SECURE) | {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:node",
        }

    def _listening(self, node_id: int, names: tuple[str, ...]) -> dict[str, str]:
        listeners = ",".join(f"{name}://127.0.0.1:{self.port(node_id, name)}" for name in names)
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": ",".join(name for name in names if name in ("CONTROLLER", "QUORUM")),
            "listener.security.protocol.map": ",".join(
                f"{name}:{'SASL_SSL' if name in SECURE else 'PLAINTEXT'}" for name in names
            ),
        }


def create_users(clients: Mapping[str, str]) -> None:
    changes = [
        UserScramCredentialUpsertion(name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096), password.encode())
        for name, password in PASSWORDS.items()
    ]
    admin = AdminClient(dict(clients))  # its requests end with it
    for future in admin.alter_user_scram_credentials(changes).values():
        future.result(WAIT_S)


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("voters_in_log", [False, True], ids=["configured voters", "voters in the log"])
def test_three_nodes_go_from_plaintext_to_sasl_ssl_by_rolling_restarts(tmp_path: Path, voters_in_log: bool) -> None:
    commands, settings = dict.fromkeys(NODE_IDS, moldau_command), replicated(len(NODE_IDS))
    copy = history.Copy("source", "target")
    with (
        ExitStack() as stack,
        cluster_of_three(tmp_path, commands, settings=settings, voters_in_log=voters_in_log) as cluster,
    ):
        steps = Steps(tmp_path, cluster, stack, voters_in_log=voters_in_log)
        for topic in (TOPIC, copy.source, copy.target, "both", "secure"):
            cluster.create_topic(topic)
        create_users({"bootstrap.servers": cluster.bootstrap_servers})
        clients = steps.clients()
        servers = clients["bootstrap.servers"]
        with under_load(cluster.bootstrap_servers, tmp_path / "open.jsonl", TOPIC, PARTITIONS, copy):
            for node_id in NODE_IDS:
                cluster.restart(node_id, steps.add(node_id))
            with under_load(servers, tmp_path / "both.jsonl", "both", PARTITIONS, clients=clients):
                for node_id in NODE_IDS:
                    cluster.restart(node_id, steps.switch(node_id))
        cluster.move_clients(clients)
        with under_load(servers, tmp_path / "secure.jsonl", "secure", PARTITIONS, clients=clients):
            for node_id in NODE_IDS:
                cluster.restart(node_id, steps.remove(node_id))
        ports = [steps.port(node_id, name) for node_id in NODE_IDS for name in (*OPEN, *SECURE)]
        assert [is_open(port) for port in ports] == [False, False, True, True] * len(NODE_IDS)
        told = cluster.told()
    assert not any(password in told for password in PASSWORDS.values())
