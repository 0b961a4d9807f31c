"""Prepares the security of a `ClusterAccess` for connections: reads secrets, makes TLS contexts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.bearer import BearerLogin, SuppliedLogin
from moldau.client.protocol.sasl import Login
from moldau.client.protocol.security import SASL_PASSWORD, ClientLogin, ClientSecurity
from moldau.errors import kafka_error
from moldau.ports import Dialer
from moldau.transport.secrets import read_secret
from moldau.wire.protocol.oauth_settings import OAUTH_CLIENT_SECRET
from moldau.wire.protocol.sasl_tokens import Credentials

if TYPE_CHECKING:
    from ssl import SSLContext

    from moldau.core.config.setting import SettingValue
    from moldau.core.config.tls_settings import TlsSettings
    from moldau.transport.oauth import SuppliedTokens, TokenSource

MAX_SOURCES: Final = 64
"""Maximum number of logins in a process whose tokens are kept."""
_LISTS = ("ssl.cipher.suites", "ssl.enabled.protocols")
_SWITCHES = ("ssl.allow.dn.changes", "ssl.allow.san.changes")
_DEFAULTS = {"ssl.endpoint.identification.algorithm": "https", "ssl.principal.mapping.rules": "DEFAULT"}


def secured(access: ClusterAccess, dialer: Dialer) -> Dialer:
    """`dialer`, with TLS if the access requires it. Raises INVALID_CONFIG if a store or a secret cannot be read."""
    if not access.security.has_tls:
        return dialer
    # the module ssl takes 20 ms to import
    from moldau.transport.tls_stream import TlsDialer

    return TlsDialer(dialer, context_of(access.security))


def presented_certificate(access: ClusterAccess, dialer: Dialer, host: str, port: int, timeout_ms: int) -> bytes | None:
    """The certificate (DER) of the broker at this address, read over a new connection; None: the access has no TLS.
    Raises KafkaError if no handshake completes in time, and INVALID_CONFIG as `secured`."""
    if not access.security.has_tls:
        return None
    from moldau.transport.tls_stream import TlsDialer

    stream = TlsDialer(dialer, context_of(access.security)).dial(host, port, timeout_ms)
    try:
        return stream.certificate()
    finally:
        stream.close()


def check_readable(access: ClusterAccess) -> None:
    """Reads all stores and secrets of the access without a connection. Raises INVALID_CONFIG."""
    if access.security.has_tls:
        context_of(access.security)
    credentials_of(access.security)
    login = access.security.login
    if isinstance(login, BearerLogin) and login.client_secret is not None:
        read_secret(login.client_secret, OAUTH_CLIENT_SECRET)


def context_of(security: ClientSecurity) -> SSLContext:
    """The TLS context of an access with TLS. Raises INVALID_CONFIG if a store or a secret cannot be read."""
    from moldau.transport.tls import client_context, load_material

    settings = tls_settings_of(security)
    return client_context(settings, load_material(settings))


def credentials_of(security: ClientSecurity) -> Login | None:
    """The client's credentials; None: no login. Raises INVALID_CONFIG if the secret cannot be read.

    Clients with the same token login share its tokens.
    """
    login = security.login
    if login is None:
        return None
    if not isinstance(login, ClientLogin):
        return tokens_of(login)
    password = read_secret(login.password, SASL_PASSWORD)
    try:
        return Credentials(login.mechanism, login.username, password, login.is_token)
    except ValueError as error:
        raise kafka_error("INVALID_CONFIG", str(error)) from None


def tokens_of(login: BearerLogin | SuppliedLogin) -> TokenSource | SuppliedTokens:
    """The source of this login's tokens; requests none yet. Raises INVALID_CONFIG."""
    from moldau.transport.oauth import SuppliedTokens

    return SuppliedTokens(login) if isinstance(login, SuppliedLogin) else _source_of(login)


@lru_cache(maxsize=MAX_SOURCES)
def _source_of(login: BearerLogin) -> TokenSource:
    from moldau.transport.oauth import TokenSource

    return TokenSource(login)


def tls_settings_of(security: ClientSecurity) -> TlsSettings:
    """The TLS settings with their secrets read. Raises INVALID_CONFIG, in Kafka's words for conflicting settings."""
    texts = dict(security.tls)
    texts |= {name: read_secret(secret, name) for name, secret in security.tls_secrets}
    return tls_settings_from(texts)


def tls_settings_from(texts: Mapping[str, str]) -> TlsSettings:
    """The TLS settings of a client or service, by Kafka's names. Raises INVALID_CONFIG, in Kafka's words."""
    from moldau.core.config.tls_settings import tls_settings

    def value_of(name: str, text: str | None) -> SettingValue:
        chosen = _DEFAULTS.get(name) if text is None else text
        if name in _LISTS:
            return tuple(item.strip() for item in (chosen or "").split(",") if item.strip())
        if name in _SWITCHES:
            return chosen == "true"
        return chosen

    return tls_settings("client", texts, value_of)
