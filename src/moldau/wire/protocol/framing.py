"""Frames: a signed four-byte length, then header and body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from moldau.errors import ProtocolError
from moldau.types import Buffer

LENGTH_SIZE: Final = 4
MAX_FRAME_BYTES: Final = 104_857_600
"""Kafka's default of `socket.request.max.bytes`."""

_LENGTH: Final = Struct(">i")
_TLS_RECORDS: Final = (b"\x15", b"\x16")
_HTTP_METHODS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"PATC", b"OPTI", b"CONN", b"TRAC", b"PRI ")
_STRANGERS: Final = {
    **dict.fromkeys(_HTTP_METHODS, "an HTTP client"),
    **dict.fromkeys((b"HTTP", b"<htm", b"<HTM", b"<!DO", b"<!do"), "an HTTP server"),
    b"SSH-": "SSH",
    b"+OK ": "a mail server",
    b"220 ": "a mail or FTP server",
}
"""The first four bytes of other protocols. As a frame length each is about a gigabyte or more."""


def frame(*parts: Buffer) -> bytes:
    """The parts as one frame."""
    return b"".join((frame_length(*parts), *parts))


def frame_length(*parts: Buffer) -> bytes:
    """The length only, for parts that are written separately."""
    return _LENGTH.pack(sum(map(len, parts)))


def gathered(parts: Iterable[Buffer], joined_bytes: int) -> Iterator[bytes | memoryview]:
    """Joins parts for writing: those above `joined_bytes` without a copy, smaller ones between them joined."""
    small: list[Buffer] = []
    for part in parts:
        if len(part) <= joined_bytes:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield memoryview(part)  # the rest after a partial send is cut off without a copy
    if small:
        yield b"".join(small)


def decode_frame_length(buffer: Buffer, position: int = 0, *, max_bytes: int = MAX_FRAME_BYTES) -> int:
    """The length at `position`. Raises ProtocolError for a negative one or one above `max_bytes`."""
    if len(buffer) - position < LENGTH_SIZE:
        raise ProtocolError("frame length cut")
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    if length < 0 or length > max_bytes:
        raise ProtocolError(
            stranger(buffer[position : position + LENGTH_SIZE]) or f"a frame of {length} bytes, at most {max_bytes}"
        )
    return length


def stranger(first_bytes: Buffer) -> str | None:
    """A sentence about a client of another protocol, recognised by its first four bytes; else None."""
    text = bytes(first_bytes)
    if text[:1] in _TLS_RECORDS and text[1:2] == b"\x03":
        return "this is TLS, not Kafka's protocol in plain text"
    who = _STRANGERS.get(text)
    return None if who is None else f"this is {who}, not Kafka's protocol"
