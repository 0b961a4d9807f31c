"""The output of a start: clients connect to the advertised address, not to the listening one."""

from __future__ import annotations

import pytest

from moldau.cli.nodes.announcement import announce
from moldau.testing import Cluster


def printed(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> list[str]:
    announce(cluster.node.settings, cluster.node, True, {})
    return capsys.readouterr().out.splitlines()


def test_the_advertised_addresses_are_printed_with_their_listeners(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "INSIDE://broker-1:9092,OUTSIDE://kafka.example.org:9094",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with Cluster(settings=settings) as cluster:
        lines = printed(cluster, capsys)
        own = cluster.bootstrap_servers
    assert "  connect    bootstrap.servers=broker-1:9092 (INSIDE)" in lines
    assert "             bootstrap.servers=kafka.example.org:9094 (OUTSIDE)" in lines
    assert f"  listens    {own}" in lines
    assert "  try        echo hello | moldau produce greetings -b broker-1:9092" in lines
    assert lines[-1] == f"ready {own}"


def test_a_listener_that_advertises_nothing_is_printed_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster() as cluster:
        lines = printed(cluster, capsys)
        own = cluster.bootstrap_servers
    assert f"  connect    bootstrap.servers={own}" in lines
    assert not [line for line in lines if line.startswith("  listens")]
    assert lines[-1] == f"ready {own}"


def test_the_listeners_that_ask_for_a_login_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with Cluster(settings=settings) as cluster:
        assert printed(cluster, capsys)[0].endswith("Kafka protocol, authentication by SASL only at OUTSIDE")
