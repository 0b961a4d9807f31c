"""SASL OAUTHBEARER (RFC 7628, KIP-255): one token and its verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.errors import ProtocolError
from moldau.wire.protocol.sasl_tokens import BEARER_ERROR_TAKEN, BearerError, decode_bearer, encode_bearer_error
from moldau.wire.web_tokens.rules import TokenRefusedError

_INVALID: Final = encode_bearer_error(BearerError("invalid_token"))


class Bearer(msgspec.Struct, frozen=True):
    """The user of a token. `expires_at_ms`: since the epoch."""

    subject: str
    expires_at_ms: int


class BearerExchange:
    """See Exchange. A rejected token is answered inside the exchange, without a reason. The exchange fails after the
    client has acknowledged that."""

    def __init__(self, check: Callable[[str], Bearer], now_ms: Callable[[], int]) -> None:
        """`check`: raises TokenRefusedError; `now_ms`: since the epoch."""
        self._check = check
        self._now_ms = now_ms
        self._reason = ""

    def evaluate(self, token: bytes) -> bytes | Accepted:
        """See Exchange."""
        if self._reason:
            if token != BEARER_ERROR_TAKEN:
                raise AuthenticationRefusedError(f"{self._reason}; then a message that takes no note of it")
            raise AuthenticationRefusedError(self._reason, _INVALID.decode())
        try:
            first = decode_bearer(token)
        except ProtocolError as error:
            raise AuthenticationRefusedError(str(error)) from None
        try:
            bearer = self._check(first.token)
        except TokenRefusedError as error:
            self._reason = f"refused token: {error}"
            return _INVALID
        if first.authorization_id not in ("", bearer.subject):
            told = (
                f"Authentication failed: Client requested an authorization id ({first.authorization_id}) that is "
                f"different from the token's principal name ({bearer.subject})"
            )
            raise AuthenticationRefusedError(told, told)
        return Accepted(bearer.subject, lifetime_ms=max(0, bearer.expires_at_ms - self._now_ms()))
