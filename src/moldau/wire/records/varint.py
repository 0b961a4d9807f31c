"""Zigzag varints, as in records: at most 5 bytes for 32 bits, 10 bytes for 64 bits."""

from __future__ import annotations

from moldau.errors import ProtocolError

VARINT_BYTES = 5
VARLONG_BYTES = 10


def encode_varint(value: int) -> bytes:
    """The zigzag varint of a number of up to 64 bits, signed."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return _ONE_BYTE[zigzag]
    parts = bytearray()
    while zigzag >= 0x80:
        parts.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    parts.append(zigzag)
    return bytes(parts)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def decode_varint(data: bytes, position: int, max_bytes: int = VARINT_BYTES) -> tuple[int, int]:
    """(value, position after it). Raises ProtocolError if it is cut or longer than `max_bytes`.

    As in Java, bits above the width are dropped, so a value always fits.
    """
    try:
        byte = data[position]
        if byte < 0x80:
            return byte >> 1 ^ -(byte & 1), position + 1
        zigzag = byte & 0x7F
        for index in range(1, max_bytes):
            byte = data[position + index]
            zigzag |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                zigzag &= 0xFFFFFFFF if max_bytes == VARINT_BYTES else 0xFFFFFFFFFFFFFFFF
                return zigzag >> 1 ^ -(zigzag & 1), position + index + 1
    except IndexError:
        raise ProtocolError(f"a varint is cut at {position}") from None
    raise ProtocolError(f"a varint at {position} is longer than {max_bytes} bytes")
