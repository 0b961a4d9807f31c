"""Three brokers and controllers, each a process, whose links to each other go through proxies."""

from __future__ import annotations

import base64
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.quorum import describe_quorum
from moldau.client.admin.reassignments import reassign
from moldau.client.admin.topics import list_topics
from moldau.core.config.replicated import replicated
from moldau.errors import KafkaError
from moldau.shell.io.tcp import TCP
from moldau.types import TopicPartition
from tests.chaos.proxies import Proxies
from tests.support.cluster_of_three import Command, format_directory, moldau_command
from tests.support.held_port import held_port, port_of

NODE_IDS = (1, 2, 3)
STOP_S = 60
PATIENCE_S = 180.0
"""A cluster that is whole no sooner has failed."""
LISTENERS = ("PLAINTEXT", "INTERNAL", "CONTROLLER")


class Nodes:
    """`folder` gets a directory, a file of properties and a log for each node. `command`: how each is started, unless
    `become` says otherwise; Apache Kafka formats its directories itself, with the features that it has by default.
    `is_dynamic`: the voters stand in the log (KIP-853), not in the properties; then nothing is between them."""

    def __init__(self, folder: Path, command: Command = moldau_command, *, is_dynamic: bool = False) -> None:
        self._folder = folder
        self._is_dynamic = is_dynamic
        self._commands = dict.fromkeys(NODE_IDS, command)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._held = {node_id: [held_port() for _ in LISTENERS] for node_id in NODE_IDS}
        """Voters and advertised addresses are written before anybody listens."""
        self.ports = {node_id: [port_of(each) for each in held] for node_id, held in self._held.items()}
        self.proxies = Proxies(lambda: {node_id: process.pid for node_id, process in self._processes.items()})
        for node_id in NODE_IDS:
            folder.joinpath(f"node-{node_id}").mkdir()
        self._proxied = {
            node_id: [self.proxies.open(node_id, port) for port in ports[1:]] for node_id, ports in self.ports.items()
        }
        for node_id in NODE_IDS:
            self._config(node_id).write_text("\n".join(f"{name}={text}" for name, text in self._settings(node_id)))
            voters = ("--initial-controllers", self._initial_controllers()) if is_dynamic else ()
            format_directory(self._config(node_id), *voters, by_kafka=command is not moldau_command, features=())
        self.bootstrap_servers = ",".join(f"127.0.0.1:{ports[0]}" for ports in self.ports.values())

    def _settings(self, node_id: int) -> Iterable[tuple[str, str]]:
        clients, internal, controller = self.ports[node_id]
        yield "node.id", str(node_id)
        yield "process.roles", "broker,controller"
        yield (
            "listeners",
            ",".join(
                f"{name}://127.0.0.1:{port}"
                for name, port in zip(LISTENERS, (clients, internal, controller), strict=True)
            ),
        )
        yield (
            "advertised.listeners",
            f"PLAINTEXT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{self._proxied[node_id][0]}",
        )
        yield "listener.security.protocol.map", ",".join(f"{name}:PLAINTEXT" for name in LISTENERS)
        yield "inter.broker.listener.name", "INTERNAL"
        yield "controller.listener.names", "CONTROLLER"
        if self._is_dynamic:
            servers = ",".join(f"127.0.0.1:{ports[2]}" for ports in self.ports.values())
            yield "controller.quorum.bootstrap.servers", servers
        else:
            voters = ",".join(f"{voter}@127.0.0.1:{proxied[1]}" for voter, proxied in self._proxied.items())
            yield "controller.quorum.voters", voters
        yield "log.dirs", str(self._folder / f"node-{node_id}")
        yield from replicated(len(NODE_IDS)).items()
        yield "log.segment.bytes", str(8 << 20)

    def _initial_controllers(self) -> str:
        return ",".join(
            f"{node_id}@127.0.0.1:{ports[2]}:{base64.urlsafe_b64encode(bytes([node_id]) * 16).decode()[:22]}"
            for node_id, ports in self.ports.items()
        )

    def _config(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}.properties"

    # -- lives

    def start(self, *node_ids: int) -> None:
        """Those that do not run."""
        for node_id in node_ids:
            process = self._processes.get(node_id)
            if process is None or process.poll() is not None:
                command = self._commands[node_id](self._config(node_id))
                with self._folder.joinpath(f"node-{node_id}.log").open("ab") as log:
                    self._processes[node_id] = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def become(self, node_id: int, command: Command) -> None:
        """The next start of the node is of this kind, on the directory that the other kind leaves."""
        self._commands[node_id] = command

    def kill(self, *node_ids: int) -> None:
        """As kill -9."""
        for node_id in node_ids:
            self._processes[node_id].kill()
        for node_id in node_ids:
            self._processes[node_id].wait(STOP_S)

    def stop(self, node_id: int) -> int:
        """SIGTERM; gives the exit code. Raises AssertionError where it does not end."""
        process = self._processes[node_id]
        process.terminate()
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"SIGTERM did not end node {node_id} in {STOP_S} s") from None

    def freeze(self, node_id: int) -> None:
        self._processes[node_id].send_signal(signal.SIGSTOP)

    def thaw(self, node_id: int) -> None:
        self._processes[node_id].send_signal(signal.SIGCONT)

    def ended(self) -> list[int]:
        """The nodes that ended by themselves since they were started."""
        return [node_id for node_id, process in self._processes.items() if process.poll() is not None]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(STOP_S)
        self.proxies.close()
        for held in self._held.values():
            for each in held:
                each.close()

    # -- what the cluster says

    def wait_whole(self) -> None:
        """Until all brokers are there and every replica is in sync. Raises AssertionError."""
        end_s = time.monotonic() + PATIENCE_S
        seen = "no broker answers"
        while time.monotonic() < end_s:
            seen = self._what_lacks()
            if not seen:
                return
            time.sleep(0.2)
        raise AssertionError(f"the cluster is not whole after {PATIENCE_S:.0f} s: {seen}")

    def _what_lacks(self) -> str:
        """As every node knows it, and a leader of the quorum who answers."""
        try:
            for node_id in NODE_IDS:
                with self._client(node_id) as admin:
                    brokers = admin.cluster().broker_ids()
                    if brokers != list(NODE_IDS):
                        return f"node {node_id} knows brokers {brokers}"
                    for topic in list_topics(admin).values():
                        for row in topic.partitions:
                            if row.leader_id < 0 or len(row.isr) < len(row.replicas):
                                return f"{topic.name}-{row.index}: leader {row.leader_id}, in sync {row.isr}"
                    describe_quorum(admin)
        except KafkaError as error:
            return f"node {node_id}: {error}"
        return ""

    def controller(self) -> int | None:
        """The node that leads the quorum; None where nobody says so now."""
        try:
            with self._client() as admin:
                leader = describe_quorum(admin).leader_id
        except KafkaError:
            return None
        return leader if leader in NODE_IDS else None

    def reassign(self, topic: str, partition: int, replicas: tuple[int, ...]) -> None:
        """Raises KafkaError."""
        moved = TopicPartition(topic, partition)
        with self._client() as admin:
            refused = reassign(admin, {moved: replicas})[moved]
        if refused is not None:
            raise refused

    def _client(self, node_id: int | None = None) -> ClusterAdmin:
        """Of one node, or of any."""
        address = self.bootstrap_servers if node_id is None else f"127.0.0.1:{self.ports[node_id][0]}"
        return ClusterAdmin(TCP, address, client_id="chaos", request_timeout_ms=10_000)
