"""The console distinguishes an unknown host from a refused connection."""

from __future__ import annotations

import socket

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster import Cluster, ClusterError


def ask(address: str) -> str:
    with pytest.raises(ClusterError) as error:
        Cluster(ClusterAccess(address)).overview()
    return str(error.value)


def test_a_cluster_that_is_not_there_is_told_by_its_reason():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        assert ask(address) == f"cannot reach {address}: connection refused, nothing listens there"
    assert ask("-nowhere-:9092") == "cannot reach -nowhere-:9092: there is no host '-nowhere-'"
