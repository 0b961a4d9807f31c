"""The service of connectors with SourceLab's kafka-connect-client, a client of Kafka Connect in Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import CACHE, fetch_connect_client
from moldau.testing import Cluster
from tests.support.connect_workers import Rest
from tests.support.talking_process import line_of, running

FLOW = Path(__file__).parent / "connect_client" / "Flow.java"
NAME = "made/of rows"
CONFIG = "connector.class=datagen, limit=20, name=made/of rows, rows.per.second=0, tasks.max=2, topic=made"
STEPS = [
    "version: true",
    "plugins: true",
    "validate: 0 []",
    "validate: 1 [limit]",
    "create: source",
    "status: RUNNING 2",
    f"connectors: [{NAME}]",
    "get: 20",
    f"config: {{{CONFIG}}}",
    "tasks: [0, 1]",
    "task status: RUNNING",
    "expanded: 2 2",
    f"expanded info: [{NAME}]",
    f"expanded status: [{NAME}]",
    "topics: [made]",
    "reset topics: true",
    "update: 30",
    "status: RUNNING 2",
    "pause: true",
    "status: PAUSED 2",
    "resume: true",
    "status: RUNNING 2",
    "restart: true",
    "status: RUNNING 2",
    "restart all: true",
    "status: RUNNING 2",
    "restart task: true",
    "status: RUNNING 2",
    "not found: Connector none not found",
    "invalid: 400",
    "delete: true",
    "connectors: []",
]
END_S = 120


@pytest.mark.foreign
def test_a_java_client_of_kafka_connect_runs_its_flow() -> None:
    jars = fetch_connect_client(CACHE)
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    serve = [sys.executable, "-m", "moldau", "connect", "serve", "--port", "0"]
    with (
        Cluster() as cluster,
        running([*serve, "-b", cluster.bootstrap_servers], stdout=subprocess.PIPE) as process,
    ):
        url = line_of(process.stdout).split()[1].rstrip("/")
        Rest(url).until("/health", lambda _: True)
        flow = [java, "-Xmx192m", "-cp", f"{jars}/*", str(FLOW), url]
        done = subprocess.run(flow, capture_output=True, text=True, timeout=END_S, check=False)
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
    assert done.stdout.splitlines() == STEPS, done.stderr
