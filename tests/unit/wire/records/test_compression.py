"""The four codecs in Kafka's framings, compared with other implementations, never beyond their bound."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from random import Random

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import ProtocolError
from moldau.wire.records.compression import (
    MEBIBYTE,
    Compression,
    compress,
    compression_from_name,
    decompress,
    expansion_limit,
)

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
# compresses well, not perfectly
TEXT = b"".join(b"%d: the quick brown fox %d\n" % (index, index * index % 97) for index in range(20_000))


@given(st.sampled_from(Compression), st.binary(max_size=3000), st.integers(1, 40))
def test_round_trip(kind, data, times):
    assert decompress(kind, compress(kind, data * times)) == data * times


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 64 * 1024 + 1, 128 * 1024 + 1, len(TEXT)])
def test_round_trip_at_block_borders_with_the_tightest_bound(kind, size):
    compressed = compress(kind, TEXT[:size])
    assert decompress(kind, memoryview(bytearray(compressed)), size) == TEXT[:size]
    if size:
        with pytest.raises(ProtocolError):
            decompress(kind, compressed, size - 1)


def test_other_implementations_read_what_we_write():
    assert gzip.decompress(compress(Compression.GZIP, TEXT)) == TEXT
    for kind, codec in ((Compression.LZ4, "lz4"), (Compression.ZSTD, "zstd")):
        assert pa.Codec(codec).decompress(compress(kind, TEXT), len(TEXT)).to_pybytes() == TEXT
    xerial = compress(Compression.SNAPPY, TEXT)
    assert xerial[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (length,) = struct.unpack_from(">i", xerial, 16)
    assert pa.Codec("snappy").decompress(xerial[20 : 20 + length], 32768).to_pybytes() == TEXT[:32768]


def test_we_read_what_other_implementations_write():
    assert decompress(Compression.GZIP, gzip.compress(TEXT)) == TEXT
    assert decompress(Compression.ZSTD, pa.Codec("zstd").compress(TEXT).to_pybytes()) == TEXT
    # librdkafka writes raw snappy, without xerial's framing
    assert decompress(Compression.SNAPPY, pa.Codec("snappy").compress(TEXT).to_pybytes()) == TEXT


def test_frames_may_follow_each_other():
    for kind in (Compression.GZIP, Compression.ZSTD):
        assert decompress(kind, compress(kind, b"one ") + compress(kind, b"two")) == b"one two"


def test_bytes_behind_the_last_gzip_member_are_ignored():
    assert decompress(Compression.GZIP, compress(Compression.GZIP, b"data") + b"junk") == b"data"


@pytest.mark.parametrize("member_bytes", [0, 1, 700, 40_000])
def test_many_gzip_members_are_read_with_the_tightest_bound(member_bytes):
    noise = Random(1).randbytes(member_bytes)  # incompressible: a long member takes more than one piece
    data = compress(Compression.GZIP, noise) * 50
    assert decompress(Compression.GZIP, data + b"junk", 50 * member_bytes) == noise * 50
    for cut in (1, 9, len(data) // 100):
        with pytest.raises(ProtocolError, match="ends too early"):
            decompress(Compression.GZIP, data[:-cut])
    if member_bytes:
        with pytest.raises(ProtocolError, match="expand past"):
            decompress(Compression.GZIP, data, 50 * member_bytes - 1)


def test_what_stands_behind_a_gzip_member_is_copied_once_and_not_for_every_member():
    data = compress(Compression.GZIP, b"") * 20_000
    tracemalloc.start()
    assert decompress(Compression.GZIP, data) == b""
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * len(data)  # a member's copy exists next to its source


def test_linked_lz4_blocks_are_refused_as_kafkas_clients_refuse_them():
    linked = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=True)
    linked.compress(TEXT)
    with pytest.raises(ProtocolError, match="linked"):
        decompress(Compression.LZ4, bytes(linked.finish()))


@pytest.mark.parametrize("kind", CODECS)
def test_a_bomb_is_refused_before_its_memory_is_taken(kind):
    bomb = compress(kind, bytes(48 * MEBIBYTE))
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decompress(kind, bomb, 4 * MEBIBYTE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * MEBIBYTE


@pytest.mark.parametrize("kind", CODECS)
def test_cut_or_damaged_data_is_a_protocol_error(kind):
    compressed = compress(kind, TEXT[:5000])
    for cut in (0, 3, 7, 20, len(compressed) - 1):
        if kind is Compression.SNAPPY and cut == 0:
            continue
        with pytest.raises(ProtocolError):
            decompress(kind, compressed[:cut])
    with pytest.raises(ProtocolError):
        decompress(kind, b"\x00\xff" * 40)


@given(st.sampled_from(CODECS), st.binary(max_size=200), st.integers(0, 4000), st.binary(min_size=1, max_size=8))
def test_only_protocol_errors_come_out_of_damage(kind, junk, position, replacement):
    compressed = bytearray(compress(kind, TEXT[:4000]))
    compressed[position : position + len(replacement)] = replacement
    for data in (junk, bytes(compressed)):
        try:
            decompress(kind, data, MEBIBYTE)
        except ProtocolError:
            pass


def test_the_expansion_limit_lets_honest_batches_through():
    assert expansion_limit(1000) == 16 * MEBIBYTE
    assert expansion_limit(MEBIBYTE) == 64 * MEBIBYTE
    assert expansion_limit(100 * MEBIBYTE) == 128 * MEBIBYTE


def test_names():
    assert compression_from_name("zstd") is Compression.ZSTD
    with pytest.raises(ValueError, match="brotli"):
        compression_from_name("brotli")
