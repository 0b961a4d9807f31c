"""The interface between a SASL mechanism and its connection."""

from __future__ import annotations

from typing import Protocol

import msgspec

from moldau.errors import MoldauError


class Accepted(msgspec.Struct, frozen=True):
    """The exchange succeeded for `username`. `token`: the last token from the server."""

    username: str
    token: bytes = b""
    delegation_token: str = ""
    """The id of the delegation token that the client used; "" if it used a password."""
    lifetime_ms: int | None = None
    """How long the delegation or bearer token is valid from now on; None without a token."""


class AuthenticationRefusedError(MoldauError):
    """The exchange failed. `told`: the error message for the client, in Apache Kafka's words; "": no details. `reason`
    is for the log and has no secrets."""

    def __init__(self, reason: str, told: str = "") -> None:
        super().__init__(reason)
        self.told = told


class Exchange(Protocol):
    """One exchange of a mechanism on one connection."""

    def evaluate(self, token: bytes) -> bytes | Accepted:
        """The response to a token from the client. Raises AuthenticationRefusedError, which ends the exchange."""
        ...
