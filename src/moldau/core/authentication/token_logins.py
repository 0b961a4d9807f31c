"""Logins with delegation tokens (KIP-48).

A token that does not exist or has expired gets the responses of a wrong password, like an unknown user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.core.authentication.delegation_tokens import (
    ITERATIONS,
    is_expired,
    token_keys,
    token_salt,
    unknown_token_keys,
)
from moldau.core.authentication.scram import ScramSecrets, TokenLogin
from moldau.wire.protocol.messages.metadata_records import DelegationTokenRecord


class TokenDirectory(Protocol):
    """A directory of tokens, see users.py."""

    def find_token(self, token_id: str) -> DelegationTokenRecord | None:
        """The token with this id; None if it does not exist."""
        ...


class TokenLogins:
    """See `scram.Tokens`. One for each node with `delegation.token.secret.key`."""

    def __init__(self, secret_key: str, directory: TokenDirectory, wall_ms: Callable[[], int]) -> None:
        """`wall_ms`: the time since the epoch, as the records of tokens have it."""
        self._secret_key = secret_key
        self._directory = directory
        self._wall_ms = wall_ms

    def salt(self, mechanism: str, token_id: str) -> bytes:
        """See `scram.Tokens`."""
        return token_salt(self._secret_key, mechanism, token_id)

    def login(self, mechanism: str, token_id: str) -> TokenLogin:
        """See `scram.Tokens`."""
        token, now_ms = self._directory.find_token(token_id), self._wall_ms()
        salt = self.salt(mechanism, token_id)
        if token is None or is_expired(token, now_ms):
            keys = unknown_token_keys(self._secret_key, mechanism, token_id)
            return TokenLogin(ScramSecrets(salt, ITERATIONS, *keys, is_of_user=False), "", 0)
        keys = token_keys(self._secret_key, mechanism, token_id)
        until_ms = min(token.expiration_timestamp, token.max_timestamp)
        owner = token.owner.partition(":")[2]
        return TokenLogin(ScramSecrets(salt, ITERATIONS, *keys), owner, until_ms - now_ms)

    def still_holds(self, token_id: str) -> bool:
        """Whether a client that has logged in with the token may stay."""
        token = self._directory.find_token(token_id)
        return token is not None and not is_expired(token, self._wall_ms())
