"""A `ClusterAccess` as settings of librdkafka, for the clients of confluent-kafka."""

from __future__ import annotations

import time
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
from moldau.client.protocol.bearer import (
    OAUTH_EXTENSIONS,
    BearerLogin,
    LoginTimes,
    SuppliedLogin,
    extensions_text,
    lifetime_ms_of,
)
from moldau.client.protocol.security import (
    PLAIN_TEXT,
    SASL_JAAS_CONFIG,
    SASL_PASSWORD,
    SASL_USERNAME,
    ClientLogin,
    ClientSecurity,
)
from moldau.errors import kafka_error
from moldau.transport.secrets import read_secret
from moldau.transport.security import credentials_of, tls_settings_of, tokens_of
from moldau.wire.protocol.oauth_settings import OAUTH_CLIENT_SECRET, OAUTH_SCOPE, TOKEN_ENDPOINT
from moldau.wire.protocol.sasl_tokens import Credentials

if TYPE_CHECKING:
    from moldau.core.config.tls_settings import TlsSettings
    from moldau.transport.oauth import SuppliedTokens, TokenSource

NO_TOKENS: Final = (
    f"{SASL_JAAS_CONFIG} has a delegation token, and librdkafka, which this needs, cannot log in by one: log in with "
    f"the name and the password of a user ({SASL_USERNAME} and {SASL_PASSWORD})"
)
UNKNOWN_LIFETIME_MS: Final = 60_000
"""For a token without an expiry: librdkafka keeps it this long."""
_REQUEST_MS: Final = (10, 300_000)
_CONNECT_MS: Final = (1_000, LARGEST_CLIENT_NUMBER)
"""librdkafka's ranges of these settings, which are narrower than Kafka's."""


def librdkafka_settings(access: ClusterAccess) -> dict[str, object]:
    """The settings of a confluent-kafka client. Times at their default are left out, because librdkafka has its own
    defaults. The settings include passwords: do not log them. librdkafka has no `ssl.enabled.protocols`: both have TLS
    1.2 as minimum.

    Raises INVALID_CONFIG if a store or a secret cannot be read.
    """
    found: dict[str, object] = {BOOTSTRAP_SERVERS: access.bootstrap_servers, CLIENT_ID: access.client_id}
    if access.request_timeout_ms != REQUEST_TIMEOUT_MS:
        found["socket.timeout.ms"] = _within(access.request_timeout_ms, *_REQUEST_MS)
    if access.connect_timeout_ms != CONNECT_TIMEOUT_MS:
        found[CONNECT_TIMEOUT] = _within(access.connect_timeout_ms, *_CONNECT_MS)
    return found | security_settings(access.security)


def security_settings(security: ClientSecurity) -> dict[str, object]:
    """The subset of `librdkafka_settings` that secures connections. Raises the same errors, and INVALID_CONFIG for a
    login by delegation token, which librdkafka lacks."""
    login = security.login
    if isinstance(login, ClientLogin) and login.is_token:
        raise kafka_error("INVALID_CONFIG", NO_TOKENS)
    found: dict[str, object] = {}
    if security != PLAIN_TEXT:
        found["security.protocol"] = security.protocol
    if security.has_tls:
        found |= _tls(security)
    if isinstance(login, BearerLogin | SuppliedLogin):
        return found | _bearer(login)
    credentials = credentials_of(security)
    if isinstance(credentials, Credentials):
        found["sasl.mechanism"] = credentials.mechanism
        found["sasl.username"] = credentials.username
        found["sasl.password"] = credentials.password
    return found


def _bearer(login: BearerLogin | SuppliedLogin) -> dict[str, object]:
    """librdkafka requests tokens itself if it can do so as we would."""
    found: dict[str, object] = {"sasl.mechanism": login.mechanism}
    tokens = tokens_of(login)
    if isinstance(login, SuppliedLogin) or login.is_file or login.has_assertion or login.is_url_encoded:
        return found | {"oauth_cb": TokenCallback(tokens)}
    if login.times != LoginTimes():
        return found | {"oauth_cb": TokenCallback(tokens)}
    found |= {
        "sasl.oauthbearer.method": "oidc",
        TOKEN_ENDPOINT: login.endpoint,
        "sasl.oauthbearer.client.id": login.client_id,
        "https.ca.location": login.ca_location or "probe",
    }
    if login.client_secret is not None:
        found["sasl.oauthbearer.client.secret"] = read_secret(login.client_secret, OAUTH_CLIENT_SECRET)
    if login.scope:
        found[OAUTH_SCOPE] = login.scope
    if login.extensions:
        found[OAUTH_EXTENSIONS] = extensions_text(login.extensions)
    return found


class TokenCallback:
    """`oauth_cb` of confluent-kafka. Returns a token, its expiry (s since 1970), the principal and the extensions."""

    def __init__(self, tokens: TokenSource | SuppliedTokens) -> None:
        self._tokens = tokens

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Raises KafkaError; the client reports it and calls again."""
        bearer = self._tokens.bearer()
        now_ms = time.time_ns() // 1_000_000
        lifetime_ms = lifetime_ms_of(bearer.token, now_ms)
        ends_ms = now_ms + (UNKNOWN_LIFETIME_MS if lifetime_ms is None else lifetime_ms)
        return bearer.token, ends_ms / 1_000, "", bearer.extensions


def _tls(security: ClientSecurity) -> dict[str, object]:
    from moldau.core.config.tls_settings import PEM
    from moldau.transport.tls import load_material, openssl_suites

    settings = tls_settings_of(security)
    material = load_material(settings)
    found: dict[str, object] = {"ssl.endpoint.identification.algorithm": "https" if settings.checks_host else "none"}
    if settings.truststore is None:
        found["ssl.ca.location"] = "probe"  # find the system's: its own OpenSSL looks nowhere else
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
