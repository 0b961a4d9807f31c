"""Secures a client of a schema registry, by the setting names of Confluent's clients.

    basic.auth.user.info        NAME:PASSWORD
    bearer.auth.token           in place of it
    ssl.ca.location, ...        who may sign its certificate, as for a cluster (CLIENT_TLS_SETTINGS)

In a pipeline file these settings are in the mapping `registry`. In a profile or properties file, they have the prefix
`schema.registry.`, like `schema.registry.url`. Secrets are references (see `client.protocol.secrets`), which Spark
tasks resolve when they ask the registry. Secrets are sent only to their registry, over TLS or on this machine, and
never to the target of a redirect.
"""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPMessage
from typing import IO, Final
from urllib.parse import urlsplit

import msgspec

from moldau.client.protocol.secrets import AccessError, Origin, Secret, secret_of
from moldau.client.protocol.security import CLIENT_TLS_SETTINGS, SECURITY_PROTOCOL, SSL_CA_LOCATION, ClientSecurity
from moldau.errors import kafka_error
from moldau.transport.http_endpoint import LOOPBACK_NAMES
from moldau.transport.secrets import read_secret
from moldau.transport.security import context_of
from moldau.wire.protocol.security_protocols import SSL

URL, USER_INFO, TOKEN = "url", "basic.auth.user.info", "bearer.auth.token"
NAMES: Final = (URL, USER_INFO, TOKEN, SSL_CA_LOCATION, *CLIENT_TLS_SETTINGS)
PREFIX: Final = "schema.registry."
_TLS: Final = ClientSecurity(SSL)


class RegistrySecurity(msgspec.Struct, frozen=True):
    """At most one of `user_info` and `token` may be set. Raises AccessError."""

    user_info: Secret | None = None
    token: Secret | None = None
    tls: ClientSecurity = _TLS

    def __post_init__(self) -> None:
        if self.user_info is not None and self.token is not None:
            raise AccessError(USER_INFO, f"and {TOKEN} cannot both be set")

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], origin: Origin | None = None, prefix: str = ""
    ) -> RegistrySecurity:
        """From the settings with the prefix; ignores others. `origin`: see Origin. Raises AccessError."""
        given = {name: properties[prefix + name] for name in NAMES if prefix + name in properties}
        origin = origin and Origin(origin.path, origin.prefix + prefix)
        tls = ClientSecurity.from_properties({**given, SECURITY_PROTOCOL: SSL}, origin)
        secrets = {name: secret_of(name, given[name], origin) for name in (USER_INFO, TOKEN) if name in given}
        return cls(secrets.get(USER_INFO), secrets.get(TOKEN), tls)

    @property
    def is_for_anyone(self) -> bool:
        return self == NO_SECURITY

    def check_sent_to(self, url: str) -> None:
        """Raises AccessError if a password or token would be sent unencrypted over a network."""
        name = USER_INFO if self.user_info is not None else TOKEN if self.token is not None else None
        parts = urlsplit(url)
        if name is not None and parts.scheme != "https" and parts.hostname not in LOOPBACK_NAMES:
            raise AccessError(name, "is sent over https:// alone, or to this machine")

    def headers(self) -> dict[str, str]:
        """The headers of a request. Reads the secret; raises INVALID_CONFIG."""
        if self.user_info is not None:
            text = read_secret(self.user_info, USER_INFO)
            return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}
        if self.token is not None:
            token = read_secret(self.token, TOKEN)
            if not token.isascii() or not token.isprintable():  # an error of http.client would show the token
                raise kafka_error("INVALID_CONFIG", f"{TOKEN} must be printable ASCII")
            return {"Authorization": f"Bearer {token}"}
        return {}

    def opener(self, url: str) -> urllib.request.OpenerDirector:
        """Reads the key and trust stores; raises INVALID_CONFIG."""
        handlers: list[urllib.request.BaseHandler] = [] if self.is_for_anyone else [_NoRedirects()]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=context_of(self.tls)))
        return urllib.request.build_opener(*handlers)

    def properties(self) -> dict[str, str]:
        """The settings for `from_properties`, with secrets as references. Raises AccessError for a secret in memory."""
        secrets = {USER_INFO: self.user_info, TOKEN: self.token}
        found = {name: secret.reference() for name, secret in secrets.items() if secret is not None}
        return {**found, **{name: text for name, text in self.tls.properties().items() if name != SECURITY_PROTOCOL}}


NO_SECURITY: Final = RegistrySecurity()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error, because the header with the secret would be sent to another address."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None
