"""Names that identify records in a history."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

Naming = Callable[[bytes | str | None, bytes | str | None], str]
"""Makes a name from key and value. Different records need different names; a copy of a record has the same name."""

MAX_NAME = 64
SHOWN_OF_LONG = 24


def name_of(key: bytes | str | None, value: bytes | str | None) -> str:
    """The value as text; a long one by its beginning and a digest, a tombstone by its key."""
    return f"null of {text_of(key or b'')}" if value is None else text_of(value)


def text_of(data: bytes | str) -> str:
    """The bytes as text, with escapes for bytes that are not text."""
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) <= MAX_NAME:
        return raw.decode(errors="backslashreplace")
    return f"{raw[:SHOWN_OF_LONG].decode(errors='backslashreplace')}...{blake2b(raw, digest_size=8).hexdigest()}"
