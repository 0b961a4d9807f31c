"""Three brokers and controllers, each a process, with links that may be cut, and their disks."""

from __future__ import annotations

import base64
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.quorum import add_voter, describe_quorum, remove_voter
from moldau.client.admin.reassignments import reassign
from moldau.client.admin.topics import list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.core.config.replicated import replicated
from moldau.errors import KafkaError
from moldau.transport.access import open_admin
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from tests.chaos.namespaces import Namespaces, SmallDisk
from tests.chaos.proxies import Proxies
from tests.support.cluster_of_three import Command, format_directory, moldau_command

NODE_IDS = (1, 2, 3)
STOP_S = 60
PATIENCE_S = 180.0
"""The cluster fails if it is not whole by then."""
LISTENERS = ("PLAINTEXT", "INTERNAL", "CONTROLLER")
LIMIT_BYTES = 4_000
"""The file size limit on a node whose disk fails: less than any log that is written to."""


class Nodes:
    """`folder` gets a directory, a properties file and a log for each node. `command`: starts each, unless `become`
    changes that; Apache Kafka formats its own directories, with its default features. `is_dynamic`: the voters are in
    the log (KIP-853), not in the properties. `links`: connects the nodes."""

    def __init__(
        self,
        folder: Path,
        links: Proxies | Namespaces,
        command: Command = moldau_command,
        *,
        is_dynamic: bool = False,
    ) -> None:
        self.links = links
        self._folder = folder
        self._is_dynamic = is_dynamic
        self._commands = dict.fromkeys(NODE_IDS, command)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._writers: list[threading.Thread] = []
        self._reached = {
            node_id: [(links.host(node_id), first), *(links.between(node_id, port) for port in others)]
            for node_id in NODE_IDS
            for first, *others in [links.ports(node_id)]
        }
        """The addresses of each node's listeners: for clients, for other brokers, for other controllers."""
        self.bootstrap_servers = ",".join(_text(clients) for clients, _, _ in self._reached.values())
        for node_id in NODE_IDS:
            self.directory(node_id).mkdir()
        self._small_disks: dict[int, SmallDisk] = {}

    def make_small_disk(self, node_id: int, size_bytes: int) -> SmallDisk:
        """Puts the node's directory on a small disk. Call it before `format`."""
        disk = self._small_disks[node_id] = SmallDisk(self.directory(node_id), size_bytes)
        return disk

    def format(self) -> None:
        """Formats the directories of all nodes."""
        for node_id in NODE_IDS:
            self._config(node_id).write_text("\n".join(f"{name}={text}" for name, text in self._settings(node_id)))
            voters = ("--initial-controllers", self._initial_controllers()) if self._is_dynamic else ()
            by_kafka = self._commands[node_id] is not moldau_command
            format_directory(self._config(node_id), *voters, by_kafka=by_kafka, features=())

    def _settings(self, node_id: int) -> Iterable[tuple[str, str]]:
        host, ports = self.links.host(node_id), self.links.ports(node_id)
        yield "node.id", str(node_id)
        yield "process.roles", "broker,controller"
        yield "listeners", ",".join(f"{name}://{host}:{port}" for name, port in zip(LISTENERS, ports, strict=True))
        points = zip(LISTENERS, self._reached[node_id], strict=True)
        # Kafka wants the controller's advertised listeners only if the voters are not configured
        advertised = [(name, point) for name, point in points if self._is_dynamic or name != "CONTROLLER"]
        yield "advertised.listeners", ",".join(f"{name}://{_text(point)}" for name, point in advertised)
        yield "listener.security.protocol.map", ",".join(f"{name}:PLAINTEXT" for name in LISTENERS)
        yield "inter.broker.listener.name", "INTERNAL"
        yield "controller.listener.names", "CONTROLLER"
        if self._is_dynamic:
            servers = ",".join(_text(controller) for _, _, controller in self._reached.values())
            yield "controller.quorum.bootstrap.servers", servers
        else:
            voters = ",".join(f"{voter}@{_text(points[2])}" for voter, points in self._reached.items())
            yield "controller.quorum.voters", voters
        yield "log.dirs", str(self.directory(node_id))
        yield from replicated(len(NODE_IDS)).items()
        yield "log.segment.bytes", str(8 << 20)

    def _initial_controllers(self) -> str:
        return ",".join(
            f"{node_id}@{_text(points[2])}:{base64.urlsafe_b64encode(bytes([node_id]) * 16).decode()[:22]}"
            for node_id, points in self._reached.items()
        )

    def directory(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}"

    def _log(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}.log"

    def _config(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}.properties"

    # -- lives

    def start(self, *node_ids: int) -> None:
        """Starts all nodes that do not run."""
        for node_id in node_ids:
            process = self._processes.get(node_id)
            if process is None or process.poll() is not None:
                command = self.links.inside(node_id, self._commands[node_id](self._config(node_id)))
                # through a pipe: the limit on the process's files does not limit its output
                process = subprocess.Popen(
                    command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
                )
                self._processes[node_id] = process
                self.links.started(node_id, process.pid)
                writer = threading.Thread(target=_write_down, args=(process.stdout, self._log(node_id)))
                self._writers.append(writer)
                writer.start()

    def become(self, node_id: int, command: Command) -> None:
        """The node's next start is of this kind, on the directory of the other kind."""
        self._commands[node_id] = command

    def kill(self, *node_ids: int) -> None:
        """Like kill -9."""
        for node_id in node_ids:
            self._processes[node_id].kill()
        for node_id in node_ids:
            self._processes[node_id].wait(STOP_S)

    def stop(self, node_id: int) -> int:
        """SIGTERM; gives the exit code. Raises AssertionError if it does not end."""
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

    def let_disk_fail(self, node_id: int) -> None:
        """No file of the process may grow beyond a few KB: the kernel rejects writes beyond (EFBIG)."""
        limit = (LIMIT_BYTES, LIMIT_BYTES)
        resource.prlimit(self._processes[node_id].pid, resource.RLIMIT_FSIZE, limit)

    def wait_ended(self, node_id: int) -> int:
        """The exit code of a node that ends by itself. Raises AssertionError."""
        try:
            return self._processes[node_id].wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {node_id} has not ended in {STOP_S} s") from None

    def ended(self) -> list[int]:
        """The nodes that have ended by themselves since they were started."""
        return [node_id for node_id, process in self._processes.items() if process.poll() is not None]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(STOP_S)
        for writer in self._writers:
            writer.join(STOP_S)
        self.links.close()

    def keep(self) -> None:
        """Copies the contents of small disks, which end with the campaign."""
        for node_id in self._small_disks:
            shutil.copytree(self.directory(node_id), self._folder / f"kept-{node_id}")

    def said(self, node_id: int) -> int:
        """The length of the node's output so far."""
        log = self._log(node_id)
        return log.stat().st_size if log.exists() else 0

    def wait_said(self, node_id: int, text: str, since: int, cause: Callable[[], None] = lambda: None) -> None:
        """Waits until the node prints it after its earlier output; calls `cause` before each look. Raises
        AssertionError."""
        end_s = time.monotonic() + STOP_S
        while time.monotonic() < end_s:
            cause()
            with self._log(node_id).open("rb") as log:
                log.seek(since)
                if text.encode() in log.read():
                    return
            time.sleep(0.1)
        raise AssertionError(f"node {node_id} does not say in {STOP_S} s: {text}")

    # -- what the cluster reports

    def wait_whole(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Waits until all brokers are registered, all controllers vote, and every replica is in sync. Calls `meanwhile`
        again and again. Raises AssertionError."""
        wait_whole({node_id: _text(clients) for node_id, (clients, _, _) in self._reached.items()}, NODE_IDS, meanwhile)

    def controller(self) -> int | None:
        """The node that leads the quorum; None if no node says so now."""
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

    def remove_voter(self, node_id: int) -> Uuid:
        """Gives its directory. Raises AssertionError."""
        directories: set[Uuid] = set()

        def ask(admin: ClusterAdmin, directory_id: Uuid) -> None:
            directories.add(directory_id)
            remove_voter(admin, node_id, directory_id)

        self._change_voters(node_id, ask, is_voter=False)
        return directories.pop()

    def add_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Raises AssertionError."""
        point = (LISTENERS[2], *self._reached[node_id][2])
        self._change_voters(node_id, lambda admin, _: add_voter(admin, node_id, directory_id, (point,)), is_voter=True)

    def _change_voters(self, node_id: int, ask: Callable[[ClusterAdmin, Uuid], None], *, is_voter: bool) -> None:
        """Retries until the leader reports the change: the outcome of a request without a response is unknown. `ask`
        gets the directory of a voter."""
        end_s = time.monotonic() + PATIENCE_S
        seen = ""
        while time.monotonic() < end_s:
            try:
                with self._client() as admin:
                    voters = {voter.node_id: voter.directory_id or ZERO_UUID for voter in describe_quorum(admin).voters}
                    if (node_id in voters) is is_voter:
                        return
                    ask(admin, voters.get(node_id, ZERO_UUID))
            except KafkaError as error:
                seen = str(error)
                time.sleep(0.2)
        raise AssertionError(f"node {node_id} does not {'become' if is_voter else 'cease to be'} a voter: {seen}")

    def _client(self, node_id: int | None = None) -> ClusterAdmin:
        """A client of one node, or of any."""
        address = self.bootstrap_servers if node_id is None else _text(self._reached[node_id][0])
        return admin_of(address)


def wait_whole(
    addresses: Mapping[int, str],
    voters: Sequence[int],
    meanwhile: Callable[[], None] = lambda: None,
    patience_s: float = PATIENCE_S,
) -> None:
    """See `Nodes.wait_whole`. `addresses`: of each broker, for clients."""
    end_s = time.monotonic() + patience_s
    seen = "no broker answers"
    while time.monotonic() < end_s:
        meanwhile()
        seen = what_lacks(addresses, voters)
        if not seen:
            return
        time.sleep(0.2)
    raise AssertionError(f"the cluster is not whole after {patience_s:.0f} s: {seen}")


def what_lacks(addresses: Mapping[int, str], voters: Sequence[int]) -> str:
    """What lacks by the metadata of every node, and of a quorum leader that answers. Empty for a whole cluster."""
    for node_id, address in addresses.items():
        try:
            with admin_of(address) as admin:
                brokers = admin.cluster().broker_ids()
                if brokers != list(addresses):
                    return f"node {node_id} knows brokers {brokers}"
                for topic in list_topics(admin).values():
                    for row in topic.partitions:
                        if row.leader_id < 0 or len(row.isr) < len(row.replicas):
                            return f"{topic.name}-{row.index}: leader {row.leader_id}, in sync {row.isr}"
                known = sorted(voter.node_id for voter in describe_quorum(admin).voters)
                if known != sorted(voters):
                    return f"node {node_id} knows voters {known}"
        except KafkaError as error:
            return f"node {node_id}: {error}"
    return ""


def admin_of(address: str) -> ClusterAdmin:
    return open_admin(ClusterAccess(address, client_id="chaos", request_timeout_ms=10_000))


def _text(point: tuple[str, int]) -> str:
    return f"{point[0]}:{point[1]}"


def _write_down(source: IO[bytes], log: Path) -> None:
    """Writes all output of a process to its log."""
    with source, log.open("ab", buffering=0) as file:
        while data := source.read(1 << 16):
            file.write(data)
