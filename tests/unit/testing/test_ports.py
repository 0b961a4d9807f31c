"""The ports of a cluster: chosen once, held while no process listens, free at the end."""

from __future__ import annotations

import socket

import pytest

from moldau.core.config.listeners import Endpoint
from moldau.testing import Cluster
from moldau.testing.ports import HeldPorts


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
def test_a_port_is_chosen_on_any_address(host: str) -> None:
    ports = HeldPorts()
    fixed = Endpoint("FIXED", "127.0.0.1", 9092)
    try:
        chosen, kept = ports.choose((Endpoint("PLAINTEXT", host, 0), fixed))
    finally:
        ports.release()
    assert (chosen.host, kept) == (host, fixed)
    assert chosen.port > 0


def test_a_held_port_refuses_and_is_nobody_elses() -> None:
    ports = HeldPorts()
    (chosen,) = ports.choose((Endpoint("PLAINTEXT", "127.0.0.1", 0),))
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", chosen.port)) != 0
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", chosen.port))
    ports.release()
    with socket.create_server(("127.0.0.1", chosen.port)):
        pass


def test_several_listeners_keep_their_ports_over_a_restart() -> None:
    listeners = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    settings = {
        "listeners": listeners,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "INSIDE",
    }
    with Cluster(settings=settings) as cluster:
        before = [listener.port for listener in cluster.node._listeners]
        cluster.restart(clean=False)
        assert [listener.port for listener in cluster.node._listeners] == before
        assert len(set(before)) == 2
