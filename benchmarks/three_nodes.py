"""Three nodes of one cluster of Moldau or Apache Kafka, each a process with both roles."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers import JVM_FLAGS, ApacheKafka, Moldau, Peer, PeerError, free_port
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.partitions import elect_leaders
from moldau.client.admin.quorum import describe_quorum
from moldau.client.admin.topics import TopicDescription, create_topic, list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.transport.access import open_admin

NODE_IDS = (1, 2, 3)
CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"
# Moldau does not serve them yet; both kinds of cluster get the same features
UNSERVED = ("group.version=0", "share.version=0", "streams.version=0")
FORMAT = ("format", "-t", CLUSTER_ID, "-c")
PATIENCE_S = 120.0


@dataclass
class MoldauNode(Moldau):
    """`moldau up` of a node whose properties are `config`."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moldau.cli.main", "up", "--no-console", "--config", str(self.config)]

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    def format(self) -> None:
        words = [sys.executable, "-m", "moldau.cli.main", "kafka-storage", *FORMAT, str(self.config)]
        subprocess.run(words, check=True, capture_output=True)


@dataclass
class KafkaNode(ApacheKafka):
    """`kafka.Kafka` with a heap of 512 MB, because three share a machine."""

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    def _java(self) -> list[str]:
        return ["java", "-Xmx512M", "-Xms512M", *JVM_FLAGS, "-cp", f"{self.libraries}/*"]

    def prepare(self) -> None:
        """The cluster has already written the properties."""

    def format(self) -> None:
        features = [word for feature in UNSERVED for word in ("--feature", feature)]
        words = [*self._java(), "kafka.tools.StorageTool", *FORMAT, str(self.config), *features]
        subprocess.run(words, check=True, capture_output=True)


@dataclass
class ThreeNodes:
    """`nodes` by id; `start` formats them and returns when all three serve. `settings`: of every node, where they
    differ from Kafka's defaults."""

    name: str
    nodes: dict[int, MoldauNode | KafkaNode]
    settings: dict[str, str] = field(default_factory=dict)
    controller_ports: dict[int, int] = field(default_factory=lambda: {node_id: free_port() for node_id in NODE_IDS})

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def start(self) -> None:
        for node_id, node in self.nodes.items():
            node.port = free_port()
            node.folder.mkdir(parents=True)
            node.config.write_text("".join(f"{name}={value}\n" for name, value in self._properties(node_id).items()))
            node.format()
        with ThreadPoolExecutor() as pool:  # a node of Apache Kafka opens its port only when a majority runs
            list(pool.map(Peer.start, self.nodes.values()))
        self.wait_for(lambda admin: admin.cluster().broker_ids() == list(NODE_IDS))

    def _properties(self, node_id: int) -> dict[str, str]:
        """Kafka's defaults, except the factors of the internal topics, which are the same for both."""
        node, port = self.nodes[node_id], self.controller_ports[node_id]
        voters = (f"{each}@127.0.0.1:{voter_port}" for each, voter_port in self.controller_ports.items())
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{node.bootstrap_servers},CONTROLLER://127.0.0.1:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(node.folder / "data"),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            **self.settings,
        }

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    def admin(self) -> ClusterAdmin:
        return open_admin(ClusterAccess(self.bootstrap_servers, client_id="bench", request_timeout_ms=5_000))

    def wait_for(self, condition: Callable[[ClusterAdmin], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        """Waits until the condition holds, and retries when a broker does not answer. Raises PeerError."""
        end_s = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < end_s:
            try:
                with self.admin() as admin:
                    if condition(admin):
                        return
            except KafkaError:
                pass
            meanwhile()
        raise PeerError(f"{self.name}: what was waited for did not come in {PATIENCE_S:.0f} s")

    def create_topic(self, name: str, partitions: int) -> None:
        """Each node is the first replica of the same number of partitions."""
        turns = [tuple(NODE_IDS[(at + place) % 3] for place in range(3)) for at in range(partitions)]
        with self.admin() as admin:
            create_topic(admin, name, assignment=turns)

    def topic(self, admin: ClusterAdmin, name: str) -> TopicDescription:
        return list_topics(admin)[name]

    def is_whole(self, admin: ClusterAdmin, name: str) -> bool:
        """Whether all replicas are in sync and the first one of each partition leads; otherwise requests an
        election."""
        found = list_topics(admin).get(name)
        if found is None:  # the broker does not know the topic yet
            return False
        partitions = found.partitions
        if any(len(each.isr) < len(NODE_IDS) for each in partitions):
            return False
        if all(each.leader_id == each.replicas[0] for each in partitions):
            return True
        elect_leaders(admin, None)
        return False

    def active_controller(self) -> int:
        with self.admin() as admin:
            return describe_quorum(admin).leader_id
