"""One exchange of tokens: what a mechanism is to the connection that authenticates."""

from __future__ import annotations

from typing import Protocol

import msgspec

from moldau.errors import MoldauError


class Accepted(msgspec.Struct, frozen=True):
    """The exchange is done: the client is `username`. `token`: the last one of the server's."""

    username: str
    token: bytes = b""
    delegation_token: str = ""
    """The id of the delegation token that proves it; "": a password."""
    lifetime_ms: int | None = None
    """How long the delegation or bearer token holds from now on; None: the client has none."""


class AuthenticationRefusedError(MoldauError):
    """The exchange has failed. `told`: what the client may be told, in Apache Kafka's words; "" where no more than that
    it failed. `reason` is for the log, and holds no secret."""

    def __init__(self, reason: str, told: str = "") -> None:
        super().__init__(reason)
        self.told = told


class Exchange(Protocol):
    """A mechanism on one connection."""

    def evaluate(self, token: bytes) -> bytes | Accepted:
        """The answer to a token of the client's. Raises AuthenticationRefusedError; then the exchange is over."""
        ...
