"""An issuer of OpenID Connect: its configuration, its keys, and the tokens that it signed.

`wire/web_tokens` validates the tokens, as for brokers (docs/decisions/0106-a-key-fixes-the-algorithm-of-a-token.md).
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moldau.products.service.logins.settings import USER, LoginFileError, LoginSettings, OidcSettings
from moldau.products.service.logins.source import LoginRefused, NoAnswer
from moldau.products.service.people import How, Person
from moldau.transport.https_request import HttpFailedError, HttpsClient, parse_address, refused
from moldau.wire.web_tokens.judge import check_signed_token
from moldau.wire.web_tokens.key_set import KeySet, KeySetError, parse_key_set
from moldau.wire.web_tokens.rules import ClaimRules, TokenRefusedError, UnknownKeyError

MAX_BYTES: Final = 256 << 10
"""The size limit of the issuer's response."""
TIMEOUT_MS: Final = 10_000
KEYS_LAST_S: Final = 300.0
SLOW_S: Final = 5.0
"""A failed fetch of keys that took this long is not repeated at once."""
SKEW_S: Final = 60
"""The tolerated difference between the clocks of the issuer and of this machine."""
MAX_TEXT: Final = 255
REFUSED: Final = "The issuer did not let you in."
NOT_VALID: Final = "The token of the issuer is not valid."


class Issuer:
    """`path`: the file of `--login`. Raises LoginFileError. Thread-safe."""

    def __init__(self, path: Path, settings: OidcSettings) -> None:
        self._settings = settings
        self._https = HttpsClient(_context(path, settings), timeout_ms=TIMEOUT_MS, ca_setting="oidc.ca")
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._keys_s = self._next_try_s = 0.0
        self._failure: str | None = None

    def claims(self, token: str, audience: str) -> dict[str, Any]:
        """The claims of a valid token for this audience. Raises LoginRefused, NoAnswer."""
        rules = ClaimRules((audience,), self._settings.issuer, SKEW_S)
        for is_again in (False, True):
            keys = self._key_set(is_new=is_again)
            try:
                return check_signed_token(token, keys, rules, time.time_ns() // 1_000_000).claims
            except UnknownKeyError:
                continue  # try again with the newest keys
            except TokenRefusedError:
                break
        raise LoginRefused(NOT_VALID, is_wrong=True)

    def name_in(self, claims: Mapping[str, Any]) -> str:
        """Raises LoginRefused."""
        name = claims.get(self._settings.principal_claim)
        if not isinstance(name, str) or not name.strip() or len(name) > MAX_TEXT or not name.isprintable():
            raise LoginRefused(f"The token has no name in its claim {self._settings.principal_claim}.")
        return name

    def _key_set(self, *, is_new: bool) -> KeySet:
        """The issuer's keys. Fetches them again, at most once a second, for a token whose key is unknown. After a
        failure the known keys stay in use. After a slow failure the issuer gets no request for as long as the failure
        took, so requests do not wait one after the other for a silent issuer. Raises NoAnswer."""
        with self._lock:
            now_s = time.monotonic()
            age_s = now_s - self._keys_s
            if self._keys is not None and age_s <= KEYS_LAST_S and not (is_new and age_s > 1):
                return self._keys
            if self._failure is None or now_s >= self._next_try_s:
                try:
                    self._keys, self._failure, self._keys_s = self._fetched_keys(), None, now_s
                except NoAnswer as error:
                    self._failure = str(error)
                    took_s = time.monotonic() - now_s
                    self._next_try_s = now_s + (2 * took_s if took_s >= SLOW_S else 0)
            if self._keys is None:
                raise NoAnswer(str(self._failure))
            return self._keys

    def _fetched_keys(self) -> KeySet:
        """Raises NoAnswer."""
        try:
            return parse_key_set(self._answer(self.endpoint("jwks_uri")))
        except KeySetError:
            raise NoAnswer("The keys of the issuer cannot be read.") from None

    def endpoint(self, name: str) -> str:
        """An endpoint from the issuer's configuration, which is fetched once. Raises NoAnswer."""
        known = self._known
        if not known:
            known = self.ask(f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration")
            if known.get("issuer") != self._settings.issuer:
                raise NoAnswer("The issuer calls itself by another name than the file of --login.")
            self._known = known
        address = known.get(name)
        if not isinstance(address, str) or not address.startswith("https://"):
            raise NoAnswer(f"The issuer names no {name} by https.")
        return address

    def ask(self, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> dict[str, Any]:
        """Raises NoAnswer; LoginRefused if the issuer rejects a code."""
        try:
            found = json.loads(self._answer(url, headers, body))
        except (ValueError, RecursionError):
            raise NoAnswer("The answer of the issuer is no JSON.") from None
        if not isinstance(found, dict):
            raise NoAnswer("The answer of the issuer is no JSON object.")
        return found

    def _answer(self, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> bytes:
        """See `ask`."""
        try:
            address = parse_address(url)
        except ValueError as error:
            raise NoAnswer(f"An address of the issuer {error}.") from None
        method = "GET" if body is None else "POST"
        try:
            answer = self._https.request(method, address, headers or {}, body or b"", max_bytes=MAX_BYTES)
            if body is not None and 400 <= answer.status < 500:
                raise LoginRefused(REFUSED)
            if answer.status != 200:
                raise refused(answer.status)
        except HttpFailedError as error:
            raise NoAnswer(f"The issuer {error}.") from error
        return answer.body


class BearerTokens:
    """Checks the access tokens that programs send in each request. `oidc.audience` is their required audience."""

    def __init__(self, settings: LoginSettings, oidc: OidcSettings, audience: str) -> None:
        """Raises LoginFileError."""
        self._settings = settings
        self._audience = audience
        self._issuer = Issuer(settings.path, oidc)

    def person(self, token: str) -> Person:
        """The person of a token. Waits for the issuer. Raises LoginRefused, NoAnswer."""
        name = self._issuer.name_in(self._issuer.claims(token, self._audience))
        roles, subjects = self._settings.roles.of(name), self._settings.subjects_of(name)
        return Person(USER + name, roles, How.BEARER, subjects=subjects)


def _context(path: Path, settings: OidcSettings) -> ssl.SSLContext:
    """Raises LoginFileError."""
    try:
        return ssl.create_default_context(cafile=None if settings.ca is None else str(settings.ca))
    except (OSError, ValueError) as error:
        raise LoginFileError(f"{path}: oidc.ca: {settings.ca}: {getattr(error, 'strerror', None) or error}") from error
