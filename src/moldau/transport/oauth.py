"""Tokens of OAUTHBEARER for our clients and nodes: from an issuer, a file or the caller.

A login asks for a token if it has none or if it is due (`client.protocol.bearer`). No thread refreshes it. A token that
is due and cannot be replaced is used until it expires.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from moldau.client.protocol.bearer import (
    HTTPS_CA_LOCATION,
    BearerLogin,
    Granted,
    SuppliedLogin,
    check_token,
    error_code_of,
    lifetime_ms_of,
    no_token,
    refresh_after_ms,
    take_grant,
    token_request,
)
from moldau.errors import KafkaError, kafka_error
from moldau.extras import MissingExtraError, require_extra
from moldau.ports import Dialer
from moldau.transport.https_request import (
    TIMEOUT_MS,
    HttpAddress,
    HttpFailedError,
    HttpsClient,
    https_context,
    parse_address,
    refused,
)
from moldau.transport.secrets import read_secret, read_text
from moldau.transport.tcp import TCP
from moldau.wire.protocol.oauth_settings import (
    ASSERTION_KEY_FILE,
    OAUTH_ASSERTION_FILE,
    OAUTH_CLIENT_SECRET,
    TOKEN_ENDPOINT,
)
from moldau.wire.protocol.sasl_tokens import BearerToken

if TYPE_CHECKING:
    from ssl import SSLContext

MAX_TRIES: Final = 3
"""Tries for one token, all within the time-out; only errors that a retry may solve are retried."""
MAX_TIMEOUT_MS: Final = 120_000
"""The upper bound for one login, regardless of the settings."""
_JITTER_STEPS: Final = 1 << 16


class TokenSource:
    """The tokens of one login, shared by all its clients. May be used in any thread. See TokenSupply."""

    def __init__(self, login: BearerLogin, dialer: Dialer = TCP, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """`timeout_ms`: of one login with all its tries; longer if the settings let one try take longer. Raises
        INVALID_CONFIG for an invalid address and for an authority that cannot be read."""
        self._login = login
        self._dialer = dialer
        self._timeout_ms = max(timeout_ms, min(login.times.connect_ms + login.times.read_ms, MAX_TIMEOUT_MS))
        self._extensions = dict(login.extensions)
        self._issuer = None if login.is_file else _issuer(login, dialer)
        self._lock = threading.Lock()
        self._kept: Granted | None = None
        self._due_ms = self._ends_ms = 0
        """Due time and expiry of the kept token, on the steady clock."""
        self._error: KafkaError | None = None
        self._next_try_ms = 0
        self._backoff_ms = 0
        self._asking: asyncio.Task[str] | None = None

    def current(self) -> str:
        """A token that has not expired; waits if it must fetch one. Raises KafkaError: NETWORK_EXCEPTION if the issuer
        cannot be reached, SASL_AUTHENTICATION_FAILED if it denies a token, INVALID_CONFIG for unreadable settings or
        files."""
        with self._lock:
            now_ms = self._dialer.monotonic_ms()
            if self._kept is not None and now_ms < self._due_ms:
                return self._kept.token
            if self._error is not None and now_ms < self._next_try_ms:
                return self._old_token(now_ms, self._error)
            try:
                return self._keep(self._granted())
            except KafkaError as error:
                self._note(error)
                return self._old_token(self._dialer.monotonic_ms(), error)

    async def token(self) -> str:
        """As `current`, on an event loop; one thread serves all callers."""
        asking = self._asking
        if asking is None or asking.done() or asking.get_loop() is not asyncio.get_running_loop():
            asking = self._asking = asyncio.create_task(asyncio.to_thread(self.current))
            asking.add_done_callback(_look_at)
        return await asyncio.shield(asking)

    def bearer(self) -> BearerToken:
        """See TokenSupply."""
        return BearerToken(self.current(), self._extensions)

    async def bearer_soon(self) -> BearerToken:
        """See TokenSupply."""
        return BearerToken(await self.token(), self._extensions)

    def _keep(self, granted: Granted) -> str:
        now_ms = self._dialer.monotonic_ms()
        lifetime_ms = granted.lifetime_ms or 0  # a token without a lifetime serves one login
        jitter = int.from_bytes(self._dialer.random_bytes(2), "big") / _JITTER_STEPS
        self._kept = granted
        self._due_ms = now_ms + refresh_after_ms(lifetime_ms, jitter)
        self._ends_ms = now_ms + lifetime_ms
        self._error, self._backoff_ms = None, 0
        return granted.token

    def _note(self, error: KafkaError) -> None:
        self._error = error
        self._backoff_ms = self._longer_ms(self._backoff_ms)
        self._next_try_ms = self._dialer.monotonic_ms() + self._backoff_ms

    def _longer_ms(self, pause_ms: int) -> int:
        """The next pause after one of `pause_ms`. A login during the pause gets the last try's error."""
        times = self._login.times
        return min(max(times.backoff_ms, 2 * pause_ms), times.max_backoff_ms)

    def _old_token(self, now_ms: int, error: KafkaError) -> str:
        if self._kept is None or now_ms >= self._ends_ms:
            raise error.with_traceback(None)
        return self._kept.token

    def _granted(self) -> Granted:
        if self._issuer is None:
            return self._of_file()
        https, address = self._issuer
        deadline_ms = self._dialer.monotonic_ms() + self._timeout_ms
        tries, pause_ms = 1, self._longer_ms(0)
        while True:
            try:
                return self._asked(https, address, deadline_ms)
            except HttpFailedError as error:
                is_last = tries == MAX_TRIES or self._dialer.monotonic_ms() + pause_ms >= deadline_ms
                if is_last or not error.is_transient:
                    where, told = str(address), str(error)
                    raise no_token(self._login, where, told, is_transient=error.is_transient) from error
            self._dialer.pause(pause_ms)
            tries, pause_ms = tries + 1, self._longer_ms(pause_ms)

    def _asked(self, https: HttpsClient, address: HttpAddress, deadline_ms: int) -> Granted:
        login, assertion, secret = self._login, "", ""
        if login.assertion_file:
            assertion = read_text(login.assertion_file, OAUTH_ASSERTION_FILE).strip()
        elif login.key is not None:
            from moldau.transport.assertions import signed_assertion  # the extra `oauth`

            assertion = signed_assertion(login.key, _now_ms())
        elif login.client_secret is not None:
            secret = read_secret(login.client_secret, OAUTH_CLIENT_SECRET)
        headers, form = token_request(login, secret, assertion)
        answer = https.request("POST", address, headers, form, deadline_ms=deadline_ms)
        if answer.status != 200:
            raise refused(answer.status, error_code_of(answer.body))
        try:
            return take_grant(answer.body, _now_ms())
        except ValueError as error:
            raise HttpFailedError(str(error), is_transient=False) from None

    def _of_file(self) -> Granted:
        """Reads the file for each login: its writer decides when to replace the token."""
        path = self._login.path
        token = read_text(path, TOKEN_ENDPOINT).strip()
        try:
            check_token(token)
        except ValueError as error:
            raise kafka_error("INVALID_CONFIG", f"{TOKEN_ENDPOINT}: {path} {error}") from None
        if lifetime_ms_of(token, _now_ms()) == 0:
            raise no_token(self._login, path, "has a token that has expired", is_transient=False)
        return Granted(token, None)


class SuppliedTokens:
    """Tokens from a callback of our caller. See TokenSupply."""

    def __init__(self, login: SuppliedLogin) -> None:
        self._login = login

    def bearer(self) -> BearerToken:
        """See TokenSupply. Raises SASL_AUTHENTICATION_FAILED for a token that a login cannot carry."""
        token = self._login.supply()
        try:
            check_token(token)
        except ValueError as error:
            raise kafka_error("SASL_AUTHENTICATION_FAILED", f"{self._login.who} {error}") from None
        return BearerToken(token)

    async def bearer_soon(self) -> BearerToken:
        """See TokenSupply."""
        return self.bearer()


def _issuer(login: BearerLogin, dialer: Dialer) -> tuple[HttpsClient, HttpAddress]:
    if login.key is not None:
        try:
            require_extra(ASSERTION_KEY_FILE, "oauth")
        except MissingExtraError as error:
            raise kafka_error("INVALID_CONFIG", str(error)) from None
    try:
        address = parse_address(login.endpoint)
    except ValueError as error:
        raise kafka_error("INVALID_CONFIG", f"{TOKEN_ENDPOINT} {error}") from None
    context = _context(login) if address.scheme == "https" else None
    return HttpsClient(context, dialer, connect_ms=login.times.connect_ms, read_ms=login.times.read_ms), address


def _context(login: BearerLogin) -> SSLContext:
    try:
        return https_context(read_text(login.ca_location, HTTPS_CA_LOCATION) if login.ca_location else None)
    except ValueError as error:
        raise kafka_error("INVALID_CONFIG", f"{HTTPS_CA_LOCATION}: {login.ca_location} {error}") from None


def _look_at(done: asyncio.Task[Any]) -> None:
    """Ignores the error of a task that nobody awaits any more."""
    if not done.cancelled():
        done.exception()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
