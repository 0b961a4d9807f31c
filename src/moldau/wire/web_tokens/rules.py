"""The claims that a token must have, and the errors for a rejected token."""

from __future__ import annotations

import msgspec

from moldau.errors import MoldauError


class ClaimRules(msgspec.Struct, frozen=True):
    """The rules of one reader of tokens."""

    audiences: tuple[str, ...]
    """The token must name one of them. Empty: any token of the issuer is accepted."""
    issuer: str | None
    """None: any issuer."""
    skew_s: int
    """How far the clocks of the issuer and of this machine may be apart."""


class TokenRefusedError(MoldauError):
    """The token is rejected. The text may contain words of the token, so it is for the log only."""


class UnknownKeyError(TokenRefusedError):
    """No known key fits the token: the issuer may have a new one."""
