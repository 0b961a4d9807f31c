"""The client's side of SASL: PLAIN, SCRAM and OAUTHBEARER (KIP-43, 48, 84, 152, 255, 368).

A driver sends each request that `authenticating` yields, and passes the response back (`go_on`). Uses the versions of
both APIs since KIP-152, in which each token has a header.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Generator
from typing import Any, Final, Protocol

from moldau.errors import KafkaError, ProtocolError, kafka_error
from moldau.wire.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from moldau.wire.protocol.sasl_tokens import (
    BEARER_ERROR_TAKEN,
    MIN_ITERATIONS,
    OAUTHBEARER,
    PLAIN,
    BearerToken,
    Credentials,
    client_key,
    decode_bearer_error,
    decode_server_final,
    decode_server_first,
    encode_bearer,
    encode_client_final,
    encode_client_first,
    encode_plain,
    encode_unproven,
    exclusive_or,
    salted_password,
    scram_nonce,
    server_key,
    signature,
    stored_key,
)

NONCE_BYTES: Final = 24
MAX_ITERATIONS: Final = 1_000_000
"""The client fails the login if a broker requests more iterations. This many take about a second of CPU."""
REAUTHENTICATE_AT: Final = 0.85
"""The share of a session's lifetime after which the client authenticates again, no later than Kafka's clients do."""
MIN_SESSION_MS: Final = 1_001
"""Apache Kafka rejects a login within a second of the last one on a connection."""
LOGIN_REFUSED: Final = ("SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
"""Errors of a broker that rejects the login. Another try would fail too."""
_HEADER: Final = "n,,"
_STATUS: Final = re.compile(r"[a-z_]{1,40}")

Authenticating = Generator[SaslHandshakeRequest | SaslAuthenticateRequest, Any, int]


def log_in_again_after_ms(lifetime_ms: int) -> int:
    """The time after the begin of a login at which to log in again, for a session of this lifetime."""
    return max(int(lifetime_ms * REAUTHENTICATE_AT), MIN_SESSION_MS)


class TokenSupply(Protocol):
    """The source of tokens of an OAUTHBEARER client. Each login takes a token, including each re-authentication. Both
    methods raise KafkaError, which is retriable if another try may succeed."""

    def bearer(self) -> BearerToken:
        """A token that has not expired. Waits if it must be fetched. May be called in any thread."""
        ...

    async def bearer_soon(self) -> BearerToken:
        """As `bearer`, on an event loop."""
        ...


Login = Credentials | TokenSupply
"""The login of a client: name and password, or tokens."""


def authenticating(credentials: Credentials | BearerToken, random_bytes: bytes, peer: str) -> Authenticating:
    """Yields the requests one by one; send each response into the generator. Returns the lifetime of the session in
    milliseconds, 0: for ever. `random_bytes`: NONCE_BYTES new bytes for each login. `peer`: names the broker in errors.

    With SCRAM one step computes thousands of hashes, which takes a few milliseconds of CPU. Raises KafkaError
    (UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED), also if the broker does not prove that it knows the user.
    """
    mechanism = credentials.mechanism if isinstance(credentials, Credentials) else OAUTHBEARER
    handshake: SaslHandshakeResponse = yield SaslHandshakeRequest(mechanism)
    if handshake.error_code:
        told = f"{peer} does not offer the SASL mechanism {mechanism}"
        if handshake.mechanisms:
            told += f": it offers {', '.join(handshake.mechanisms)}"
        else:
            told += ", or needs no authentication: this may be a listener without SASL"
        raise kafka_error(handshake.error_code, told)
    if isinstance(credentials, BearerToken):
        return (yield from _bearer(credentials, peer))
    if mechanism == PLAIN:
        answer = yield SaslAuthenticateRequest(encode_plain(credentials.username, credentials.password))
        return _accepted(answer, credentials, peer)
    try:
        return (yield from _scram(credentials, scram_nonce(random_bytes), peer))
    except ProtocolError as error:
        raise _not_followed(peer, str(error)) from error


def go_on(exchange: Authenticating, answer: Any = None) -> SaslHandshakeRequest | SaslAuthenticateRequest | int:
    """Passes in the response to the last request (None at first). Returns the next request, or the result of
    `authenticating`."""
    try:
        return exchange.send(answer)
    except StopIteration as done:
        lifetime_ms: int = done.value
        return lifetime_ms


def _scram(credentials: Credentials, nonce: str, peer: str) -> Authenticating:
    mechanism = credentials.mechanism
    bare = encode_client_first(credentials.username, nonce, is_token=credentials.is_token)
    answer: SaslAuthenticateResponse = yield SaslAuthenticateRequest((_HEADER + bare).encode())
    _accepted(answer, credentials, peer)
    server_first = bytes(answer.auth_bytes)
    first = decode_server_first(server_first)
    if not first.nonce.startswith(nonce) or first.nonce == nonce:
        raise _not_followed(peer, "its nonce does not go on from that of this client")
    if not MIN_ITERATIONS <= first.iterations <= MAX_ITERATIONS:
        raise _not_followed(
            peer, f"it asks for {first.iterations} iterations, and {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
        )
    salted = salted_password(mechanism, credentials.password, first.salt, first.iterations)
    key, unproven = client_key(mechanism, salted), encode_unproven(_HEADER, first.nonce)
    auth_message = f"{bare},{server_first.decode()},{unproven}"
    proof = exclusive_or(key, signature(mechanism, stored_key(mechanism, key), auth_message))
    answer = yield SaslAuthenticateRequest(encode_client_final(unproven, proof))
    lifetime_ms = _accepted(answer, credentials, peer)
    final = decode_server_final(bytes(answer.auth_bytes))
    expected = signature(mechanism, server_key(mechanism, salted), auth_message)
    if final.error or not hmac.compare_digest(final.signature, expected):
        raise _not_followed(peer, "it does not prove that it knows the password: it may be another server")
    return lifetime_ms


def _bearer(token: BearerToken, peer: str) -> Authenticating:
    try:
        first = encode_bearer(token)
    except ValueError as error:
        raise kafka_error("SASL_AUTHENTICATION_FAILED", str(error)) from None
    answer: SaslAuthenticateResponse = yield SaslAuthenticateRequest(first)
    if answer.auth_bytes and not answer.error_code:
        # RFC 7628: the server ends the exchange after the client has acknowledged its error
        status = _status(bytes(answer.auth_bytes))
        answer = yield SaslAuthenticateRequest(BEARER_ERROR_TAKEN)
        told = f"{peer} refused the bearer token: {answer.error_message or 'no reason'} (status {status})"
        raise kafka_error(answer.error_code or "SASL_AUTHENTICATION_FAILED", told)
    if answer.error_code:
        told = f"{peer} refused the bearer token: {answer.error_message or 'no reason'}"
        raise kafka_error(answer.error_code, told)
    return answer.session_lifetime_ms


def _status(answer: bytes) -> str:
    try:
        status = decode_bearer_error(answer).status
    except ProtocolError:
        return "unknown"
    return status if _STATUS.fullmatch(status) else "unknown"


def _accepted(answer: SaslAuthenticateResponse, credentials: Credentials, peer: str) -> int:
    if answer.error_code:
        who = f"the {'delegation token' if credentials.is_token else 'user'} {credentials.username}"
        raise kafka_error(answer.error_code, f"{peer} refused {who}: {answer.error_message or 'no reason'}")
    return answer.session_lifetime_ms


def _not_followed(peer: str, reason: str) -> KafkaError:
    return kafka_error("SASL_AUTHENTICATION_FAILED", f"{peer} is not trusted: {reason}")
