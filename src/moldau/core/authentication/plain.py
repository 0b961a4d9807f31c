"""SASL PLAIN (RFC 4616). Users and passwords are in the `sasl.jaas.config` of the listener, as in Apache Kafka."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.errors import ProtocolError
from moldau.wire.protocol.sasl_tokens import decode_plain

_WRONG = "Authentication failed: Invalid username or password"
_OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"


class PlainUsers:
    """The users of one listener."""

    def __init__(self, passwords: Mapping[str, str], secret: bytes) -> None:
        """`secret`: of this node. The password of unknown users is derived from it."""
        self._secret = secret
        self._digests = {name: self._digest(password.encode()) for name, password in passwords.items()}
        self._nobody = self._digest(b"nobody" + secret)

    def has_password(self, username: str, password: str) -> bool:
        """Whether the password is right. Takes as long for an unknown user."""
        is_known = username in self._digests
        expected = self._digests.get(username, self._nobody)
        return hmac.compare_digest(self._digest(password.encode()), expected) & is_known

    def __contains__(self, username: str) -> bool:
        return username in self._digests

    def _digest(self, password: bytes) -> bytes:
        """A digest of fixed length, so a comparison does not reveal the length of the password."""
        return hmac.digest(self._secret, password, hashlib.sha256)


class PlainExchange:
    """One token and its verification."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def evaluate(self, token: bytes) -> Accepted:
        """See Exchange."""
        try:
            plain = decode_plain(token)
        except ProtocolError as error:
            raise AuthenticationRefusedError(str(error), str(error)) from None
        for name, value in (("username", plain.username), ("password", plain.password)):
            if not value:
                told = f"Authentication failed: {name} not specified"
                raise AuthenticationRefusedError(told, told)
        if not self._users.has_password(plain.username, plain.password):
            raise AuthenticationRefusedError(_WRONG, _WRONG)
        if plain.authorization_id not in ("", plain.username):
            raise AuthenticationRefusedError(_OTHER_IDENTITY, _OTHER_IDENTITY)
        return Accepted(plain.username)
