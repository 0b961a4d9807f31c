"""A `ClusterAccess` in the words of librdkafka, for the clients of confluent-kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.client.protocol.access import (
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CONNECT_TIMEOUT,
    CONNECT_TIMEOUT_MS,
    LARGEST_CLIENT_NUMBER,
    REQUEST_TIMEOUT_MS,
    ClusterAccess,
)
from moldau.client.protocol.security import (
    PLAIN_TEXT,
    SASL_JAAS_CONFIG,
    SASL_PASSWORD,
    SASL_USERNAME,
    ClientSecurity,
)
from moldau.errors import kafka_error
from moldau.transport.security import credentials_of, tls_settings_of

if TYPE_CHECKING:
    from moldau.core.config.tls_settings import TlsSettings

NO_TOKENS: Final = (
    f"{SASL_JAAS_CONFIG} has a delegation token, and librdkafka, which this needs, cannot log in by one: log in with "
    f"the name and the password of a user ({SASL_USERNAME} and {SASL_PASSWORD})"
)
_REQUEST_MS: Final = (10, 300_000)
_CONNECT_MS: Final = (1_000, LARGEST_CLIENT_NUMBER)
"""The ranges of these settings there, which are smaller than Kafka's."""


def librdkafka_settings(access: ClusterAccess) -> dict[str, object]:
    """The settings of a client of confluent-kafka; without the times that are at their default, for which it has its
    own. Passwords are among them: they are not for a log. `ssl.enabled.protocols` has no counterpart there: TLS 1.2 is
    the floor of both.

    Raises INVALID_CONFIG where a store or a secret cannot be read."""
    found: dict[str, object] = {BOOTSTRAP_SERVERS: access.bootstrap_servers, CLIENT_ID: access.client_id}
    if access.request_timeout_ms != REQUEST_TIMEOUT_MS:
        found["socket.timeout.ms"] = _within(access.request_timeout_ms, *_REQUEST_MS)
    if access.connect_timeout_ms != CONNECT_TIMEOUT_MS:
        found[CONNECT_TIMEOUT] = _within(access.connect_timeout_ms, *_CONNECT_MS)
    return found | security_settings(access.security)


def security_settings(security: ClientSecurity) -> dict[str, object]:
    """Of these settings those that secure the connections. Raises as `librdkafka_settings`, and INVALID_CONFIG for a
    login by a delegation token, which librdkafka does not have."""
    if security.login is not None and security.login.is_token:
        raise kafka_error("INVALID_CONFIG", NO_TOKENS)
    found: dict[str, object] = {}
    if security != PLAIN_TEXT:
        found["security.protocol"] = security.protocol
    if security.has_tls:
        found |= _tls(security)
    credentials = credentials_of(security)
    if credentials is not None:
        found["sasl.mechanism"] = credentials.mechanism
        found["sasl.username"] = credentials.username
        found["sasl.password"] = credentials.password
    return found


def _tls(security: ClientSecurity) -> dict[str, object]:
    from moldau.core.config.tls_settings import PEM
    from moldau.transport.tls import load_material, openssl_suites

    settings = tls_settings_of(security)
    material = load_material(settings)
    found: dict[str, object] = {"ssl.endpoint.identification.algorithm": "https" if settings.checks_host else "none"}
    if settings.truststore is None:
        found["ssl.ca.location"] = "probe"  # where systems have them: its own OpenSSL looks nowhere else
    elif settings.truststore.kind == PEM and settings.truststore.location is not None:
        found["ssl.ca.location"] = settings.truststore.location
    else:
        found["ssl.ca.pem"] = material.trusted
    if settings.cipher_suites:
        found["ssl.cipher.suites"] = ":".join(openssl_suites(settings.cipher_suites))
    return found | _identity(settings)


def _identity(settings: TlsSettings) -> dict[str, object]:
    from moldau.core.config.tls_settings import PEM

    store = settings.keystore
    if store is None:
        return {}
    if store.kind != PEM:
        return {"ssl.keystore.location": store.location, "ssl.keystore.password": store.password}
    if store.location is not None:
        found: dict[str, object] = {"ssl.key.location": store.location, "ssl.certificate.location": store.location}
    else:
        found = {"ssl.key.pem": store.inline, "ssl.certificate.pem": store.inline}
    if settings.key_password is not None:
        found["ssl.key.password"] = settings.key_password
    return found


def _within(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)
