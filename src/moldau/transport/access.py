"""Clients of a cluster, opened as a `ClusterAccess` says. All connect at first use, but for a connection alone.

`dialer`: what a caller puts around the network, such as a ListeningDialer; by default nothing.
"""

from __future__ import annotations

from moldau.client.admin.client import ClusterAdmin, ControllerAdmin
from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.ports import Dialer
from moldau.transport.tcp import TCP


def open_client(access: ClusterAccess, *, had_contact: bool = False, dialer: Dialer = TCP) -> ClusterClient:
    """`had_contact`: see ClusterClient."""
    return ClusterClient(dialer, access, had_contact=had_contact)


def open_admin(access: ClusterAccess, *, answer_timeout_ms: int | None = None, dialer: Dialer = TCP) -> ClusterAdmin:
    """`answer_timeout_ms`: see ClusterAdmin."""
    return ClusterAdmin(dialer, access, answer_timeout_ms=answer_timeout_ms)


def open_controller_admin(access: ClusterAccess) -> ControllerAdmin:
    """Where the bootstrap servers are those of controllers."""
    return ControllerAdmin(TCP, access)


def open_connection(access: ClusterAccess, host: str, port: int) -> ClientConnection:
    """To this broker, which need not be one of the bootstrap servers. Raises KafkaError."""
    return ClientConnection(TCP, access, host, port)
