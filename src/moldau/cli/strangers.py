"""What listens at an address where no Kafka broker answers."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client.protocol.access import ClusterAccess

PROBE_TIMEOUT_MS = 2_000


def stranger_at(access: ClusterAccess) -> str | None:
    """A sentence on the first address that speaks TLS, where the access has none, or HTTP; else None."""
    for host, port in access.addresses():
        if not access.security.has_tls and speaks_tls(host, port, PROBE_TIMEOUT_MS):
            return (
                f"{host}:{port} speaks TLS: set security.protocol to SSL or SASL_SSL, by --profile NAME or "
                "--command-config FILE"
            )
        if speaks_http(host, port, PROBE_TIMEOUT_MS):
            return f"{host}:{port} is an HTTP server, not a Kafka broker: use the port of the broker's listener"
    return None


def speaks_http(host: str, port: int, timeout_ms: int) -> bool:
    """Whether a request of HTTP gets an answer in HTTP there."""
    try:
        with socket.create_connection((host, port), timeout=timeout_ms / 1000) as opened:
            opened.sendall(f"HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return opened.recv(5) == b"HTTP/"
    except (OSError, UnicodeError):
        return False


def speaks_tls(host: str, port: int, timeout_ms: int) -> bool:
    """Whether a TLS handshake gets an answer in TLS there."""
    import ssl  # 20 ms, and seldom needed

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=timeout_ms / 1000) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # an alert is TLS too: say, a certificate of ours is asked for
        return "ALERT" in str(error).upper() or "CERTIFICATE" in str(error).upper()
    except OSError:
        return False
