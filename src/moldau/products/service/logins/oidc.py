"""Logins by OpenID Connect: the authorization code flow with PKCE (RFC 7636), state and nonce.

The id token is checked by joserfc: its signature by a key of the issuer, with the algorithm that the key has and never
the one that the token asks for; its issuer, audience, times and nonce. The access token is passed on to the cluster
(OAUTHBEARER), where the person acts under the own name. A session ends with its access token.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec.structs import replace

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.bearer import SuppliedLogin
from moldau.errors import KafkaError
from moldau.products.service.logins.cluster import SILENT, own_principal
from moldau.products.service.logins.sessions import is_same
from moldau.products.service.logins.settings import USER, LoginFileError, LoginSettings, OidcSettings
from moldau.products.service.logins.source import Login, LoginRefused, NoAnswer
from moldau.products.service.people import How, Person, Role
from moldau.transport.access import open_admin
from moldau.transport.http_fetch import FetchError, HttpRequest, fetch
from moldau.transport.secrets import read_secret
from moldau.wire.protocol.security_protocols import has_sasl

MAX_BYTES: Final = 256 << 10
"""Of an answer of the issuer."""
TIMEOUT_S: Final = 10.0
KEYS_LAST_S: Final = 300.0
SKEW_S: Final = 60
"""How far the clocks of the issuer and of this machine may be apart."""
ALGORITHMS: Final = {"RSA": ("RS256", "PS256"), "EC": ("ES256", "ES384", "ES512")}
"""By the kind of a key. A shared secret, and `none`, sign nothing here."""
MAX_TEXT: Final = 255
REFUSED: Final = "The issuer did not let you in."
_ANSWER_MS: Final = 15_000


class IssuerSource:
    """See OidcSource. `access`: of the service. Raises LoginFileError. Thread-safe."""

    def __init__(self, access: ClusterAccess, settings: LoginSettings) -> None:
        if settings.oidc is None:
            raise LoginFileError(f"{settings.path}: there is no table [oidc]")
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
        self._tls = _context(settings.oidc)
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._keys_s = 0.0

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
        address = self._endpoint("authorization_endpoint")
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
        name = claims.get(self._oidc.principal_claim)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT or not name.isprintable():
            raise LoginRefused(f"The token has no name in its claim {self._oidc.principal_claim}.")
        return self._login(name, tokens), then

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
        """Tried at the cluster. Raises LoginRefused, NoAnswer."""
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
            secret = read_secret(self._oidc.client_secret, "oidc.client.secret")
        except KafkaError as error:
            raise NoAnswer(f"The secret of this service cannot be read: {error.message}") from error
        user = base64.b64encode(f"{self._oidc.client_id}:{secret}".encode()).decode()
        headers = (("Authorization", f"Basic {user}"), ("Content-Type", "application/x-www-form-urlencoded"))
        return self._ask(self._endpoint("token_endpoint"), headers, urlencode(form).encode())

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """Of the id token. Raises LoginRefused."""
        expected: dict[str, Any] = {
            "iss": {"essential": True, "value": self._oidc.issuer},
            "aud": {"essential": True, "value": self._oidc.client_id},
            "exp": {"essential": True},
            "nonce": {"essential": True, "value": nonce},
        }
        registry = jwt.JWTClaimsRegistry(now=int(time.time()), leeway=SKEW_S, **expected)
        for is_again in (False, True):
            keys = self._key_set(is_new=is_again)
            try:
                found = jwt.decode(token, keys, algorithms=_algorithms(keys, token))
                registry.validate(found.claims)
                return found.claims
            except (JoseError, ValueError, TypeError, KeyError):
                if is_again:
                    break  # with the newest keys too
        raise LoginRefused("The token of the issuer is not valid.")

    def _key_set(self, *, is_new: bool) -> KeySet:
        """Those of the issuer; fetched again for a token that the known ones do not explain, at most once a second."""
        with self._lock:
            age_s = time.monotonic() - self._keys_s
            if self._keys is None or age_s > KEYS_LAST_S or (is_new and age_s > 1):
                found = self._ask(self._endpoint("jwks_uri"))
                try:
                    usable = [key for key in found["keys"] if key.get("kty") in ALGORITHMS]
                    self._keys = KeySet.import_key_set({"keys": usable})
                except (JoseError, ValueError, TypeError, KeyError, AttributeError):
                    raise NoAnswer("The keys of the issuer cannot be read.") from None
                self._keys_s = time.monotonic()
            return self._keys

    def _endpoint(self, name: str) -> str:
        """Of the issuer's configuration, which is asked for once. Raises NoAnswer."""
        known = self._known
        if not known:
            known = self._ask(f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration")
            if known.get("issuer") != self._oidc.issuer:
                raise NoAnswer("The issuer calls itself by another name than the file of --login.")
            self._known = known
        address = known.get(name)
        if not isinstance(address, str) or not address.startswith("https://"):
            raise NoAnswer(f"The issuer names no {name} by https.")
        return address

    def _ask(self, url: str, headers: tuple[tuple[str, str], ...] = (), body: bytes | None = None) -> dict[str, Any]:
        """Raises NoAnswer; LoginRefused where the issuer refuses a code."""
        try:
            data = asyncio.run(fetch(HttpRequest(url, headers, body), MAX_BYTES, self._tls, TIMEOUT_S))
            found = json.loads(data)
        except FetchError as error:
            if error.is_lasting and body is not None:
                raise LoginRefused(REFUSED) from None
            raise NoAnswer(f"The issuer does not answer: {error}.") from error
        except (ValueError, RecursionError):
            raise NoAnswer("The answer of the issuer is no JSON.") from None
        if not isinstance(found, dict):
            raise NoAnswer("The answer of the issuer is no JSON object.")
        return found


def _algorithms(keys: KeySet, token: str) -> list[str]:
    """Those of the key that the token names: a key says what it signs with, not the token. Raises ValueError."""
    header = json.loads(_decoded(token.partition(".")[0]))
    if not isinstance(header, dict) or header.get("crit") is not None:
        raise ValueError("no header")
    key = keys.get_by_kid(header["kid"]) if "kid" in header else keys.keys[0]
    told = key.get("alg")
    allowed = ALGORITHMS[str(key.key_type)]
    return [told] if told in allowed else list(allowed)


def _context(settings: OidcSettings) -> ssl.SSLContext:
    """Raises LoginFileError."""
    try:
        return ssl.create_default_context(cafile=None if settings.ca is None else str(settings.ca))
    except (OSError, ValueError) as error:
        raise LoginFileError(f"oidc.ca: {settings.ca}: {getattr(error, 'strerror', None) or error}") from error


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decoded(text: str) -> bytes:
    """Raises ValueError."""
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
