"""A fourth broker joins three, and partitions move to it, while clients write and read: no client sees an error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster_of_three import (
    NODE_IDS,
    PARTITIONS,
    TOPIC,
    WAIT_S,
    cluster_of_three,
    moldau_command,
)
from tests.support.load import under_load


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_broker_is_added_under_load(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        cluster.create_topic()
        servers = cluster.bootstrap_servers
        with under_load(servers, tmp_path / "history.jsonl", TOPIC, PARTITIONS):
            cluster.add_broker(4, moldau_command)
            topics = (TOPIC, "__consumer_offsets")
            told = moldau(servers, "partitions", "reassign", *topics, "--brokers", "2,3,4", "--execute")
            assert "0 of 4 partitions are still moving" in told
            cluster.wait_until(lambda: preferred_replicas_lead(servers))
            for topic in topics:
                rows = json.loads(moldau(servers, "partitions", "describe", topic, "--json"))
                assert all(sorted(row["replicas"]) == [2, 3, 4] for row in rows)


def preferred_replicas_lead(servers: str) -> bool:
    """A broker on a busy machine may have missed heartbeats just now, and is then not elected."""
    done = run_moldau(servers, "partitions", "elect", TOPIC)
    assert done.returncode == 0 or "The preferred leader was not available." in done.stdout, done.stdout + done.stderr
    return done.returncode == 0


def moldau(servers: str, *words: str) -> str:
    done = run_moldau(servers, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_moldau(servers: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
