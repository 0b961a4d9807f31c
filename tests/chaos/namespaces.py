"""Network namespaces as the machines of nodes: each has its own address and cable, and a cut link loses packets. For
root, on Linux. The campaign itself runs in its own namespaces: nothing is seen outside, and nothing is left when its
last process ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.proxies import Pair

PORTS = (9092, 9093, 9094)
"""The ports of each node's listeners."""
OUTSIDE = "MOLDAU_CHAOS_OUTSIDE"
"""The variable that names the network in which the campaign was started."""
NETWORK = "10.77.0"
NOWHERE = "02:00:00:00:77:ff"
"""A hardware address that no machine has."""
CLIENTS = 254
"""The number of the clients' machine: it is at the bridge, and has no node name."""
NOBODY = 253
"""The number of a machine that does not exist."""
LOST = "77"
"""The routing table that sends everything to NOWHERE."""
COMMAND_S = 60
"""The time limit of a command that sets up a namespace or a cable."""


def enter_own(program: str) -> None:
    """Restarts this program (`python -m program`) in its own network and mount namespaces, unless it has them
    already."""
    network = os.readlink("/proc/self/ns/net")
    if os.environ.setdefault(OUTSIDE, network) == network:
        again = [sys.executable, "-m", program, *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--net", "--mount", "--", *again])


class Namespaces:
    """A namespace for each node, and a bridge between them where the clients are. Call `enter_own` before."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._node_ids = tuple(node_ids)
        # where `ip netns` keeps the names
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bridge", "address", f"{_hardware(CLIENTS)}", "type", "bridge")
        _run("ip", "address", "add", f"{self.host(CLIENTS)}/24", "dev", "bridge")
        _run("ip", "link", "set", "bridge", "up")
        for node_id in self._node_ids:
            self._connect(node_id)
        self.heal()

    def _connect(self, node_id: int) -> None:
        name = _name(node_id)
        _run("ip", "netns", "add", name)
        peer = ("peer", "name", "eth0", "netns", name, "address", _hardware(node_id))
        _run("ip", "link", "add", name, "type", "veth", *peer)
        _run("ip", "link", "set", name, "master", "bridge", "up")
        for link in ("lo", "eth0"):
            _run("ip", "-n", name, "link", "set", link, "up")
        _run("ip", "-n", name, "address", "add", f"{self.host(node_id)}/24", "dev", "eth0")
        nobody = ("neigh", "add", self.host(NOBODY), "lladdr", NOWHERE, "nud", "permanent", "dev", "eth0")
        _run("ip", "-n", name, *nobody)
        _run("ip", "-n", name, "route", "add", "default", "via", self.host(NOBODY), "table", LOST)

    def ports(self, node_id: int) -> tuple[int, ...]:
        """The ports of the node's listeners."""
        return PORTS

    def host(self, node_id: int) -> str:
        return f"{NETWORK}.{node_id}"

    def between(self, node_id: int, port: int) -> tuple[str, int]:
        """The address at which other nodes reach that listener."""
        return self.host(node_id), port

    def inside(self, node_id: int, command: list[str]) -> list[str]:
        """The command that runs `command` on the node's machine; its process is the node's, not a child."""
        return ["nsenter", f"--net=/run/netns/{_name(node_id)}", "--", *command]

    def started(self, node_id: int, pid: int) -> None:
        """Does nothing: here a link does not depend on the process that opened it."""

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Loses exactly the packets from the first to the second. One of the two may be CLIENTS."""
        cut = frozenset(pairs)
        for machine in (*self._node_ids, CLIENTS):
            for other in (*self._node_ids, CLIENTS):
                if other != machine:
                    to = NOWHERE if (machine, other) in cut else _hardware(other)
                    known = ("neigh", "replace", self.host(other), "lladdr", to, "nud", "permanent", "dev")
                    if machine == CLIENTS:
                        _run("ip", *known, "bridge")
                    else:
                        _run("ip", "-n", _name(machine), *known, "eth0")

    def cut_port(self, pairs: Iterable[Pair], port: int) -> None:
        """Also loses the first node's packets of connections to this port of either node."""
        for node_id, other in pairs:
            for end in ("dport", "sport"):
                rule = ("to", self.host(other), "ipproto", "tcp", end, str(port), "table", LOST)
                _run("ip", "-n", _name(node_id), "rule", "add", *rule)

    def heal(self) -> None:
        self.cut(())
        for node_id in self._node_ids:
            _run("ip", "-n", _name(node_id), "rule", "flush", "table", LOST)

    def pull_cable(self, node_id: int) -> None:
        """Cuts the node off from all nodes and clients, in both directions."""
        _run("ip", "link", "set", _name(node_id), "down")

    def put_cable_back(self, node_id: int) -> None:
        _run("ip", "link", "set", _name(node_id), "up")

    def close(self) -> None:
        """Gives up the namespaces; they end with their last process."""


class SmallDisk:
    """A memory file system at `directory`, which can be filled to its last page. Call `enter_own` before."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self._rest = directory / "everything-else"
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory))

    def fill(self) -> None:
        file = os.open(self._rest, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for chunk in (bytes(1 << 20), bytes(1 << 12)):
                while True:
                    try:
                        os.write(file, chunk)
                    except OSError:
                        break
        finally:
            os.close(file)

    def free(self) -> None:
        self._rest.unlink(missing_ok=True)


def _name(node_id: int) -> str:
    return f"node-{node_id}"


def _hardware(number: int) -> str:
    return f"02:00:00:00:77:{number:02x}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=COMMAND_S)
