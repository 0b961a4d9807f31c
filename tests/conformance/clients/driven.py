"""Clients of other languages: a driver in that language, controlled by lines of JSON.

Each driver has its own folder. Its dependencies (npm packages, Go modules, jars) are fetched or built into a folder
outside the repository: MOLDAU_CONFORMANCE_CACHE, or `~/.cache/moldau-conformance`.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import queue
import shutil
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tests.conformance.clients.interface import (
    OPERATIONS,
    TIMEOUT_S,
    Client,
    ClientError,
    Member,
    Position,
    Received,
    parse_json,
)

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 300.0


def cache_folder(name: str) -> Path:
    root = os.environ.get("MOLDAU_CONFORMANCE_CACHE")
    folder = (Path(root) if root else Path.home() / ".cache" / "moldau-conformance") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_to_end(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Driver:
    """A running driver process: one request at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self.process.kill)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ask(self, operation: str, **values: object) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"operation": operation, **values}) + "\n")
        self.process.stdin.flush()
        try:
            line = self._answers.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise AssertionError(f"{operation}: the driver is silent for {TIMEOUT_S} s") from None
        assert line is not None, f"{operation}: the driver ended"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["result"]


def encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


class DrivenClient(Client):
    """The common part of all drivers. A subclass names the command that starts its driver."""

    operations = OPERATIONS
    _drivers: ClassVar[dict[tuple[str, str], Driver]] = {}

    @classmethod
    @abstractmethod
    def command(cls) -> list[str]:
        """The command that starts the driver, which is built first if it must be."""

    @property
    def _driver(self) -> Driver:
        """One for each client and cluster: a JVM for every test would be too slow."""
        key = (self.name, self.bootstrap_servers)
        if key not in self._drivers:
            self._drivers[key] = Driver([*self.command(), self.bootstrap_servers])
        return self._drivers[key]

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        rows = [
            {
                "key": encoded(record.key),
                "value": encoded(record.value),
                "headers": [(name, encoded(value)) for name, value in record.headers],
            }
            for record in records
        ]
        self._driver.ask("produce", topic=topic, partition=partition, codec=codec, records=rows)

    def read(self, topic: str, count: int, *, partition: int = 0) -> list[Received]:
        rows = self._driver.ask("read", topic=topic, partition=partition, count=count, group=f"{topic}-reader")
        return [
            Received(
                decoded(row["key"]),
                decoded(row["value"]),
                tuple((name, decoded(value)) for name, value in row["headers"] or ()),
            )
            for row in rows
        ]

    def read_and_commit(self, topic: str, group: str, count: int) -> list[bytes | None]:
        rows = self._driver.ask("read_and_commit", topic=topic, group=group, count=count)
        return [decoded(row["value"]) for row in rows]

    def transact(
        self, name: str, topic: str, values: Sequence[str], *, is_commit: bool, position: Position | None = None
    ) -> None:
        told = {"name": name, "topic": topic, "values": list(values), "commit": is_commit}
        if position is not None:
            told |= {"group": position.group, "source": position.topic, "offset": position.offset}
        self._driver.ask("transact", **told)

    def fence(self, name: str, topic: str) -> None:
        self._driver.ask("fence", name=name, topic=topic)

    def member(self, topic: str, group: str) -> Member:
        return Member([*self.command(), self.bootstrap_servers, "member", topic, group], parse_json)

    def administer(self, operation: str, **values: object) -> Any:
        return self._driver.ask(operation, **values)


class KafkaJs(DrivenClient):
    name = "kafkajs"
    has_null_headers = False

    @classmethod
    def missing(cls) -> str | None:
        return None if shutil.which("npm") else "there is no npm"

    @classmethod
    def version(cls) -> str:
        return str(json.loads((HERE / "kafkajs" / "package.json").read_text())["dependencies"]["kafkajs"])

    @classmethod
    @cache
    def command(cls) -> list[str]:
        folder = cache_folder("kafkajs")
        for name in ("package.json", "driver.js"):
            shutil.copy(HERE / "kafkajs" / name, folder / name)
        if not (folder / "node_modules" / "kafkajs").exists():
            run_to_end("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", folder=folder)
        return ["node", str(folder / "driver.js")]


class FranzGo(DrivenClient):
    name = "franz-go"

    @classmethod
    def missing(cls) -> str | None:
        return None if shutil.which("go") else "there is no go"

    @classmethod
    def version(cls) -> str:
        lines = (HERE / "franz_go" / "go.mod").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.strip().startswith("github.com/twmb/franz-go v"))

    @classmethod
    @cache
    def command(cls) -> list[str]:
        binary = cache_folder("franz-go") / "driver"
        run_to_end("go", "build", "-o", str(binary), ".", folder=HERE / "franz_go")
        return [str(binary)]


class JavaClient(DrivenClient):
    """Kafka's own client, from the jars in MOLDAU_KAFKA_LIBS."""

    name = "java"

    @classmethod
    def missing(cls) -> str | None:
        return None if "MOLDAU_KAFKA_LIBS" in os.environ else "MOLDAU_KAFKA_LIBS names no jars of Apache Kafka"

    @classmethod
    def version(cls) -> str:
        jar = next(Path(os.environ["MOLDAU_KAFKA_LIBS"]).glob("kafka-clients-*.jar"))
        return jar.stem.removeprefix("kafka-clients-")

    @classmethod
    @cache
    def command(cls) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        bin_folder = f"{home}/bin/" if home else ""
        jars = os.environ["MOLDAU_KAFKA_LIBS"] + "/*"
        classes = cache_folder("java")
        run_to_end(
            f"{bin_folder}javac", "-cp", jars, "-d", str(classes), str(HERE / "java" / "Driver.java"), folder=HERE
        )
        return [f"{bin_folder}java", "-Xmx192m", "-cp", f"{classes}:{jars}", "Driver"]
