"""The console's process: its end as a child of a broker, and what it shows while a broker is frozen."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster_of_three import NODE_IDS, TOPIC, cluster_of_three, moldau_command
from tests.support.running_broker import RunningBroker

WAIT_S = 60


def start(*arguments: str) -> subprocess.Popen[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = str(listening.fileno())
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "moldau.products.console",
                "--fd",
                descriptor,
                "--access",
                "bootstrap.servers=127.0.0.1:1",
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(listening.fileno(),),
        )


@pytest.mark.parametrize("is_idle", [True, False])
def test_it_ends_in_silence_when_it_is_idle_and_with_its_parent(is_idle: bool) -> None:
    # idle: its standard input stays open, and a thread reads it, while Python ends
    with start("--idle-exit", "0.1") if is_idle else start() as child:
        assert child.stdin is not None
        assert child.stderr is not None
        if not is_idle:
            child.stdin.close()
        assert child.wait(60) == 0
        assert child.stderr.read() == ""


@pytest.mark.slow
def test_a_broker_that_stands_still_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    # the controller does not notice: metadata still names the broker
    settings = {"broker.session.timeout.ms": "600000"}
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command), settings=settings) as cluster:
        cluster.create_topic()
        cluster.produce("before", 30)
        address = cluster.bootstrap_servers.split(",")[0]
        with cluster.standing_still(1):
            page = RunningBroker("-b", cluster.bootstrap_servers, "--port", "0", command="console")
            try:
                page.wait_until_told("http://")
                connection = http.client.HTTPConnection(page.output[0].split()[1].split("/")[2], timeout=WAIT_S)
                connection.request("GET", f"/topics/{TOPIC}")
                response = connection.getresponse()
                body = response.read().decode()
                connection.close()
            finally:
                page.stop()
    assert response.status == 200
    assert f"Not answering: broker 1 at {address}." in body
