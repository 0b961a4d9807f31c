"""Machines for tests: each has its own network, mounts and host name, with one address and a cable to a switch. A cut
link loses packets, as between real machines. For root, on Linux. The host's network is unchanged, and nothing is left
when the processes that hold the machines end.

    with Machines(tmp_path, "kt1", "kt2") as machines:
        machines["kt1"].start_node(properties)
        machines.cut("kt1", "kt2")     # packets from kt1 to kt2 are lost; the other way they arrive
        machines.heal()
        machines["kt2"].run("moldau", "topics", "list", "-b", "kt2:9092")
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.running_broker import RunningBroker

NETWORK = "10.79.0"
NOWHERE = "02:00:00:00:79:ff"
"""A hardware address that no machine has."""
COMMAND_S = 60
"""The default time limit of a command on a machine."""
MOLDAU = (sys.executable, "-m", "moldau")
CLUSTER_ID = "I2eXt9rvSnyhct8BYmW6-w"
_HOLD = ("sh", "-c", "echo ready && exec cat")
"""Holds the namespaces of a machine until its standard input ends: at the end of the tests at the latest."""


def why_not() -> str | None:
    """The reason why this host cannot make machines; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root, on Linux"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--", "ip", "link", "add", "a0", "type", "bridge"],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
    )
    return f"no network namespace can be made: {tried.stderr.strip()}" if tried.returncode else None


class Namespaces:
    """The namespaces of one process: a network, mounts and a host name."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--", *_HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert select.select([self._holder.stdout], [], [], COMMAND_S)[0], "the namespaces were not made"
        assert os.read(self._holder.stdout.fileno(), 100) == b"ready\n"
        self.pid = self._holder.pid

    def inside(self, *command: str) -> list[str]:
        """The command that runs `command` there, as a separate process, not a child."""
        return ["nsenter", "-t", str(self.pid), "--net", "--mount", "--uts", "--", *command]

    def run(self, *command: str, timeout_s: float = COMMAND_S) -> str:
        """Gives the standard output. Raises AssertionError with all output if the command fails."""
        ran = subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=timeout_s)
        assert ran.returncode == 0, f"{command} ended with {ran.returncode}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate(timeout=COMMAND_S)


class Machine(Namespaces):
    """Called `name`, at `address`; the other machines resolve that name. Its files are under `directory`."""

    def __init__(self, directory: Path, name: str, number: int) -> None:
        super().__init__()
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self.hardware = f"02:00:00:00:79:{number:02x}"
        self.directory = directory
        self.nodes: list[RunningBroker] = []
        directory.mkdir()

    def plug_in(self, switch: Namespaces, hosts: Path) -> None:
        """Connects its cable to `switch`; `hosts` is its /etc/hosts."""
        peer = f"type veth peer name eth0 netns {self.pid} address {self.hardware}"
        switch.run("sh", "-c", f"ip link add {self.name} {peer} && ip link set {self.name} master switch up")
        self.run(
            *("sh", "-c"),
            f"mount --bind {hosts} /etc/hosts && hostname {self.name} && ip link set lo up && "
            f"ip address add {self.address}/24 dev eth0 && ip link set eth0 up",
        )

    def format(self, properties: str, *options: str) -> Path:
        """Writes the properties of a node, and formats its log directory; `log.dirs` has a default. Gives the file."""
        config = self.directory / "node.properties"
        config.write_text(f"{properties}\nlog.dirs={self.directory / 'data'}\n")
        self.run(*MOLDAU, "kafka-storage", "format", "--cluster-id", CLUSTER_ID, "--config", str(config), *options)
        return config

    def start_node(self, properties: str, *options: str) -> RunningBroker:
        """Formats it as `format` does, and starts it. Does not wait until it serves."""
        return self.start_again(self.format(properties, *options))

    def start_again(self, config: Path) -> RunningBroker:
        """Starts a formatted node."""
        node = RunningBroker("--config", str(config), command="node", prefix=self.inside())
        self.nodes.append(node)
        return node


class Machines:
    """Some machines at one switch, which has its own network."""

    def __init__(self, directory: Path, *names: str) -> None:
        self._switch = Namespaces()
        self._machines: dict[str, Machine] = {}
        self._hosts = directory / "hosts"
        for number, name in enumerate(names, 1):
            self._machines[name] = Machine(directory / name, name, number)
        lines = (f"{each.address} {each.name}" for each in self._machines.values())
        self._hosts.write_text("\n".join(("127.0.0.1 localhost", *lines, "")))

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    def __enter__(self) -> Machines:
        try:
            self._switch.run("sh", "-c", "ip link add switch type bridge && ip link set switch up")
            for machine in self._machines.values():
                machine.plug_in(self._switch, self._hosts)
            self.heal()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self, sender: str, receiver: str) -> None:
        """Loses packets from `sender` to `receiver`, until `heal`."""
        self._know(sender, receiver, NOWHERE)

    def heal(self) -> None:
        """Each machine reaches each again."""
        for machine in self._machines.values():
            for other in self._machines.values():
                if other is not machine:
                    self._know(machine.name, other.name, other.hardware)

    def _know(self, machine: str, other: str, hardware: str) -> None:
        address = self._machines[other].address
        words = ("ip", "neigh", "replace", address, "lladdr", hardware, "nud", "permanent", "dev", "eth0")
        self._machines[machine].run(*words)

    def pull_cable(self, name: str) -> None:
        """Cuts the machine off from all others, in both directions."""
        self._switch.run("ip", "link", "set", name, "down")

    def put_cable_back(self, name: str) -> None:
        self._switch.run("ip", "link", "set", name, "up")

    def close(self) -> None:
        """Ends the nodes and the machines."""
        for machine in self._machines.values():
            for node in machine.nodes:
                node.kill()
        for each in (*self._machines.values(), self._switch):
            each.close()
