"""The functions that generated encoders and decoders call: rare cases, and packers for array lengths.

`position` is an index into the buffer. A function that reads returns the value and the position after it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from moldau.errors import ProtocolError
from moldau.types import Buffer

MAX_ELEMENTS: Final = 1_000_000
"""The most elements of one array, as in Kafka 4.4, regardless of the remaining bytes."""

MAX_TAGGED_FIELDS: Final = 10_000
MAX_STRING_BYTES: Final = 32_767
MAX_SURE_BYTES: Final = MAX_STRING_BYTES // 3
"""Bytes that fit in a string after any decoding, because each byte that is not UTF-8 becomes U+FFFD, three bytes."""
MAX_CACHED_LAYOUTS: Final = 512

ELEMENTS_BETWEEN_PAUSES: Final = 16
"""Array elements between two pauses of a generated function: a few microseconds."""
PAUSE: Final = ("rest -= 1", f"if not rest: rest = {ELEMENTS_BETWEEN_PAUSES}; yield")
"""The code after each element."""
PAUSE_BEGIN: Final = (f"    rest = {ELEMENTS_BETWEEN_PAUSES}", "    if not rest: yield")
"""The code at the beginning. The `yield` makes it a generator, even without arrays."""


def bad_field(field: str, reason: str) -> ProtocolError:
    """The error for a field that cannot be encoded or decoded, with the `reason`."""
    return ProtocolError(f"{field}: {reason}")


def encode_uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, low bits first."""
    if value < 0x80:
        return SMALL_UVARINTS[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_UVARINTS: Final = tuple(bytes((value,)) for value in range(0x80))


def decode_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Raises ProtocolError above five bytes, IndexError at the end of the buffer."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return finish_uvarint(data, position + 1, first)


def finish_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte, `first`, is before `position` and says that more follow."""
    byte = data[position]
    position += 1
    if byte < 0x80:  # two bytes are by far the most common here
        return first & 0x7F | byte << 7, position
    value = first & 0x7F | (byte & 0x7F) << 7
    for shift in (14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF, position
    raise ProtocolError("varint over five bytes")


def finish_string_length(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """As `finish_uvarint`, for the length of a string plus one."""
    length, position = finish_uvarint(data, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolError("string over 32,767 bytes")
    return length, position


def encode_string_length(length: int) -> bytes:
    """The length of a string plus one, as a varint."""
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolError("string over 32,767 bytes")
    return encode_uvarint(length)


def decode_text(raw: Buffer) -> str:
    """Text with U+FFFD for each byte that is not UTF-8, as in Kafka. Raises ProtocolError if that exceeds the size of a
    string, because responses and records repeat texts of clients."""
    text = str(raw, "utf-8", "replace")
    if len(raw) > MAX_SURE_BYTES and len(text.encode()) > MAX_STRING_BYTES:
        raise ProtocolError("string that is not UTF-8, over 32,767 bytes with its bad bytes replaced")
    return text


def utf8_of(raw: memoryview) -> bytes:
    """The bytes of the text that `decode_text` reads."""
    data = bytes(raw)
    return data if data.isascii() else decode_text(data).encode()


def encode_error_message(text: str) -> bytes:
    """The bytes of an error message, cut at a character to the size of a string, because messages contain texts of
    clients."""
    raw = text.encode()
    if len(raw) <= MAX_STRING_BYTES:
        return raw
    return raw[: MAX_STRING_BYTES - len(_CUT)].decode("utf-8", "ignore").encode() + _CUT


_CUT: Final = b"..."


def skip_tagged_fields(data: Buffer, position: int, first: int) -> int:
    """Skips the tagged fields of a struct without known ones. `first`: the first byte of their number."""
    count, position = tagged_field_count(data, position, first)
    for _ in range(count):
        _, _, position = tagged_field(data, position)
    return position


def tagged_field_count(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """The number of tagged fields, whose first byte `first` was read, and the position after it. Raises ProtocolError
    above MAX_TAGGED_FIELDS."""
    if first >= 0x80:
        first, position = finish_uvarint(data, position, first)
        if first > MAX_TAGGED_FIELDS:
            raise ProtocolError("more than 10,000 tagged fields")
    return first, position


def tagged_field(data: Buffer, position: int) -> tuple[int, int, int]:
    """The tag, and the positions of its first byte and its end."""
    tag, position = decode_uvarint(data, position)
    size, position = decode_uvarint(data, position)
    end = position + size
    if end > len(data):
        raise ProtocolError("tagged field beyond the end")
    return tag, position, end


def join_tagged_fields(fields: list[tuple[int, list[bytes]]]) -> bytes:
    """The tagged fields at the end of a flexible struct. `fields` are in the order of their tags."""
    parts = [encode_uvarint(len(fields))]
    for tag, body_parts in fields:
        body = b"".join(body_parts)
        parts += (encode_uvarint(tag), encode_uvarint(len(body)), body)
    return b"".join(parts)


class UnpackTable(dict[int, Callable[[Buffer, int], tuple[int, ...]]]):
    """Array length -> the function that reads so many elements, cached, because few lengths are common."""

    def __init__(self, element_format: str) -> None:
        super().__init__()
        self._element_format = element_format

    def __missing__(self, count: int) -> Callable[[Buffer, int], tuple[int, ...]]:
        unpack = Struct(f">{count}{self._element_format}").unpack_from
        if len(self) < MAX_CACHED_LAYOUTS:
            self[count] = unpack
        return unpack


Packer = Callable[..., bytes]


class PackTable(dict[int | tuple[int, ...], Packer]):
    """Array lengths -> the function that packs a run of fixed fields and arrays of fixed elements in one call.

    The layout is a list of `struct` codes; "*i" is an array of "i" with its length. The packer takes the fields in
    order, for an array its length (plus one with varints), then its elements.
    """

    def __init__(self, layout: tuple[str, ...], *, is_flexible: bool) -> None:
        super().__init__()
        self._layout = layout
        self._is_flexible = is_flexible

    def __missing__(self, key: int | tuple[int, ...]) -> Packer:
        counts = (key,) if isinstance(key, int) else key
        if max(counts) > 126:
            return lambda *values: self._pack_slowly(counts, values)
        remaining = iter(counts)
        length_code = "B" if self._is_flexible else "i"
        codes = [f"{length_code}{next(remaining)}{code[1:]}" if code.startswith("*") else code for code in self._layout]
        pack = Struct(">" + "".join(codes)).pack
        if len(self) < MAX_CACHED_LAYOUTS:
            self[key] = pack
        return pack

    def _pack_slowly(self, counts: tuple[int, ...], values: tuple[int, ...]) -> bytes:
        """For arrays with a length varint of more than one byte, or too long for the cache of layouts."""
        remaining = iter(counts)
        parts: list[bytes] = []
        position = 0
        for code in self._layout:
            if code == "x":
                parts.append(b"\x00")
                continue
            if not code.startswith("*"):
                parts.append(Struct(">" + code).pack(values[position]))
                position += 1
                continue
            count = next(remaining)
            length = values[position]
            parts.append(encode_uvarint(length) if self._is_flexible else Struct(">i").pack(length))
            parts.append(Struct(f">{count}{code[1:]}").pack(*values[position + 1 : position + 1 + count]))
            position += 1 + count
        return b"".join(parts)
