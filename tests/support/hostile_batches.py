"""Batches whose records contradict their header."""

from __future__ import annotations

import struct
import zlib

from moldau.wire.records.batch import HEADER_SIZE
from tests.support.wire_produce import (
    ATTRIBUTES,
    LENGTH,
    batch,
    patched,
)

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def varint(value: int) -> bytes:
    """Zigzag, as inside records."""
    value = value << 1 ^ value >> 63
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def record(
    delta: int = 0,
    *,
    key: bytes | None = b"k",
    key_size: bytes | None = None,
    value_size: bytes = varint(1),
    headers: bytes = varint(0),
    attributes: int = 0,
    length: int = 0,
) -> bytes:
    """One record with value `v`; `length` is added to the true length."""
    if key_size is None:
        key_size = varint(-1 if key is None else len(key))
    body = bytes([attributes]) + varint(0) + varint(delta) + key_size + (key or b"") + value_size + b"v" + headers
    return varint(len(body) + length) + body


def batch_of(payload: bytes, count: int, codec: int = 0) -> bytes:
    """A batch with a correct header around any bytes."""
    whole = batch(*[b"v"] * count)[:HEADER_SIZE] + payload
    struct.pack_into(">i", whole, LENGTH, len(whole) - 12)
    return bytes(patched(whole, ">h", ATTRIBUTES, codec))


def bomb(megabytes: int) -> bytes:
    """One record of zeros as gzip, made without holding it in memory."""
    size = megabytes << 20
    tail_of_body = varint(0)
    head_of_body = b"\0" + varint(0) + varint(0) + varint(1) + b"k" + varint(size)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(varint(len(head_of_body) + size + len(tail_of_body)) + head_of_body)]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(megabytes)]
    parts += [packer.compress(tail_of_body), packer.flush()]
    return b"".join(parts)
