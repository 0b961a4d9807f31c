"""The HTTP header `Authorization`: Basic (RFC 7617) or Bearer (RFC 6750).

Secrets of 256 random bits are stored as SHA-256. That would not protect a password that a person chose.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

MAX_HEADER: Final = 16 << 10
"""Maximum length of the header, in characters; a longer header is not read."""
CHALLENGE: Final = ("www-authenticate", 'Basic realm="moldau", charset="UTF-8"')
"""The header of a 401 answer."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Given(msgspec.Struct, frozen=True):
    """The credentials of a header. `name`: None with Bearer."""

    name: str | None
    secret: str

    def __repr__(self) -> str:
        return f"Given({self.name!r}, ***)"


def parse_authorization(headers: Sequence[str]) -> Given | None:
    """Parses the values of this header, as latin-1; None if one is malformed or the header is repeated."""
    if len(headers) != 1 or len(headers[0]) > MAX_HEADER:
        return None
    scheme, _, text = headers[0].partition(" ")
    text = text.strip()
    if scheme.lower() == "bearer":
        return Given(None, text) if text and text.isascii() and text.isprintable() else None
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return Given(name, password) if colon and name and name.isprintable() else None


def new_secret() -> tuple[str, str]:
    """A secret of 256 random bits, and its stored digest."""
    secret = secrets.token_urlsafe(32)
    return secret, digest_of(secret).hex()


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def is_digest(text: object) -> bool:
    """Whether the text is a digest as `new_secret` returns it."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def name_of(given: Given, known: Mapping[str, Sequence[bytes]]) -> str | None:
    """The owner of the secret, or None. `known`: the digests of each name. Compares all of them, so the time reveals
    nothing."""
    found, mine = None, digest_of(given.secret)
    for name, digests in known.items():
        for digest in digests:
            if hmac.compare_digest(mine, digest) and given.name in (None, name):
                found = name
    return found
