"""Opens clients of a cluster by a `ClusterAccess`. They connect at first use; a single connection connects at once.

`dialer` wraps the network, such as a ListeningDialer; TLS runs on top of it. All raise INVALID_CONFIG if a store or a
secret of the access cannot be read.
"""

from __future__ import annotations

from moldau.client.admin.client import ClusterAdmin, ControllerAdmin
from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.ports import Dialer
from moldau.transport.security import credentials_of, secured
from moldau.transport.tcp import TCP


def open_client(access: ClusterAccess, *, had_contact: bool = False, dialer: Dialer = TCP) -> ClusterClient:
    """`had_contact`: see ClusterClient."""
    return ClusterClient(
        secured(access, dialer), access, had_contact=had_contact, credentials=credentials_of(access.security)
    )


def open_admin(access: ClusterAccess, *, answer_timeout_ms: int | None = None, dialer: Dialer = TCP) -> ClusterAdmin:
    """`answer_timeout_ms`: see ClusterAdmin."""
    return ClusterAdmin(
        secured(access, dialer),
        access,
        answer_timeout_ms=answer_timeout_ms,
        credentials=credentials_of(access.security),
    )


def open_controller_admin(access: ClusterAccess) -> ControllerAdmin:
    """A client for a cluster whose bootstrap servers are those of controllers."""
    return ControllerAdmin(secured(access, TCP), access, credentials=credentials_of(access.security))


def open_connection(access: ClusterAccess, host: str, port: int) -> ClientConnection:
    """Connects to this broker, which may be outside the bootstrap servers. Raises KafkaError."""
    return ClientConnection(secured(access, TCP), access, host, port, credentials=credentials_of(access.security))
