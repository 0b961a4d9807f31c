"""Logins by OpenID Connect: the authorization code flow with PKCE (RFC 7636), state and nonce."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.protocol.access import ClusterAccess
from moldau.products.service.logins.settings import LoginSettings
from moldau.products.service.logins.source import Login, NoAnswer


class IssuerSource:
    """See OidcSource."""

    def __init__(self, access: ClusterAccess, settings: LoginSettings) -> None:
        self.cluster = str(access)
        self.principal = ""
        self.note = ""
        self._settings = settings

    def start(self, back: str, then: str) -> tuple[str, str]:
        raise NoAnswer("the issuer does not answer")

    def end(self, kept: str, answer: Mapping[str, str]) -> tuple[Login, str]:
        raise NoAnswer("the issuer does not answer")
