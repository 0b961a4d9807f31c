"""The claims that a token must have, and the errors for a rejected token."""

from __future__ import annotations

import msgspec

from moldau.errors import MoldauError


class ClaimRules(msgspec.Struct, frozen=True):
    """Of one reader of tokens."""

    audiences: tuple[str, ...]
    """The token names one of them; empty: any token of the issuer is for this reader."""
    issuer: str | None
    """None: any."""
    skew_s: int
    """How far the clocks of the issuer and of this machine may be apart."""


class TokenRefusedError(MoldauError):
    """The token lets nobody in. The text, with words of the token in it, is for the log only."""


class UnknownKeyError(TokenRefusedError):
    """No known key fits the token: the issuer may have a new one."""
