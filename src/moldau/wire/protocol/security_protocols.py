"""The security protocols of a listener, by Kafka's names: whether it is encrypted, and whether its clients log in."""

from __future__ import annotations

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
