"""A node with only the controller role decides for nodes with only the broker role: one quorum, one cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster_of_three import SEPARATE_ROLES, check_that_each_may_die, cluster_of_three, moldau_command

COMMANDS = dict.fromkeys(SEPARATE_ROLES, moldau_command)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_node_may_die_and_nothing_is_lost_or_comes_twice(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, COMMANDS, roles=SEPARATE_ROLES) as cluster:
        check_that_each_may_die(cluster)
        for flag, servers in (
            ("--bootstrap-server", cluster.bootstrap_servers),
            ("--bootstrap-controller", cluster.bootstrap_controllers),
        ):
            assert quorum(flag, servers) == [["1", "Leader"], ["2", "Observer"], ["3", "Observer"]]
        points = told("kafka-cluster", "list-endpoints", "-C", cluster.bootstrap_controllers).splitlines()
        assert [line.split()[-1] for line in points] == ["ENDPOINT_TYPE", "controller"]
        setting = ("--entity-type", "brokers", "--entity-name", "2")
        at_controller = ("kafka-configs", "--bootstrap-controller", cluster.bootstrap_controllers)
        told(*at_controller, "--alter", *setting, "--add-config", "log.cleaner.threads=2")
        described = told("kafka-configs", "--bootstrap-server", cluster.bootstrap_servers, "--describe", *setting)
        assert "log.cleaner.threads=2" in described


def told(*words: str) -> str:
    """The output of one of our tools; fails unless it exits 0."""
    command = [sys.executable, "-m", "moldau.cli.main", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def quorum(flag: str, servers: str) -> list[list[str]]:
    """Each node and its role, by Kafka's tool."""
    rows = told("kafka-metadata-quorum", flag, servers, "describe", "--replication").splitlines()[1:]
    return [[line.split()[0], line.split()[-1]] for line in rows]
