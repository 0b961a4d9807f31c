"""Three machines with nodes of Moldau and of Apache Kafka, by the files of docs/operate/cluster.md.

A machine has one combined node, or a separate broker and controller, which end and start together. The machines are
network namespaces: call `enter_own` before.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from moldau.client.admin.partitions import elect_leaders
from moldau.client.admin.quorum import describe_quorum
from moldau.client.admin.topics import TopicDescription, list_topics
from moldau.errors import KafkaError
from tests.chaos.namespaces import PORTS, Namespaces
from tests.chaos.nodes import NODE_IDS, STOP_S, admin_of, wait_whole
from tests.support.cluster_of_three import (
    UNSERVED,
    apache_command,
    first_directory_id,
    format_directory,
)

BROKER_PORT, CONTROLLER_PORT, _ = PORTS
APART = 100
"""A separate controller's id minus that of the broker on its machine."""
PATIENCE_S = 600.0
"""The cluster fails if it is not whole by then: a JVM that starts on a busy machine takes minutes."""
INTERNAL = ("__consumer_offsets", "__transaction_state")


@dataclass(frozen=True)
class _Node:
    """A process on a machine: its roles, and its properties file."""

    node_id: int
    roles: str
    config: Path


class DocumentedNodes:
    """`folder` gets a directory, a properties file and a log for each node. `of_kafka`: the machines with nodes of
    Apache Kafka, whose jars are in MOLDAU_KAFKA_LIBS. `are_apart`: controllers are separate from brokers; their voters
    are in the metadata log. `settings`: further ones of each node."""

    def __init__(
        self, folder: Path, of_kafka: Set[int], *, are_apart: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self.links = Namespaces(NODE_IDS)
        self._folder = folder
        self._of_kafka = of_kafka
        self._are_apart = are_apart
        self._more = settings or {}
        self._processes: dict[_Node, subprocess.Popen[bytes]] = {}
        self._addresses = {machine: f"{self.links.host(machine)}:{BROKER_PORT}" for machine in NODE_IDS}
        self.bootstrap_servers = ",".join(self._addresses.values())
        self._voters = {
            machine + (APART if are_apart else 0): f"{self.links.host(machine)}:{CONTROLLER_PORT}"
            for machine in NODE_IDS
        }

    def _nodes_of(self, machine: int) -> list[_Node]:
        """In the order of their start."""
        if not self._are_apart:
            return [_Node(machine, "broker,controller", self._folder / f"node-{machine}.properties")]
        return [
            _Node(machine + APART, "controller", self._folder / f"controller-{machine}.properties"),
            _Node(machine, "broker", self._folder / f"broker-{machine}.properties"),
        ]

    def format(self) -> None:
        """Formats the directories of all nodes."""
        is_mixed = 0 < len(self._of_kafka) < len(NODE_IDS)
        voters = ",".join(f"{each}@{point}:{first_directory_id(each)}" for each, point in self._voters.items())
        for machine in NODE_IDS:
            for node in self._nodes_of(machine):
                lines = (f"{name}={text}\n" for name, text in self._settings(machine, node))
                node.config.write_text("".join(lines))
                first = ("--initial-controllers", voters) if node.roles == "controller" else ()
                features = UNSERVED if is_mixed else ()
                format_directory(node.config, *first, by_kafka=machine in self._of_kafka, features=features)

    def _settings(self, machine: int, node: _Node) -> Iterator[tuple[str, str]]:
        host = self.links.host(machine)
        points = {"broker": f"PLAINTEXT://{host}:{BROKER_PORT}", "controller": f"CONTROLLER://{host}:{CONTROLLER_PORT}"}
        yield "process.roles", node.roles
        yield "node.id", str(node.node_id)
        yield "listeners", ",".join(points[role] for role in node.roles.split(","))
        yield "controller.listener.names", "CONTROLLER"
        yield "listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
        if self._are_apart:
            yield "controller.quorum.bootstrap.servers", ",".join(self._voters.values())
        else:
            voters = ",".join(f"{each}@{point}" for each, point in self._voters.items())
            yield "controller.quorum.voters", voters
        yield "log.dirs", str(node.config.with_suffix(""))
        if "broker" in node.roles:
            yield "default.replication.factor", "3"
            yield "min.insync.replicas", "2"
            yield "offsets.topic.replication.factor", "3"
            yield "transaction.state.log.replication.factor", "3"
            yield "transaction.state.log.min.isr", "2"
        yield from self._more.items()

    # -- lives

    def start(self, *machines: int) -> None:
        for machine in machines:
            for node in self._nodes_of(machine):
                command = self._command(machine, node.config)
                with node.config.with_suffix(".log").open("ab") as log:
                    self._processes[node] = subprocess.Popen(
                        self.links.inside(machine, command), cwd=self._folder, stdout=log, stderr=subprocess.STDOUT
                    )

    def _command(self, machine: int, config: Path) -> list[str]:
        if machine in self._of_kafka:
            return apache_command(os.environ["MOLDAU_KAFKA_LIBS"])(config)
        return [sys.executable, "-m", "moldau.cli.main", "node", "--config", str(config)]

    def kill(self, machine: int) -> None:
        """Like kill -9."""
        running = [self._processes.pop(node) for node in self._nodes_of(machine)]
        for process in running:
            process.kill()
        for process in running:
            process.wait(STOP_S)

    def stop(self, machine: int) -> None:
        """SIGTERM: the broker first, because it announces its end to the controllers. Raises AssertionError."""
        for node in reversed(self._nodes_of(machine)):
            process = self._processes.pop(node)
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"SIGTERM did not end node {node.node_id} in {PATIENCE_S:.0f} s") from None

    def ended(self) -> list[int]:
        """The nodes that have ended by themselves."""
        return [node.node_id for node, process in self._processes.items() if process.poll() is not None]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(STOP_S)
        self.links.close()

    def keep(self) -> None:
        """Does nothing: all their files are in the folder."""

    # -- what the cluster reports

    def wait_whole(self) -> None:
        """Waits until all brokers are registered, all controllers vote, and every replica is in sync. Raises
        AssertionError."""
        wait_whole(self._addresses, [*self._voters], patience_s=PATIENCE_S)

    def out_of_sync(self) -> list[str]:
        """The partitions that lack a leader or an in-sync replica. Raises KafkaError if no broker answers in time."""
        return [
            f"{topic.name}-{row.index}: leader {row.leader_id}, in sync {row.isr} of {row.replicas}"
            for topic in self.topics().values()
            for row in topic.partitions
            if row.leader_id < 0 or len(row.isr) < len(row.replicas)
        ]

    def active_controller(self) -> int:
        """The active controller's machine; 0 if no node names it now."""
        try:
            with admin_of(self.bootstrap_servers) as admin:
                return describe_quorum(admin).leader_id % APART
        except KafkaError:
            return 0

    def elect_preferred(self) -> None:
        """Makes the first replica of each partition its leader, so each machine leads a third; ignores a missing
        response."""
        with contextlib.suppress(KafkaError), admin_of(self.bootstrap_servers) as admin:
            elect_leaders(admin, None)

    def topics(self) -> dict[str, TopicDescription]:
        """Raises KafkaError."""
        with admin_of(self.bootstrap_servers) as admin:
            return list_topics(admin)
