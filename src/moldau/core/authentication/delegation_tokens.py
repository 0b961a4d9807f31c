"""The HMAC of a delegation token and its SCRAM keys (KIP-48).

The secret of a token is not stored. Its HMAC is computed from its id and `delegation.token.secret.key`, and its SCRAM
keys from the HMAC, on demand. Some are cached.
"""

from __future__ import annotations

import base64
import hmac
from functools import lru_cache
from typing import Final

from moldau.types import Pausing
from moldau.wire.protocol.messages.metadata_records import DelegationTokenRecord
from moldau.wire.protocol.sasl_tokens import (
    MIN_ITERATIONS,
    SCRAM_HASHES,
    client_key,
    salted_password,
    server_key,
    stored_key,
)

MAX_HMACS: Final = 16_384
MAX_KEYS: Final = 1_024
"""The most cached keys, one for each token and mechanism. Each takes about 2 ms to compute."""
SALT_BYTES: Final = 20
ITERATIONS: Final = MIN_ITERATIONS


@lru_cache(MAX_HMACS)
def token_hmac(secret_key: str, token_id: str) -> bytes:
    """64 bytes; in base64 the password of the token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_salt(secret_key: str, mechanism: str, token_id: str) -> bytes:
    """The salt of a token. A token that does not exist has one too, so that clients cannot tell the difference."""
    return hmac.digest(secret_key.encode(), f"salt\0{mechanism}\0{token_id}".encode(), "sha512")[:SALT_BYTES]


@lru_cache(MAX_KEYS)
def token_keys(secret_key: str, mechanism: str, token_id: str) -> tuple[bytes, bytes]:
    """The stored key and the server key of a token. Takes about 2 ms the first time."""
    password = base64.b64encode(token_hmac(secret_key, token_id)).decode()
    salted = salted_password(mechanism, password, token_salt(secret_key, mechanism, token_id), ITERATIONS)
    return stored_key(mechanism, client_key(mechanism, salted)), server_key(mechanism, salted)


def unknown_token_keys(secret_key: str, mechanism: str, token_id: str) -> tuple[bytes, bytes]:
    """The keys that replace those of a token that does not exist."""

    def derived(what: str) -> bytes:
        key = hmac.digest(secret_key.encode(), f"{what}\0{mechanism}\0{token_id}".encode(), "sha512")
        return key[: 64 if SCRAM_HASHES[mechanism] == "sha512" else 32]

    return derived("stored"), derived("server")


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Whether the token has expired. `now_ms`: since the epoch."""
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def token_of_hmac(
    tokens: tuple[DelegationTokenRecord, ...], secret_key: str, asked: bytes
) -> Pausing[DelegationTokenRecord | None]:
    """The token with this HMAC; None if no token has it."""
    found = None
    for token in tokens:
        if hmac.compare_digest(token_hmac(secret_key, token.token_id), asked):
            found = token
        yield
    return found
