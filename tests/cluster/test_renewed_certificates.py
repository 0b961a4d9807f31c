"""Three processes get new certificates under load, from files and from a setting: no connection ends."""

from __future__ import annotations

import json
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.support.certificates import Issued, authority
from tests.support.cluster_of_three import (
    NODE_IDS,
    PARTITIONS,
    TOPIC,
    WAIT_S,
    ClusterOfThree,
    cluster_of_three,
    moldau_command,
)
from tests.support.load import under_load
from tests.support.tls_settings import of_broker, trusting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PAUSE_S = 0.2
SETTING = "listener.name.plaintext.ssl.keystore.location"


class Connections:
    """What the clients of a load report of their connections, as librdkafka counts them."""

    def __init__(self) -> None:
        self._latest: dict[str, dict[str, Any]] = {}
        self._reports = 0

    def take(self, report: str) -> None:
        told = json.loads(report)
        self._latest[told["name"]] = told["brokers"]
        self._reports += 1

    def ended(self) -> int:
        return sum(row["disconnects"] for brokers in self._latest.values() for row in brokers.values())

    def wait_for_reports(self) -> None:
        """Waits for two more reports of each client: by then all earlier events are reported."""
        wanted = self._reports + 3 * max(2, len(self._latest))
        wait_until(lambda: self._reports >= wanted)


def wait_until(condition: Any) -> None:
    for _ in range(int(WAIT_S / PAUSE_S)):
        if condition():
            return
        threading.Event().wait(PAUSE_S)
    pytest.fail("it took too long")


def is_shown(issued: Issued, *ports: int) -> bool:
    """Whether new connections to all of these ports get this certificate."""
    shown = [ssl.get_server_certificate(("127.0.0.1", port), timeout=WAIT_S) for port in ports]
    return all(ssl.PEM_cert_to_DER_cert(each) == issued.der for each in shown)


def leaders(cluster: ClusterOfThree, clients: dict[str, str]) -> list[tuple[int, list[int]]]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **clients})
    partitions = admin.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC].partitions
    return [(partitions[index].leader, sorted(partitions[index].isrs)) for index in sorted(partitions)]


def set_keystore(admin: AdminClient, node_id: int, path: Path) -> None:
    change = ConfigEntry(SETTING, str(path), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def test_certificates_are_renewed_on_three_nodes_and_no_connection_ends(tmp_path: Path) -> None:
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL",
        **of_broker(tmp_path, client_auth="required"),
    }
    clients = trusting(tmp_path, authority().issue("CN=alice"))
    connections = Connections()
    told = {**clients, "stats_cb": connections.take, "statistics.interval.ms": 500}
    with cluster_of_three(
        tmp_path, dict.fromkeys(NODE_IDS, moldau_command), settings=settings, clients=clients
    ) as cluster:
        cluster.create_topic()
        cluster.wait_in_sync()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **clients})
        with under_load(cluster.bootstrap_servers, tmp_path / "history.jsonl", TOPIC, PARTITIONS, clients=told):
            connections.wait_for_reports()
            before, ended = leaders(cluster, clients), connections.ended()
            for _ in range(2):
                issued = authority().issue("CN=node")  # a certificate with another name is rejected (KIP-978)
                issued.write(tmp_path, "node")
                ports = [port for node_id in NODE_IDS for port in cluster.ports_of(node_id)]
                wait_until(lambda issued=issued, ports=ports: is_shown(issued, *ports))
            for node_id in NODE_IDS:
                issued = authority().issue("CN=node")
                set_keystore(admin, node_id, issued.write(tmp_path, f"next-{node_id}"))
                wait_until(lambda issued=issued, node_id=node_id: is_shown(issued, cluster.ports_of(node_id)[0]))
            connections.wait_for_reports()
            assert connections.ended() == ended
            assert leaders(cluster, clients) == before
