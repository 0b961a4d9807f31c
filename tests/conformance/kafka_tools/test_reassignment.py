"""`moldau kafka-reassign-partitions` and Kafka's tool: the same moves on three brokers, with the same output."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.kafka_tools.runner import Ran, Tool, run_kafkas, run_ours
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA
from tests.support.cluster_of_three import (
    NODE_IDS,
    ClusterOfThree,
    Command,
    apache_command,
    cluster_of_three,
    moldau_command,
)

pytestmark = [*NEEDS_APACHE_KAFKA, pytest.mark.timeout(600)]

WAIT_S = 120
REPLICAS = {"moved": [[1, 2], [2, 1]], "still": [[3, 1]]}
ELSEWHERE = {("moved", 0): [3, 2], ("moved", 1): [3, 1], ("still", 0): [3, 1]}
Told = list[tuple[str, int, list[str]]]


class Story:
    """One cluster and the tool that moves its replicas. `told`: each command with its exit code and output."""

    def __init__(self, tool: Tool, cluster: ClusterOfThree, scratch: Path) -> None:
        self.told: Told = []
        self._tool = tool
        self._servers = cluster.bootstrap_servers
        self._scratch = scratch

    def tell(self) -> Told:
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        for name, replicas in REPLICAS.items():
            topic = NewTopic(name, len(replicas), replica_assignment=replicas, config={"min.insync.replicas": "1"})
            admin.create_topics([topic])[name].result(WAIT_S)
        moves = self._file("moves.json", ELSEWHERE)
        more = self._file("more.json", {("moved", 0): [1, 2, 3]})
        self._ask("--list")
        self._ask("--verify", *moves)
        self._ask("--execute", *self._file("unknown.json", {("moved", 0): [3, 9]}))
        self._ask("--execute", *self._file("twice.json", {("moved", 0): [3, 3]}))
        self._ask("--execute", *self._file("none.json", {("moved", 0): []}))
        self._ask("--execute", *moves, "--throttle", "1000000")
        self._until_done(*moves)
        self._ask("--execute", *more, "--disallow-replication-factor-change")
        self._ask("--execute", *more)
        self._until_done(*more)
        self._ask("--cancel", *moves)
        self._ask("--list")
        return self.told

    def _file(self, name: str, moves: dict[tuple[str, int], list[int]]) -> tuple[str, str]:
        rows = [
            {"topic": topic, "partition": partition, "replicas": replicas}
            for (topic, partition), replicas in moves.items()
        ]
        (self._scratch / name).write_text(json.dumps({"version": 1, "partitions": rows}))
        return "--reassignment-json-file", str(self._scratch / name)

    def _run(self, words: Sequence[str]) -> Ran:
        return self._tool(["kafka-reassign-partitions", "--bootstrap-server", self._servers, *words], "")

    def _ask(self, *words: str) -> None:
        code, output, _ = self._run(words)
        command = " ".join(words).replace(str(self._scratch), "")
        lines = [line for line in comparable(output).splitlines() if line and not _TRACE.match(line)]
        self.told.append((command, code, lines))

    def _until_done(self, *words: str) -> None:
        """Repeats until no move is in progress; the number of repeats is not compared."""
        deadline = time.monotonic() + WAIT_S
        while "still in progress" in self._run(["--verify", *words, "--preserve-throttles"])[1]:
            assert time.monotonic() < deadline
        self._ask("--verify", *words)


_TRACE = re.compile(r"\t|org\.apache\.|java\.|Caused by")
"""Of a Java exception."""


def comparable(text: str) -> str:
    """Without the paths of one run; the topics come in the order of a Java HashSet."""
    without_paths = re.sub(r"/[\w./-]+/data-\d", "DIR", text)
    return without_paths.replace("on topics still,moved", "on topics moved,still")


def test_the_same_moves_are_told_in_the_same_words(tmp_path: Path) -> None:
    tools: dict[str, tuple[Tool, Command]] = {
        "kafka": (run_kafkas, apache_command(os.environ["MOLDAU_KAFKA_LIBS"])),
        "moldau": (run_ours, moldau_command),
    }

    def story(name: str) -> Told:
        scratch = tmp_path / name
        scratch.mkdir()
        tool, command = tools[name]
        by_kafka = NODE_IDS if name == "kafka" else ()
        with cluster_of_three(scratch, dict.fromkeys(NODE_IDS, command), by_kafka) as cluster:
            return Story(tool, cluster, scratch).tell()

    with ThreadPoolExecutor() as pool:
        expected = pool.submit(story, "kafka")
        # our tool runs in this process, and captures its standard output
        assert story("moldau") == expected.result()
