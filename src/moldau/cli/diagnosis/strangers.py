"""Detects the protocol at an address that does not answer a Kafka client: TLS, HTTP, SASL."""

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
    """Whether an HTTP request gets an HTTP answer."""
    try:
        with socket.create_connection((host, port), timeout=timeout_ms / 1000) as opened:
            opened.sendall(f"HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return opened.recv(5) == b"HTTP/"
    except (OSError, UnicodeError):
        return False


def speaks_tls(host: str, port: int, timeout_ms: int) -> bool:
    """Whether a TLS handshake gets a TLS answer."""
    import ssl  # takes 20 ms, and is seldom needed

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
        # an alert is TLS too; for example, the server requests a client certificate
        return "ALERT" in str(error).upper() or "CERTIFICATE" in str(error).upper()
    except OSError:
        return False


def offered_mechanisms(access: ClusterAccess, host: str, port: int, *, has_tls: bool) -> tuple[str, ...] | None:
    """The SASL mechanisms that the listener accepts; () if it requires no login, None if no Kafka broker answers over
    TLS or plain text, as `has_tls` says."""
    from moldau.wire.protocol.messages.sasl import SaslHandshakeRequest

    try:
        with _without_login(access, host, port, has_tls=has_tls) as connection:
            answer = connection.request(SaslHandshakeRequest(""))
    except MoldauError:
        return None
    return tuple(answer.mechanisms) if answer.error_code == ERROR_CODES["UNSUPPORTED_SASL_MECHANISM"] else ()


def certificate_at(access: ClusterAccess, host: str, port: int) -> bytes | None:
    """The certificate (DER) that the listener presents, trusted or not; None if no handshake completes."""
    import ssl

    from moldau.transport.security import context_of

    try:
        context = context_of(access.security)  # with the client's certificate, because the listener may request it
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
