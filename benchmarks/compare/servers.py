"""The measured servers. Each one is a process of this run, listens on the loopback address, and has its own folder."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.peers import START_TIMEOUT_S, ApacheKafka, Moldau, Peer, PeerError, free_port

ATTEMPTS = 3
"""Another process may take a free port before the server binds it."""


def tree_of(peer: Peer) -> list[psutil.Process]:
    """The processes of the server: RabbitMQ has helpers."""
    if peer.process is None:
        return []
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(peer.process.pid)
        return [process, *process.children(recursive=True)]
    return []


def cpu_seconds(peer: Peer) -> float:
    seconds = 0.0
    for process in tree_of(peer):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


def pss_mib(peer: Peer) -> float:
    mib = 0.0
    for process in tree_of(peer):
        with suppress(psutil.NoSuchProcess):
            mib += process.memory_full_info().pss / 2**20
    return mib


def kill(peer: Peer) -> None:
    """kill -9 of the server and its helpers. Its data stays."""
    processes = tree_of(peer)
    peer.kill()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=START_TIMEOUT_S)


@dataclass
class Redis(Peer):
    """Redis without snapshots: an append-only file, flushed as `fsync` says."""

    tree: Path = Path()
    fsync: str = "everysec"

    def prepare(self) -> None:
        libraries = [str(folder) for folder in self.tree.glob("usr/lib/*-linux-gnu")]
        self.environment = {"LD_LIBRARY_PATH": ":".join(libraries)}

    def command(self) -> list[str]:
        settings = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder), "save": ""}
        settings |= {"appendonly": "yes", "appendfsync": self.fsync, "daemonize": "no"}
        return [
            str(self.tree / "usr/bin/redis-server"),
            *(word for name, value in settings.items() for word in (f"--{name}", value)),
        ]


@dataclass
class Nats(Peer):
    """NATS with JetStream on files."""

    tree: Path = Path()

    def command(self) -> list[str]:
        listen = ["--addr", "127.0.0.1", "--port", str(self.port)]
        return [
            str(self.tree / "usr/sbin/nats-server"),
            *listen,
            "--jetstream",
            "--store_dir",
            str(self.folder / "jetstream"),
        ]


@dataclass
class RabbitMQ(Peer):
    """RabbitMQ with its stream plugin. It gets its own Erlang and its own port mapper (epmd)."""

    tree: Path = Path()
    stream_port: int = 0
    mapper: subprocess.Popen[bytes] | None = None
    mapper_port: int = 0

    @property
    def erlang(self) -> Path:
        """Where Erlang is: unpacked, or of the machine if it was installed before."""
        unpacked = self.tree / "usr/lib/erlang"
        return unpacked if unpacked.exists() else Path("/usr/lib/erlang")

    def command(self) -> list[str]:
        return [str(next(self.tree.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")))]

    def prepare(self) -> None:
        self.stream_port = self.stream_port or free_port()
        self.mapper_port = self.mapper_port or free_port()
        (self.folder / "enabled_plugins").write_text("[rabbitmq_stream].\n")
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "stream.listeners.tcp.1": f"127.0.0.1:{self.stream_port}",
            "stream.advertised_host": "127.0.0.1",
            "stream.advertised_port": str(self.stream_port),
            "log.console": "true",
            "log.console.level": "warning",
        }
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "rabbitmq.conf").write_text(lines)
        self.environment = {
            "HOME": str(self.folder),
            "PATH": f"{self.erlang / 'bin'}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_NODENAME": f"compare{self.port}@localhost",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, so that a kill hits the server
        }
        if self.mapper is None:
            epmd = str(next(self.erlang.glob("erts-*/bin/epmd")))
            command = [epmd, "-port", str(self.mapper_port), "-address", "127.0.0.1"]
            self.mapper = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def start(self) -> None:
        super().start()
        begin = time.perf_counter()
        for port in (self.port, self.stream_port):
            while not greets(port):
                if time.perf_counter() - begin > START_TIMEOUT_S:
                    raise PeerError(f"{self.name} did not open port {port}: see {self.folder / 'output.txt'}")
                time.sleep(0.01)
        self.start_seconds += time.perf_counter() - begin

    def stop(self) -> None:
        kill(self)
        if self.mapper is not None:
            self.mapper.kill()
            self.mapper.wait()
            self.mapper = None


def greets(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def started(make: Callable[[Path], Peer], folder: Path) -> Peer:
    """A running server; another port is tried if it does not start. Raises PeerError."""
    for attempt in range(ATTEMPTS):
        peer = make(folder / str(attempt))
        try:
            peer.start()
        except OSError as error:
            peer.stop()
            raise PeerError(f"{peer.name} cannot be started: {error}") from error
        except PeerError:
            peer.stop()
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return peer
    raise PeerError("no attempt to start")


def makers(tree: Path | None, kafka: Path | None) -> dict[str, Callable[[Path], Peer]]:
    """How to make each server that is available, by its name."""
    make: dict[str, Callable[[Path], Peer]] = {"moldau": lambda folder: Moldau("Moldau", folder)}
    if kafka is not None:
        make["kafka"] = lambda folder: ApacheKafka("Apache Kafka", folder, libraries=kafka)
    if tree is not None:
        make["rabbitmq"] = lambda folder: RabbitMQ("RabbitMQ", folder, tree=tree)
        make["redis-everysec"] = lambda folder: Redis("Redis, everysec", folder, tree=tree)
        make["redis-always"] = lambda folder: Redis("Redis, always", folder, tree=tree, fsync="always")
        make["nats"] = lambda folder: Nats("NATS", folder, tree=tree)
    return make
