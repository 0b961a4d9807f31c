"""The measured brokers: starts, watches and stops each.

Apache Kafka is fetched from Maven Central into a folder outside the repository, and formatted again for each run.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

KAFKA_VERSION = "4.4.0"
FORMATTED_RELEASE = "4.3"
"""The release of a new directory's feature levels: Moldau formats with the same."""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>moldau</groupId><artifactId>peers</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>"""
DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""
START_TIMEOUT_S = 60
CONNECT_CLIENT_VERSION = "4.0.4"
CACHE = Path(os.environ.get("MOLDAU_BENCH_CACHE", Path.home() / ".cache" / "moldau-bench"))


class PeerError(Exception):
    """A peer is not available or does not start."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch_kafka(cache: Path) -> Path:
    """The folder of Apache Kafka's jars, fetched once. Raises PeerError if Maven or Java is missing."""
    given = os.environ.get("MOLDAU_KAFKA_LIBS")
    if given:
        return Path(given)
    return fetch_jars(cache, "kafka", ("kafka_2.13", "kafka-tools"))


def fetch_jars(cache: Path, folder: str, artifacts: tuple[str, ...]) -> Path:
    """The folder of these artifacts of Apache Kafka and their dependencies, fetched once. Raises like `fetch_kafka`."""
    coordinates = tuple(f"org.apache.kafka:{name}:{KAFKA_VERSION}" for name in artifacts)
    return fetch_artifacts(cache / f"{folder}-{KAFKA_VERSION}", coordinates)


def fetch_connect_client(cache: Path) -> Path:
    """The folder of a Java client of Kafka Connect's REST interface, fetched once. Raises like `fetch_kafka`."""
    coordinates = f"org.sourcelab:kafka-connect-client:{CONNECT_CLIENT_VERSION}"
    return fetch_artifacts(cache / f"kafka-connect-client-{CONNECT_CLIENT_VERSION}", (coordinates,))


def fetch_artifacts(libraries: Path, coordinates: tuple[str, ...]) -> Path:
    """`libraries` with these artifacts (`group:name:version`) and their dependencies, fetched once. Raises like
    `fetch_kafka`."""
    _, name, version = coordinates[-1].split(":")
    if not (libraries / f"{name}-{version}.jar").exists():
        cache = libraries.parent
        cache.mkdir(parents=True, exist_ok=True)
        dependencies = "".join(DEPENDENCY.format(*each.split(":")) for each in coordinates)
        (cache / "pom.xml").write_text(POM.format(dependencies=dependencies))
        command = ["mvn", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"]
        try:
            subprocess.run(command, cwd=cache, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise PeerError(f"{name} cannot be fetched (Maven and Java 17 are needed): {error}") from error
    return libraries


def python_with(folder: Path, packages: Sequence[str]) -> str:
    """The interpreter of an environment in `folder` with these packages, given as to pip; made once."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "complete").touch()
    return str(python)


JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""As in Kafka's `kafka-run-class.sh`."""


@dataclass
class Peer:
    """One running broker. `command` gets the port; `folder` holds its data and its output."""

    name: str
    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    start_seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)
    has_tls: bool = False

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def client_settings(self) -> dict[str, object]:
        """The settings with which a client of librdkafka reaches it."""
        security = {"security.protocol": "ssl", "ssl.ca.location": str(self.authority)} if self.has_tls else {}
        return {"bootstrap.servers": self.bootstrap_servers, **security}

    @property
    def authority(self) -> Path:
        """The certificate that signed the broker's certificate."""
        return self.folder / "authority.pem"

    def tls_settings(self) -> dict[str, str]:
        """The settings of a broker for clients that use TLS 1.3, with a P-256 key."""
        from tests.support.certificates import authority

        authority().write(self.folder, "authority")
        key = authority().issue("CN=broker").write(self.folder, "broker")
        settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key)}
        return {**settings, "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}

    def command(self) -> list[str]:
        raise PeerError(f"{self.name} has no command")

    def prepare(self) -> None:
        """The operator's work before the first start."""

    def start(self) -> None:
        """Starts the process; returns when its port accepts connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        self.prepare()
        begin = time.perf_counter()
        with (self.folder / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, env={**os.environ, **self.environment}, cwd=self.folder
            )
        while True:
            if self.process.poll() is not None or time.perf_counter() - begin > START_TIMEOUT_S:
                self.stop()  # no other code knows a process that is slow to start
                raise PeerError(f"{self.name} did not start: see {self.folder / 'output.txt'}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.002)
        self.start_seconds = time.perf_counter() - begin

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def cpu_seconds(self) -> float:
        """User and system time of the broker process so far."""
        if self.process is None:
            raise PeerError(f"{self.name} is not running")
        # The CPU clock of another process, in nanoseconds (clock_getcpuclockid); /proc/PID/stat counts in 10 ms.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def minor_faults(self) -> int:
        """Page faults so far that needed no disk: the system gave the process new pages."""
        return int(self._proc("stat").rpartition(")")[2].split()[7])

    def pss_mib(self) -> float:
        """Proportional set size: memory of the process, with a share of each shared page."""
        for line in self._proc("smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        raise PeerError("no Pss line in smaps_rollup")

    def _proc(self, name: str) -> str:
        if self.process is None:
            raise PeerError(f"{self.name} is not running")
        return Path(f"/proc/{self.process.pid}/{name}").read_text()


class Moldau(Peer):
    """`moldau up` with its defaults."""

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "moldau.cli.main", "up", "--data-dir", str(self.folder / "data")]
        if not self.has_tls:
            return [*command, "--listen", f"127.0.0.1:{self.port}"]
        settings = {"listeners": f"SSL://127.0.0.1:{self.port}", "security.inter.broker.protocol": "SSL"}
        settings |= self.tls_settings()
        return [*command, "--no-console", *(f"--set={name}={value}" for name, value in settings.items())]


@dataclass
class ApacheKafka(Peer):
    """One combined node with its defaults: 1 GB heap, one log directory."""

    libraries: Path = Path()
    settings: dict[str, str] = field(default_factory=dict)
    """In addition to those of `prepare`, which override them."""
    passwords: dict[str, str] = field(default_factory=dict)
    """Of SCRAM-SHA-512 users, which exist from the first start."""

    def _java(self) -> list[str]:
        java = os.environ.get("MOLDAU_BENCH_JAVA", "java")
        return [java, "-Xmx1G", "-Xms1G", *JVM_FLAGS, "-cp", f"{self.libraries}/*"]

    def command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]

    def prepare(self) -> None:
        controller = free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listeners": f"CLIENTS://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,CLIENTS:{'SSL' if self.has_tls else 'PLAINTEXT'}",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.has_tls:
            properties |= self.tls_settings()
        properties |= self.settings
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        cluster_id = "MkU3OEVBNTcwNTJENDM2Qk"
        tool = ["kafka.tools.StorageTool", "format", "--standalone", "--ignore-formatted", "-t", cluster_id]
        tool += ["--release-version", FORMATTED_RELEASE]
        for name, password in self.passwords.items():
            tool += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
        done = subprocess.run([*self._java(), *tool, "-c", str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerError(f"Apache Kafka cannot format its directory: {done.stdout}{done.stderr}")


def new_peer(kind: str, folder: Path) -> Peer:
    """`kind`: moldau or kafka. Raises PeerError if Apache Kafka cannot be fetched."""
    if kind == "kafka":
        return ApacheKafka("Apache Kafka", folder, libraries=fetch_kafka(CACHE))
    return Moldau("Moldau", folder)


if __name__ == "__main__":
    print(fetch_kafka(CACHE))
