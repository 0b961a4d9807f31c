"""The server side of SCRAM (RFC 5802, RFC 7677, KIP-84).

An unknown user gets a stable salt and iteration count, and fails at the same message as a wrong password. (Apache Kafka
rejects unknown users one message earlier, which reveals the names of users.) Each step takes the same time for both.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Protocol

import msgspec

from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.errors import ProtocolError
from moldau.wire.protocol.messages.metadata_records import UserScramCredentialRecord
from moldau.wire.protocol.sasl_tokens import (
    MIN_ITERATIONS,
    SCRAM_HASHES,
    SCRAM_NUMBERS,
    TOKEN_EXTENSION,
    ClientFirst,
    ServerFinal,
    ServerFirst,
    decode_client_final,
    decode_client_first,
    encode_server_final,
    encode_server_first,
    exclusive_or,
    signature,
    stored_key,
)

_OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"
SALT_BYTES = 20
"""The salt length of a user that does not exist: the same as Moldau's own tools use."""
_ANY_SHAPE = ((MIN_ITERATIONS, SALT_BYTES),)


class ScramSecrets(msgspec.Struct, frozen=True):
    """The keys that the server stores for a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    is_of_user: bool = True
    """False: no user has these secrets."""


class Directory(Protocol):
    """A directory of users, see users.py."""

    def find(self, name: str, mechanism: int) -> UserScramCredentialRecord | None:
        """The credential of a user."""
        ...

    def secret(self) -> bytes:
        """The secret from which the salts of unknown users are derived."""
        ...

    def shapes(self, mechanism: int) -> tuple[tuple[int, int], ...]:
        """(iterations, salt length) of existing users, in a stable order. An unknown user gets one of them."""
        ...


class TokenLogin(msgspec.Struct, frozen=True):
    """The delegation token that a client names. `owner`: the name of a user. `lifetime_ms`: the time until it
    expires."""

    secrets: ScramSecrets
    owner: str
    lifetime_ms: int


class Tokens(Protocol):
    """A directory of delegation tokens, see token_logins.py."""

    def salt(self, mechanism: str, token_id: str) -> bytes:
        """The salt of a token, whether it exists or not."""
        ...

    def login(self, mechanism: str, token_id: str) -> TokenLogin:
        """The login of a token. If it does not exist or has expired, no password fits the secrets."""
        ...


class ScramUsers:
    """The users of one mechanism. Unknown users have secrets that no password fits."""

    def __init__(self, mechanism: str, directory: Directory) -> None:
        self.mechanism = mechanism
        self._directory = directory

    def secrets_of(self, username: str) -> ScramSecrets:
        """The secrets of a user, or secrets that no password fits. Both are computed each time."""
        nobody = self._nobody(username)
        found = self._directory.find(username, SCRAM_NUMBERS[self.mechanism])
        if found is None or found.iterations < MIN_ITERATIONS:
            return nobody
        return ScramSecrets(found.salt, found.iterations, found.stored_key, found.server_key)

    def _nobody(self, username: str) -> ScramSecrets:
        secret = self._directory.secret()

        def derived(what: bytes) -> bytes:
            key = hmac.digest(secret, self.mechanism.encode() + b"\0" + what + b"\0" + username.encode(), "sha512")
            return key[: hashlib.new(SCRAM_HASHES[self.mechanism]).digest_size]

        salt, choice = derived(b"salt"), derived(b"shape")
        shapes = self._directory.shapes(SCRAM_NUMBERS[self.mechanism]) or _ANY_SHAPE
        iterations, salt_bytes = shapes[int.from_bytes(choice[:8], "big") % len(shapes)]
        salt = (salt * (salt_bytes // len(salt) + 1))[:salt_bytes]
        return ScramSecrets(salt, iterations, derived(b"stored"), derived(b"server"), is_of_user=False)


class ScramExchange:
    """Two messages from the client and two responses."""

    def __init__(self, users: ScramUsers, server_nonce: str, tokens: Tokens | None = None) -> None:
        """`server_nonce`: random, printable, used once. `tokens`: None if the cluster has no delegation tokens."""
        self._users = users
        self._tokens = tokens
        self._server_nonce = server_nonce
        self._first: ClientFirst | None = None
        self._secrets: ScramSecrets
        self._answer = ""
        self._nonce = ""

    def evaluate(self, token: bytes) -> bytes | Accepted:
        """See Exchange."""
        try:
            return self._begin(token) if self._first is None else self._prove(self._first, token)
        except ProtocolError as error:
            raise AuthenticationRefusedError(str(error)) from None

    def _begin(self, token: bytes) -> bytes:
        first = decode_client_first(token)
        if first.binding.startswith("p"):
            raise AuthenticationRefusedError("the client wants a channel binding, and none is offered")
        if first.authorization_id not in ("", first.username):
            raise AuthenticationRefusedError(_OTHER_IDENTITY, _OTHER_IDENTITY)
        if not _names_token(first.extensions):
            self._secrets = self._users.secrets_of(first.username)
            salt, iterations = self._secrets.salt, self._secrets.iterations
        elif self._tokens is None:
            raise AuthenticationRefusedError("the client wants to use a delegation token, and there are none")
        else:
            salt, iterations = self._tokens.salt(self._users.mechanism, first.username), MIN_ITERATIONS
        self._first, self._nonce = first, first.nonce + self._server_nonce
        self._answer = encode_server_first(ServerFirst(self._nonce, salt, iterations))
        return self._answer.encode()

    def _prove(self, first: ClientFirst, token: bytes) -> Accepted:
        final, mechanism = decode_client_final(token), self._users.mechanism
        if final.header != first.header.encode():
            raise AuthenticationRefusedError("the channel binding differs from that of the first message")
        # librdkafka before 2.6.1 sends its own nonce twice. Apache Kafka has rejected it since 3.7.2 (CVE-2024-56128).
        # The server's part is still compared, so no message can be replayed
        given = final.nonce.removeprefix(first.nonce) if len(final.nonce) > len(self._nonce) else final.nonce
        if not hmac.compare_digest(given.encode(), self._nonce.encode()):
            raise AuthenticationRefusedError("Invalid client nonce in the final client message.")
        login = None
        if self._tokens is not None and _names_token(first.extensions):
            login = self._tokens.login(mechanism, first.username)
        secrets = self._secrets if login is None else login.secrets
        auth_message = f"{first.bare},{self._answer},{final.unproven}"
        expected = signature(mechanism, secrets.stored_key, auth_message)
        server_signature = signature(mechanism, secrets.server_key, auth_message)
        is_of_length = len(final.proof) == len(expected)
        key = exclusive_or(expected, final.proof if is_of_length else expected)
        is_proven = hmac.compare_digest(stored_key(mechanism, key), secrets.stored_key)
        if not (is_of_length & is_proven & secrets.is_of_user):
            raise AuthenticationRefusedError("Invalid client credentials")
        proof = encode_server_final(ServerFinal(server_signature))
        if login is None:
            return Accepted(first.username, proof)
        return Accepted(login.owner, proof, first.username, login.lifetime_ms)


def _names_token(extensions: str) -> bool:
    parts = (part.partition("=") for part in extensions.split(","))
    return any(name == TOKEN_EXTENSION and value.lower() == "true" for name, _, value in parts)
