"""A frame: a signed four-byte length, and so many bytes of header and body."""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.errors import ProtocolError
from moldau.types import Buffer

LENGTH_SIZE: Final = 4
MAX_FRAME_BYTES: Final = 104_857_600
"""Kafka's default of `socket.request.max.bytes`."""

_LENGTH: Final = Struct(">i")


def frame(*parts: Buffer) -> bytes:
    """The parts as one frame."""
    return b"".join((frame_length(*parts), *parts))


def frame_length(*parts: Buffer) -> bytes:
    """Only the length in front, for parts that are written one by one."""
    return _LENGTH.pack(sum(map(len, parts)))


def decode_frame_length(buffer: Buffer, position: int = 0, *, max_bytes: int = MAX_FRAME_BYTES) -> int:
    """The length announced at `position`. Raises ProtocolError for a negative one or one above `max_bytes`."""
    if len(buffer) - position < LENGTH_SIZE:
        raise ProtocolError("frame length cut")
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    if length < 0 or length > max_bytes:
        raise ProtocolError(f"frame of {length} bytes")
    return length
