"""The four codecs of record batches, in Kafka's framings, with bounded expansion.

`decompress` first computes the expanded size (from the codec's own block headers), rejects sizes above `max_bytes`, and
only then allocates. Framings: gzip (RFC 1952, several members, bytes after the last member ignored); snappy in xerial's
stream framing, or raw, on reading; the LZ4 frame format with independent blocks (Kafka's clients reject linked ones);
zstd frames.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable

import cramjam

from moldau.errors import ProtocolError
from moldau.types import Buffer

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

MAX_EXPANDED_BYTES = 128 * MEBIBYTE
"""The default limit for the expansion of one batch."""

EXPANSION_RATIO = 64
ALWAYS_EXPANDED_BYTES = 16 * MEBIBYTE


class Compression(enum.IntEnum):
    """The codec of a batch: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_MASK = 0x07

_BY_NAME = {kind.name.lower(): kind for kind in Compression}


def compression_from_name(name: str) -> Compression:
    """The codec of a `compression.type`. Raises ValueError for an unknown name."""
    kind = _BY_NAME.get(name)
    if kind is None:
        raise ValueError(f"compression is one of {', '.join(_BY_NAME)}, not {name!r}")
    return kind


def expansion_limit(compressed_bytes: int) -> int:
    """The allowed expansion of a produced batch: 64 times, at most 128 MiB.

    Up to 16 MiB is always allowed, because a record of a million equal bytes is legitimate.
    """
    return min(MAX_EXPANDED_BYTES, max(EXPANSION_RATIO * compressed_bytes, ALWAYS_EXPANDED_BYTES))


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compressed bytes in Kafka's framing. `level`: of the codec, None: its default."""
    if kind is Compression.GZIP:
        compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if kind is Compression.SNAPPY:
        return _compress_snappy(data)
    if kind is Compression.LZ4:
        # cramjam's default links the blocks, which Kafka's clients reject, and is 8 times slower than level 1
        frame = cramjam.lz4.Compressor(level=1 if level is None else level, content_checksum=False, block_linked=False)
        frame.compress(bytes(data))  # it accepts only bytes
        return bytes(frame.finish())
    if kind is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, 3 if level is None else level))
    return bytes(data)


def decompress(kind: Compression, data: Buffer, max_bytes: int = MAX_EXPANDED_BYTES) -> bytes:
    """The input of `compress`. Never allocates more than `max_bytes` for it.

    Raises ProtocolError for damaged data, for data that expands past `max_bytes`, and for linked LZ4 blocks.
    """
    if kind is Compression.GZIP:
        return _decompress_gzip(data, max_bytes)
    if kind is Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if kind is Compression.LZ4:
        return _decompress_bounded(cramjam.lz4.decompress_into, "lz4", data, _lz4_bound(data, max_bytes))
    if kind is Compression.ZSTD:
        return _decompress_bounded(cramjam.zstd.decompress_into, "zstd", data, _zstd_bound(data, max_bytes))
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


def _too_large(max_bytes: int) -> ProtocolError:
    return ProtocolError(f"compressed records expand past {max_bytes} bytes")


def _damaged(codec: str, reason: object) -> ProtocolError:
    return ProtocolError(f"damaged {codec} data: {reason}")


# --- gzip ---


_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_PIECE_BYTES = 16 * KIBIBYTE


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    member = zlib.decompressobj(31)
    part = _inflate(member, data, max_bytes)
    if not member.eof:
        raise _damaged("gzip", "it ends too early")
    # as java.util.zip: continues only at another member, and ignores other bytes after the last one
    if member.unused_data[:2] != _GZIP_MAGIC:
        return part
    return part + _further_members(memoryview(member.unused_data), max_bytes - len(part))


def _further_members(data: memoryview, max_bytes: int) -> bytes:
    """Expands the data in pieces, because zlib copies the input after each member, and a batch may have 50,000 empty
    members in each MiB."""
    parts: list[bytes] = []
    left = max_bytes
    position = 0
    while data[position : position + 2] == _GZIP_MAGIC:
        member = zlib.decompressobj(31)
        while not member.eof:
            piece = data[position : position + _GZIP_PIECE_BYTES]
            if not piece:
                raise _damaged("gzip", "it ends too early")
            part = _inflate(member, piece, left)
            left -= len(part)
            if part:
                parts.append(part)
            position += len(piece) - len(member.unused_data)
    return b"".join(parts)


def _inflate(member: zlib._Decompress, data: Buffer, max_bytes: int) -> bytes:
    """Expands `data` up to the end of the member."""
    try:
        # one byte past the bound distinguishes "exactly full" from "too large"
        part = member.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise _damaged("gzip", error) from None
    if len(part) > max_bytes:
        raise _too_large(max_bytes)
    return part


# --- snappy ---

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * KIBIBYTE
# a copy of 64 bytes takes 3 bytes, the largest expansion in this format
_SNAPPY_RATIO = 22
_int32 = struct.Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts.append(_int32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    parts: list[bytes] = []
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise _damaged("snappy", "a block length is cut")
        (length,) = _int32.unpack_from(view, position)
        position += 4
        if length < 0 or position + length > len(view):
            raise _damaged("snappy", f"a block of {length} bytes in {len(view) - position}")
        part = _decompress_snappy_block(view[position : position + length], max_bytes)
        max_bytes -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    try:
        expanded = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise _damaged("snappy", error) from None
    if expanded > max_bytes:
        raise _too_large(max_bytes)
    if expanded > _SNAPPY_RATIO * len(block):
        raise _damaged("snappy", f"{len(block)} bytes cannot hold {expanded}")
    return _decompress_bounded(cramjam.snappy.decompress_raw_into, "snappy", block, expanded)


# --- lz4 and zstd: the bound comes from a walk over the block headers ---


def _decompress_bounded(
    decompress_into: Callable[[Buffer, bytearray], int], codec: str, data: Buffer, bound: int
) -> bytes:
    """Decompresses into a buffer of `bound` bytes, which the caller has proved to be enough for valid data."""
    output = bytearray(bound)
    try:
        written = decompress_into(data, output)
    except cramjam.DecompressionError as error:
        raise _damaged(codec, error) from None
    return bytes(memoryview(output)[:written])


_LZ4_MAGIC = 0x184D2204
_LZ4_BLOCK_BYTES = {4: 64 * KIBIBYTE, 5: 256 * KIBIBYTE, 6: MEBIBYTE, 7: 4 * MEBIBYTE}
_LZ4_RATIO = 255
_SKIPPABLE_MASK, _SKIPPABLE_MAGIC = 0xFFFFFFF0, 0x184D2A50
_uint32_little = struct.Struct("<I")


def _lz4_bound(data: Buffer, max_bytes: int) -> int:
    """The upper bound of the expansion of these frames. Raises ProtocolError if it certainly exceeds `max_bytes`."""
    try:
        if _uint32_little.unpack_from(data, 0)[0] != _LZ4_MAGIC:
            raise _damaged("lz4", "no frame begins here")
        flags, block_descriptor = data[4], data[5]
    except (struct.error, IndexError):
        raise _damaged("lz4", "the frame header is cut") from None
    if flags >> 6 != 1 or flags & 0x03:
        raise _damaged("lz4", "the frame needs a dictionary or another version")
    if not flags & 0x20:
        raise _damaged("lz4", "its blocks are linked, which Kafka does not allow")
    block_bytes = _LZ4_BLOCK_BYTES.get(block_descriptor >> 4 & 0x07)
    if block_bytes is None:
        raise _damaged("lz4", "unknown block size")
    block_checksum_bytes = 4 if flags & 0x10 else 0
    position = 7 + (8 if flags & 0x08 else 0)
    bound = 0
    while True:
        try:
            (word,) = _uint32_little.unpack_from(data, position)
        except struct.error:
            raise _damaged("lz4", "it ends too early") from None
        if word == 0:
            return min(bound, max_bytes)
        length = word & 0x7FFFFFFF
        if word & 0x80000000:
            bound += min(length, block_bytes)
        else:
            bound += min(block_bytes, _LZ4_RATIO * length)
        position += 4 + length + block_checksum_bytes


_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES = 128 * KIBIBYTE


def _zstd_bound(data: Buffer, max_bytes: int) -> int:
    """The upper bound of the expansion of these frames, by their content sizes or block headers (RFC 8878, 3.1.1)."""
    position = 0
    bound = 0
    try:
        while position < len(data):
            (magic,) = _uint32_little.unpack_from(data, position)
            if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
                position += 8 + _uint32_little.unpack_from(data, position + 4)[0]
                continue
            if magic != _ZSTD_MAGIC:
                raise _damaged("zstd", "no frame begins here")
            position, frame_bound = _zstd_frame(data, position)
            bound += frame_bound
    except (struct.error, IndexError):
        raise _damaged("zstd", "it ends too early") from None
    return min(bound, max_bytes)


def _zstd_frame(data: Buffer, position: int) -> tuple[int, int]:
    """(end of the frame, upper bound of its expansion)."""
    descriptor = data[position + 4]
    is_single_segment = bool(descriptor & 0x20)
    position += 5 if is_single_segment else 6
    position += (0, 1, 2, 4)[descriptor & 0x03]
    content_size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    content_size = int.from_bytes(data[position : position + content_size_bytes], "little")
    if content_size_bytes == 2:
        content_size += 256
    position += content_size_bytes
    bound = 0
    is_last = False
    while not is_last:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last = bool(header & 1)
        kind, length = header >> 1 & 0x03, header >> 3
        position += 3
        if kind == 1:  # one byte, repeated
            position += 1
            bound += length
        else:
            position += length
            bound += length if kind == 0 else _ZSTD_BLOCK_BYTES
    if descriptor & 0x04:
        position += 4
    return position, min(bound, content_size) if content_size_bytes else bound
