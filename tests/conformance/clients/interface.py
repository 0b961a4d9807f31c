"""The interface of a client under test. Group members are processes that can be killed with -9."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

TIMEOUT_S = 60.0

Headers = tuple[tuple[str, bytes | None], ...]


class Received(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ClientError(Exception):
    """The error that a client reports."""


class Member:
    """A consumer group member in a process. `assigned()`: its present partitions; `values()`: the values it has
    read."""

    def __init__(self, command: Sequence[str], parse: Callable[[str], tuple[str, object] | None]) -> None:
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self._parse = parse
        self._events: queue.Queue[tuple[str, object] | None] = queue.Queue()
        self.assignment: list[int] | None = None
        self.values: list[str] = []
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line)
            event = self._parse(line.rstrip("\n"))
            if event:
                self._events.put(event)
        self._events.put(None)

    def wait_until(self, condition: Callable[[Member], bool]) -> None:
        """Reads the member's events until `condition` holds; fails if the member ends or falls silent first."""
        while not condition(self):
            try:
                event = self._events.get(timeout=TIMEOUT_S)
            except queue.Empty:
                raise AssertionError(f"silent for {TIMEOUT_S} s: owns {self.assignment}, {self.output[-5:]}") from None
            if event is None:
                raise AssertionError(f"the member ended: {''.join(self.output[-20:])}")
            self._take(event)

    def _take(self, event: tuple[str, object]) -> None:
        kind, content = event
        if kind == "assigned":
            self.assignment = sorted(content)  # type: ignore[arg-type]
        else:
            self.values.append(str(content))

    def wait_for_assignment(self, *counts: int) -> None:
        """Waits until it owns one of these numbers of partitions."""
        self.wait_until(lambda member: member.assignment is not None and len(member.assignment) in counts)

    def leave(self) -> None:
        """Ends it cleanly: it leaves the group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self._parse is parse_kcat:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=TIMEOUT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=TIMEOUT_S)


def parse_json(line: str) -> tuple[str, object] | None:
    if not line.startswith("{"):
        return None
    event = json.loads(line)
    return str(event["event"]), event["content"]


def parse_kcat(line: str) -> tuple[str, object] | None:
    """`% Group g rebalanced (memberid m): assigned: topic [0], topic [1]`, or a value."""
    if line.startswith("% Group"):
        _, _, change = line.partition("): ")
        verb, _, partitions = change.partition(":")
        if verb.startswith("assigned"):
            return "assigned", [
                int(part.rsplit("[", 1)[1].rstrip("] ")) for part in partitions.split(",") if "[" in part
            ]
        return "assigned", []
    return None if line.startswith("%") else ("value", line)


OPERATIONS = frozenset(
    (
        "add_partitions",
        "partition_count",
        "set_config",
        "config",
        "delete_records",
        "groups",
        "delete_group",
        "offset_at",
        "delete_topic",
    )
)


class Position(NamedTuple):
    """A group's committed offset of partition 0 of a topic."""

    group: str
    topic: str
    offset: int


class Client(ABC):
    """One client library against one cluster."""

    name: str
    has_null_headers = True
    operations: frozenset[str] = frozenset()
    """The operations of `administer` that this client has."""
    has_transactions = True

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        """Returns when every record is acknowledged by all in-sync replicas."""

    @abstractmethod
    def read(self, topic: str, count: int, *, partition: int = 0) -> list[Received]:
        """The first `count` records of a partition."""

    @abstractmethod
    def read_and_commit(self, topic: str, group: str, count: int) -> list[bytes | None]:
        """As the only member of `group`: the next `count` values, then a commit, then it leaves."""

    def transact(
        self, name: str, topic: str, values: Sequence[str], *, is_commit: bool, position: Position | None = None
    ) -> None:
        """One transaction of the transactional id `name`: writes to partition 0, sends the committed offset, then ends
        it."""
        raise NotImplementedError

    def fence(self, name: str, topic: str) -> None:
        """Two producers with one transactional id: the second begins after the first, then the first writes "old" and
        commits. Raises ClientError if the first one is rejected."""
        raise NotImplementedError

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """The version of the library."""

    @classmethod
    def missing(cls) -> str | None:
        """The reason why this client cannot run here, or None."""
        return None

    @classmethod
    def refused_login(cls) -> str | None:
        """The reason why Apache Kafka does not let this version log in by SCRAM, or None."""
        return None

    def administer(self, operation: str, **values: Any) -> Any:
        """`add_partitions` topic total; `partition_count` topic; `set_config` topic name value; `config` topic name;
        `delete_records` topic partition offset -> log start offset; `groups` -> names; `delete_group` group;
        `offset_at` topic partition timestamp (ms) -> offset; `delete_topic` topic."""
        raise AssertionError(f"{self.name} has no administrative client")

    def member(self, topic: str, group: str) -> Member:
        """Starts a member that prints its partitions and the values it reads."""
        command = [sys.executable, "-m", "tests.conformance.clients.member", self.name]
        return Member([*command, self.bootstrap_servers, topic, group], parse_json)
