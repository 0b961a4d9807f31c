"""Delegation tokens of people who logged in: one for each session (KIP-48).

The owner of a token is the person. Its renewer is the service, because a login by a token may not request anything
about tokens: the service renews it during the session, and removes it at log-out. The token lives no longer than a
session may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.tokens import DelegationToken, create_token, expire_token, renew_token
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.secrets import Secret
from moldau.client.protocol.security import SASL_PASSWORD, ClientLogin
from moldau.errors import KafkaError, MoldauError
from moldau.products.service.logins.source import NoAnswer
from moldau.transport.access import open_admin
from moldau.wire.protocol.sasl_tokens import SCRAM_HASHES

ABSENT: Final = (
    "DELEGATION_TOKEN_AUTH_DISABLED",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "UNSUPPORTED_VERSION",
    "UNSUPPORTED_SASL_MECHANISM",
)
"""Errors of a cluster that does not support acting by delegation tokens."""
PATIENCE_S: Final = 10.0
"""The time limit for a new token that a broker does not know yet. A busy broker of Apache Kafka took more than 1.5
s."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Pauses between tries; they double."""
_ANSWER_MS: Final = 15_000
_AT_ONCE: Final = -1


class NoTokens(MoldauError):
    """The cluster does not issue delegation tokens."""


class Token:
    """The token of one session. `access`: to the cluster, by the token. `service`: the access of the service, which
    renews the token; `lasts_s`: its maximum lifetime."""

    def __init__(
        self,
        token: DelegationToken,
        access: ClusterAccess,
        service: ClusterAccess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.access = access
        self.lasts_s = (token.max_ms - token.issued_ms) / 1_000
        self._hmac = token.hmac
        self._service = service
        self._period_s = (token.expires_ms - token.issued_ms) / 1_000
        self._clock = clock
        self._renewed_s = clock()

    @classmethod
    def exchange(
        cls,
        admin: ClusterAdmin,
        own: ClusterAccess,
        service: ClusterAccess,
        renewers: Sequence[str],
        lifetime_s: float,
    ) -> Token:
        """Requests a token for the principal of `own`, through `admin`. `renewers`: the principal of the service. Waits
        for the cluster. Raises NoTokens, NoAnswer, and KafkaError if the request fails."""
        login = own.security.login
        mechanisms = [login.mechanism] if login is not None and login.mechanism in SCRAM_HASHES else [*SCRAM_HASHES]
        try:
            made = create_token(admin, renewers=renewers, max_lifetime_ms=int(1_000 * lifetime_s))
        except KafkaError as error:
            if error.name in ABSENT:
                raise NoTokens("the cluster gives no delegation tokens") from None
            raise
        try:
            return cls(made, _usable(made, own, mechanisms), service)
        except KafkaError as error:
            cls(made, own, service).end()
            if error.name in ABSENT:
                raise NoTokens("the cluster takes no delegation tokens") from None
            raise NoAnswer(f"The cluster does not take its own token yet: {error.name}. Try again.") from None

    def renew(self) -> bool:
        """False if the token has ended. Sends no request in the first half of the token's period."""
        age_s = self._clock() - self._renewed_s
        if age_s < self._period_s / 2:
            return True
        try:
            with open_admin(self._service, answer_timeout_ms=_ANSWER_MS) as admin:
                expires_ms = renew_token(admin, self._hmac)
        except KafkaError as error:
            return error.is_retriable and age_s < self._period_s
        self._renewed_s, self._period_s = self._clock(), max(1.0, expires_ms / 1_000 - time.time())
        return True

    def end(self) -> None:
        """Removes the token. If the cluster does not answer, the token expires by itself."""
        with suppress(KafkaError), open_admin(self._service, answer_timeout_ms=_ANSWER_MS) as admin:
            expire_token(admin, self._hmac, _AT_ONCE)


def _usable(token: DelegationToken, own: ClusterAccess, mechanisms: list[str]) -> ClusterAccess:
    """The access by the token, after trying it. Raises KafkaError."""
    for number, mechanism in enumerate(mechanisms):
        login = ClientLogin(mechanism, token.token_id, Secret.in_memory(SASL_PASSWORD, token.password), is_token=True)
        access = replace(own, security=replace(own.security, login=login))
        try:
            _try(access)
        except KafkaError as error:
            if error.name != "UNSUPPORTED_SASL_MECHANISM" or number + 1 == len(mechanisms):
                raise
        else:
            break
    return access


def _try(access: ClusterAccess) -> None:
    pause_s, ends_s = FIRST_PAUSE_S, time.monotonic() + PATIENCE_S
    while True:
        try:
            with open_admin(access, answer_timeout_ms=_ANSWER_MS) as admin:
                admin.cluster()
                return
        except KafkaError as error:
            if error.name != "SASL_AUTHENTICATION_FAILED" or time.monotonic() >= ends_s:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
