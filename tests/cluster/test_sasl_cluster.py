"""Three processes whose listeners all require SCRAM, from the first election on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.wire.protocol.jaas import SCRAM_MODULE
from tests.support.apache_kafka import CLUSTER_ID
from tests.support.held_port import held_port, port_of
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.slow
NODE_IDS = (1, 2, 3)
WAIT_S = 60
MECHANISM = "SCRAM-SHA-512"
PASSWORD = "of-all-nodes"


class SaslCluster:
    """`start` starts all three."""

    def __init__(self, scratch: Path) -> None:
        self._held = {node_id: (held_port(), held_port()) for node_id in NODE_IDS}
        self._ports = {node_id: (port_of(one), port_of(other)) for node_id, (one, other) in self._held.items()}
        self._configs = {node_id: scratch / f"node-{node_id}.properties" for node_id in NODE_IDS}
        self.nodes: list[RunningBroker] = []
        for node_id, config in self._configs.items():
            settings = self._settings(node_id) | {"log.dirs": str(scratch / f"data-{node_id}")}
            config.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
            words = ("format", "-t", CLUSTER_ID, "-c", str(config))
            first_user = ("--add-scram", f"{MECHANISM}=[name=node,password={PASSWORD}]")
            command = [sys.executable, "-m", "moldau.cli.main", "kafka-storage", *words, *first_user]
            subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)

    def _settings(self, node_id: int) -> dict[str, str]:
        clients, controllers = self._ports[node_id]
        login = f'{SCRAM_MODULE} required username="node" password="{PASSWORD}";'
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"CLIENTS://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controllers}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{self._ports[one][1]}" for one in NODE_IDS),
            "inter.broker.listener.name": "CLIENTS",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": MECHANISM,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": login,
            "listener.name.controller.scram-sha-512.sasl.jaas.config": login,
        }

    def start(self) -> None:
        self.nodes = [RunningBroker("--no-console", "--config", str(config)) for config in self._configs.values()]
        for node in self.nodes:
            node.wait_until_ready()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def close(self) -> None:
        self.kill()
        for held in self._held.values():
            for one in held:
                one.close()

    def client(self) -> dict[str, object]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{clients}" for clients, _ in self._ports.values()),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": "node",
            "sasl.password": PASSWORD,
        }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SaslCluster]:
    made = SaslCluster(tmp_path)
    try:
        yield made
    finally:
        made.close()


def produce(cluster: SaslCluster) -> None:
    """Writes a record that all replicas have."""
    errors: list[object] = []
    producer = Producer(cluster.client() | {"acks": "all", "message.timeout.ms": 1_000 * WAIT_S})
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None]


def test_nodes_elect_and_replicate_by_the_user_of_their_format(cluster: SaslCluster) -> None:
    cluster.start()
    topic = NewTopic("orders", 3, 3, config={"min.insync.replicas": "3"})
    admin = AdminClient(cluster.client())
    admin.create_topics([topic], operation_timeout=WAIT_S)["orders"].result(WAIT_S)
    produce(cluster)
    cluster.kill()
    cluster.start()
    produce(cluster)
    told = "".join(line for node in cluster.nodes for line in node.output)
    assert PASSWORD not in told
