"""The security protocols of listeners, by Kafka's names: encrypted or not, with logins or not."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""In the order of their codes in the metadata."""


def has_tls(protocol: str) -> bool:
    """Whether connections of this security protocol begin with a TLS handshake."""
    return protocol in (SSL, SASL_SSL)


def has_sasl(protocol: str) -> bool:
    """Whether clients of this security protocol log in by SASL."""
    return protocol in (SASL_PLAINTEXT, SASL_SSL)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach `host`: localhost, 127.x.y.z, ::1, also in brackets. Uses no DNS."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
