"""A partition without a leader keeps nobody from what is known of the others."""

from __future__ import annotations

import json

import pytest

from moldau.cli.main import main
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.groups import commit
from moldau.client.admin.topics import create_topic, list_topics
from moldau.shell.io.tcp import TCP
from moldau.testing import Cluster
from moldau.types import TopicPartition

IMPATIENT = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 500}


def test_a_topic_and_a_group_are_described_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        servers = cluster.bootstrap_servers
        with ClusterAdmin(TCP, servers, client_id="test") as admin:
            create_topic(admin, "orders", assignment=((1,), (3,)))
            cluster.produce("orders", *[b"x"] * 5, partition=0)
            commit(admin, "readers", {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 0})
            cluster.kill(3)
            cluster.wait_for(lambda: [row.leader_id for row in list_topics(admin)["orders"].partitions] == [1, -1])
            cluster.wait_for(lambda: commit(admin, "others", {TopicPartition("orders", 0): 1}) is None)

        assert main(["topics", "describe", "orders", "--json", "-b", servers]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [(row["leader"], row["start_offset"], row["end_offset"]) for row in rows] == [
            (1, 0, 5),
            (-1, None, None),
        ]

        assert main(["groups", "describe", "readers", "-b", servers]) == 0
        told = capsys.readouterr().out.splitlines()
        assert told[0] == "group readers: Empty, 0 members, lag 2 (1 partition without a leader that tells its end)"

        assert main(["kafka-consumer-groups", "--describe", "--group", "readers", "--bootstrap-server", servers]) == 0
        table = [line.split()[1:6] for line in capsys.readouterr().out.splitlines() if line.startswith("readers")]
        assert table == [["orders", "0", "3", "5", "2"], ["orders", "1", "0", "-", "-"]]
