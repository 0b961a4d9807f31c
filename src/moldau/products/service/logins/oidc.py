"""Logins by OpenID Connect: the authorization code flow with PKCE (RFC 7636), state and nonce.

`issuer.py` checks the id token, and this module its nonce. The access token is passed on to the cluster
(OAUTHBEARER), so the person acts under the own name there. A session ends with its access token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from msgspec.structs import replace

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.bearer import SuppliedLogin
from moldau.errors import KafkaError
from moldau.products.service.logins.cluster import SILENT, own_principal
from moldau.products.service.logins.issuer import NOT_VALID, REFUSED, Issuer
from moldau.products.service.logins.sessions import is_same
from moldau.products.service.logins.settings import USER, LoginFileError, LoginSettings
from moldau.products.service.logins.source import Login, LoginRefused, NoAnswer
from moldau.products.service.people import How, Person, Role
from moldau.transport.access import open_admin
from moldau.transport.secrets import read_secret
from moldau.wire.protocol.security_protocols import has_sasl

_ANSWER_MS: Final = 15_000


class IssuerSource:
    """See OidcSource. `access`: of the service. Raises LoginFileError. Thread-safe."""

    def __init__(self, access: ClusterAccess, settings: LoginSettings) -> None:
        if settings.oidc is None or settings.oidc.client_secret is None:
            raise LoginFileError(f"{settings.path}: there is no table [oidc] with a client.secret")
        self.cluster = str(access)
        self.principal = own_principal(access)
        passes_on = has_sasl(access.security.protocol)
        if not passes_on and not settings.acts_without_tokens:
            raise LoginFileError(
                f"{settings.path}: the cluster is reached by {access.security.protocol}, which takes no bearer tokens: "
                'reach it by SASL_SSL, or set login.without_tokens = "service"'
            )
        self.note = (
            f"This service reads as {self.principal} for you."
            if settings.acts_without_tokens
            else "You act at the cluster under your own name."
        )
        self._access = access
        self._settings = settings
        self._oidc = settings.oidc
        self._secret = settings.oidc.client_secret
        self._issuer = Issuer(settings.path, settings.oidc)

    def start(self, back: str, then: str) -> tuple[str, str]:
        """See OidcSource."""
        verifier, state, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._oidc.client_id,
            "redirect_uri": back,
            "scope": self._oidc.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = self._issuer.endpoint("authorization_endpoint")
        kept = json.dumps([verifier, state, nonce, back, then])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", _encoded(kept)

    def end(self, kept: str, answer: Mapping[str, str]) -> tuple[Login, str]:
        """See OidcSource."""
        try:
            verifier, state, nonce, back, then = json.loads(_decoded(kept))
        except ValueError:
            raise LoginRefused("This login was begun elsewhere. Try again.") from None
        if not is_same(answer.get("state", ""), state):
            raise LoginRefused("This login was begun elsewhere. Try again.")
        if "error" in answer or not answer.get("code"):
            raise LoginRefused(REFUSED)
        tokens = self._exchange(answer["code"], verifier, back)
        claims = self._claims(str(tokens.get("id_token", "")), nonce)
        return self._login(self._issuer.name_in(claims), tokens), then

    def _login(self, name: str, tokens: Mapping[str, Any]) -> Login:
        role, subjects = self._settings.roles.of(name), self._settings.subjects_of(name)
        if role is Role.NOBODY and not subjects:
            raise LoginRefused(f"{name} has no role here: see [roles] in the file of --login.")
        lasts_s = tokens.get("expires_in")
        lasts_s = float(lasts_s) if isinstance(lasts_s, int | float) and lasts_s > 0 else 3_600.0
        access = None
        if not self._settings.acts_without_tokens:
            access = self._own_access(name, str(tokens.get("access_token", "")))
        return Login(Person(USER + name, role, How.OIDC, access, subjects), lasts_s)

    def _own_access(self, name: str, token: str) -> ClusterAccess:
        """The person's access to the cluster, after trying it. Raises LoginRefused, NoAnswer."""
        login = SuppliedLogin(lambda: token, name)
        own = replace(self._access, security=replace(self._access.security, login=login))
        try:
            with open_admin(own, answer_timeout_ms=_ANSWER_MS) as admin:
                admin.cluster()
        except KafkaError as error:
            if error.name == "SASL_AUTHENTICATION_FAILED":
                raise LoginRefused("The cluster does not take the token of the issuer.") from error
            raise NoAnswer(SILENT) from error
        return own

    # -- the issuer

    def _exchange(self, code: str, verifier: str, back: str) -> dict[str, Any]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        try:
            secret = read_secret(self._secret, "oidc.client.secret")
        except KafkaError as error:
            raise NoAnswer(f"The secret of this service cannot be read: {error.message}") from error
        user = base64.b64encode(f"{self._oidc.client_id}:{secret}".encode()).decode()
        headers = {"Authorization": f"Basic {user}", "Content-Type": "application/x-www-form-urlencoded"}
        return self._issuer.ask(self._issuer.endpoint("token_endpoint"), headers, urlencode(form).encode())

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """The claims of the id token. Raises LoginRefused, NoAnswer."""
        claims = self._issuer.claims(token, self._oidc.client_id)
        if not is_same(str(claims.get("nonce", "")), nonce):
            raise LoginRefused(NOT_VALID)
        return claims


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decoded(text: str) -> bytes:
    """Raises ValueError."""
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
