"""A partition without a leader does not hide the results of the others."""

from __future__ import annotations

import json
import subprocess
import sys

from moldau.client.admin.groups import commit
from moldau.client.admin.topics import create_topic, list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.testing import Cluster
from moldau.transport.access import open_admin
from moldau.types import TopicPartition

IMPATIENT = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 500}


def run(*words: str) -> tuple[int, list[str]]:
    """Exit code, and the lines on standard output."""
    command = [sys.executable, "-m", "moldau.cli.main", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout.splitlines()


def test_a_topic_and_a_group_are_described_without_it() -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        servers = cluster.bootstrap_servers
        with open_admin(ClusterAccess(servers, client_id="test")) as admin:
            create_topic(admin, "orders", assignment=((1,), (3,)))
            cluster.produce("orders", *[b"x"] * 5, partition=0)
            commit(admin, "readers", {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 0})
            cluster.kill(3)
            cluster.wait_for(lambda: [row.leader_id for row in list_topics(admin)["orders"].partitions] == [1, -1])
            cluster.wait_for(lambda: commit(admin, "others", {TopicPartition("orders", 0): 1}) is None)

        code, lines = run("topics", "describe", "orders", "--json", "-b", servers)
        rows = [(row["leader"], row["start_offset"], row["end_offset"]) for row in json.loads("".join(lines))]
        assert (code, rows) == (0, [(1, 0, 5), (-1, None, None)])

        code, lines = run("offsets", "list", "orders", "-b", servers)
        assert code == 1
        assert [line.split(maxsplit=3) for line in lines[2:]] == [
            ["orders", "0", "5", "-"],
            ["orders", "1", "-", "no leader tells it"],
        ]

        code, lines = run("groups", "describe", "readers", "-b", servers)
        assert code == 0
        assert lines[0] == "group readers: Empty, 0 members, lag 2 (1 partition without a leader that tells its end)"

        code, lines = run("kafka-consumer-groups", "--describe", "--group", "readers", "--bootstrap-server", servers)
        table = [line.split()[1:6] for line in lines if line.startswith("readers")]
        assert (code, table) == (0, [["orders", "0", "3", "5", "2"], ["orders", "1", "0", "-", "-"]])
