"""Finds out what listens at an address that does not answer a Kafka client: TLS, HTTP, SASL."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import msgspec

from moldau.errors import ERROR_CODES, KafkaError, MoldauError

if TYPE_CHECKING:
    from moldau.client.blocking.connection import ClientConnection
    from moldau.client.protocol.access import ClusterAccess

PROBE_TIMEOUT_MS = 2_000


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


def offered_mechanisms(access: ClusterAccess, host: str, port: int, *, has_tls: bool) -> tuple[str, ...] | None:
    """The mechanisms of SASL by which the listener lets clients in; () where it asks for no login, None where no Kafka
    broker answers in this way, with TLS or without."""
    from moldau.wire.protocol.messages.sasl import SaslHandshakeRequest

    try:
        with _without_login(access, host, port, has_tls=has_tls) as connection:
            answer = connection.request(SaslHandshakeRequest(""))
    except MoldauError:
        return None
    return tuple(answer.mechanisms) if answer.error_code == ERROR_CODES["UNSUPPORTED_SASL_MECHANISM"] else ()


def certificate_at(access: ClusterAccess, host: str, port: int) -> bytes | None:
    """The certificate (DER) that the listener shows, trusted or not; None where no handshake ends."""
    import ssl

    from moldau.transport.security import context_of

    try:
        context = context_of(access.security)  # with the certificate of the client, which may be asked for
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with (
            socket.create_connection((host, port), timeout=PROBE_TIMEOUT_MS / 1000) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return secured.getpeercert(binary_form=True)
    except (OSError, ValueError, KafkaError):
        return None


def _without_login(access: ClusterAccess, host: str, port: int, *, has_tls: bool) -> ClientConnection:
    from moldau.client.protocol.security import PLAIN_TEXT
    from moldau.transport.access import open_connection
    from moldau.wire.protocol.security_protocols import SSL

    security = msgspec.structs.replace(access.security, protocol=SSL, login=None) if has_tls else PLAIN_TEXT
    timeout_ms = min(access.connect_timeout_ms, PROBE_TIMEOUT_MS)
    own = msgspec.structs.replace(
        access, security=security, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
    )
    return open_connection(own, host, port)
