"""Each produced batch that Kafka rejects is rejected with Kafka's code."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import KafkaError
from moldau.wire.records.batch import HEADER_SIZE, read_header, write_crc
from moldau.wire.records.builder import build_batch
from moldau.wire.records.compression import MEBIBYTE, Compression
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records.validate import BatchLimits, check_produced_batch, check_records, is_zstd

NOW_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
LIMITS = BatchLimits()
ROWS = [(b"k", b"v" * 30, NOW_MS, ()), (None, None, NOW_MS - 5, [("h", None)])]


def batch_with(position=None, replacement=b"", *, keep_crc=False, **changes) -> bytearray:
    batch = bytearray(build_batch(ROWS, **changes))
    if position is not None:
        batch[position : position + len(replacement)] = replacement
    if not keep_crc:
        write_crc(batch, 0, len(batch))
    return batch


def code_of(buffer, limits=LIMITS) -> int:
    try:
        check_produced_batch(buffer, now_ms=NOW_MS, limits=limits)
    except KafkaError as error:
        return error.code
    return 0


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_good_batch_passes_in_every_buffer(compression):
    batch = build_batch(ROWS, compression=compression)
    for buffer in (batch, bytearray(batch), memoryview(bytearray(batch)), memoryview(b"xx" + batch)[2:]):
        header = check_produced_batch(buffer, now_ms=NOW_MS, limits=LIMITS)
        assert header == read_header(batch)
        assert check_records(buffer, header, now_ms=NOW_MS, limits=LIMITS) == NOW_MS
    assert is_zstd(batch) == (compression is Compression.ZSTD)


def test_genuine_old_messages_are_refused_as_invalid():
    message = b"\x00\x00" + int32(-1) + int32(1) + b"v"
    old = int64(0) + int32(len(message) + 4) + int32(0) + message
    assert code_of(old) == 87
    assert code_of(old * 5) == 87


@pytest.mark.parametrize(
    ("code", "batch"),
    [
        (87, b""),
        (87, b"\x00" * 11),
        (87, batch_with()[:-1]),
        (87, batch_with()[:40]),
        (87, batch_with() + batch_with()),
        (87, batch_with(base_offset=1)),
        (87, batch_with(16, b"\x00")),
        (87, batch_with(16, b"\x01")),
        (2, batch_with(16, b"\x03")),
        (2, batch_with(16, b"\xff")),
        (2, batch_with(17, b"\x00\x00\x00\x00", keep_crc=True)),
        (2, batch_with(70, b"\x00", keep_crc=True)),
        (2, batch_with(8, int32(0))),
        (2, batch_with(8, int32(-1))),
        (2, batch_with(8, int32(13))),
        (2, batch_with(8, int32(48))),
        (2, batch_with(8, int32(2**31 - 1))),
        (87, batch_with(8, int32(2**30))),
        (2, b"\xa7" * 100),
        (2, batch_with() + b"\xff" * 20),
        (87, batch_with(57, int32(0))),
        (87, batch_with(57, int32(-1))),
        (87, batch_with(57, int32(3))),
        (87, batch_with(23, int32(7))),
        (87, batch_with(23, int32(-1))),
        (76, batch_with(22, b"\x05")),
        (76, batch_with(22, b"\x07")),
        (87, batch_with(22, b"\x40")),
        (87, batch_with(22, b"\x80")),
        (87, batch_with(21, b"\x01")),
        (87, batch_with(22, b"\x20")),
        (87, batch_with(producer_id=5, producer_epoch=0, base_sequence=-1)),
        (47, batch_with(producer_id=5, producer_epoch=-2, base_sequence=0)),
        (32, batch_with(35, int64(NOW_MS + HOUR_MS + 1))),
        (32, batch_with(27, int64(NOW_MS + HOUR_MS + 1))),
        (32, batch_with(35, int64(-(2**63)))),
        (32, batch_with(27, int64(-(2**63)))),
    ],
)
def test_what_is_refused_and_how(code, batch):
    assert code_of(batch) == code
    assert code_of(memoryview(batch)) == code


@pytest.mark.parametrize(
    "batch",
    [
        batch_with() + b"\x00" * 11,  # fewer bytes than a header after it: cut off
        batch_with() + batch_with()[:-1],
        batch_with(35, int64(NOW_MS + HOUR_MS)),
        batch_with(35, int64(-1)),
        batch_with(27, int64(0)),
        batch_with(27, int64(-5_000)),
        batch_with(22, b"\x08"),  # log append time: the log clears it
        batch_with(producer_id=-7, producer_epoch=-1, base_sequence=-1),  # below -1 counts as none
        batch_with(producer_id=5, producer_epoch=0, base_sequence=2**31 - 1),
        batch_with(producer_id=5, producer_epoch=-1, base_sequence=0),
        batch_with(is_transactional=True),
        batch_with(leader_epoch=99),
    ],
)
def test_what_is_accepted(batch):
    assert code_of(batch) == 0


def test_the_size_of_the_batch_is_in_the_header_even_with_bytes_behind_it():
    batch = build_batch(ROWS)
    assert check_produced_batch(batch + b"\x00" * 9, now_ms=NOW_MS, limits=LIMITS).size == len(batch)


def test_a_markers_batch_is_refused_from_a_client():
    marker = build_end_transaction_batch(
        EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp=NOW_MS
    )
    assert code_of(marker) == 87


def test_timestamp_bounds_are_the_topics():
    old = build_batch([(None, b"v", NOW_MS - 1001, ())])
    assert code_of(old, BatchLimits(timestamp_before_max_ms=1000)) == 32
    assert code_of(old, BatchLimits(timestamp_before_max_ms=1001)) == 0
    future = build_batch([(None, b"v", NOW_MS + 2 * HOUR_MS, ())])
    assert code_of(future) == 32
    assert code_of(future, BatchLimits(is_log_append_time=True)) == 0


# --- the full walk ---


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize(("value_bytes", "is_within"), [(92, True), (93, False)])
def test_a_record_of_a_compressed_batch_is_bounded_without_its_length_varint(compression, value_bytes, is_within):
    """By Apache Kafka 4.4.0's check of key `k` and that value with `max.decompressed.message.bytes=100`."""
    batch = build_batch([(b"k", b"v" * value_bytes, NOW_MS, ())], compression=compression)
    is_refused = compression is not Compression.NONE and not is_within
    assert walk(batch, limits=BatchLimits(max_decompressed_bytes=100)) == (87 if is_refused else 0)


def walk(batch, *, is_key_required=False, limits=LIMITS) -> int:
    header = check_produced_batch(batch, now_ms=NOW_MS, limits=limits)
    try:
        check_records(batch, header, now_ms=NOW_MS, limits=limits, is_key_required=is_key_required)
    except KafkaError as error:
        return error.code
    return 0


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (HEADER_SIZE, b"\x7e"),  # record length
        (HEADER_SIZE + 3, b"\x04"),  # inner offset delta
        (HEADER_SIZE + 4, b"\x7e"),  # key length
        (HEADER_SIZE + 6, b"\x7e"),  # value length
        (HEADER_SIZE + 37, b"\x02"),  # header count
        (-3, b"\x01"),  # null header key
        (22, b"\x01"),  # claims gzip, but is not
    ],
)
def test_the_full_walk_refuses_records_that_cannot_be_read(position, replacement):
    batch = batch_with()
    position %= len(batch)
    assert walk(batch_with(position, replacement)) == 87


def test_the_full_walk_judges_each_timestamp():
    rows = [(None, b"v", NOW_MS, ()), (None, b"v", NOW_MS + 2 * HOUR_MS, ())]
    batch = bytearray(build_batch(rows))
    batch[35:43] = int64(NOW_MS)  # the header hides it
    write_crc(batch, 0, len(batch))
    assert walk(batch) == 32


def test_a_compacted_topic_needs_keys():
    assert walk(batch_with(), is_key_required=True) == 87
    assert walk(build_batch([(b"k", None, NOW_MS, ())]), is_key_required=True) == 0


def test_a_bomb_is_refused_by_the_full_walk_and_a_repetitive_record_is_not():
    assert walk(build_batch([(None, bytes(20 * MEBIBYTE), NOW_MS, ())], compression="gzip")) == 87
    assert walk(build_batch([(None, bytes(MEBIBYTE), NOW_MS, ())], compression="gzip")) == 0


@given(st.binary(max_size=200))
def test_random_bytes_get_a_kafka_error_and_nothing_else(junk):
    assert code_of(junk) in (2, 87)


@given(st.integers(0, 200), st.binary(min_size=1, max_size=9), st.booleans(), st.sampled_from(Compression))
def test_a_damaged_batch_gets_a_kafka_error_or_passes(position, replacement, keep_crc, compression):
    batch = bytearray(build_batch(ROWS, compression=compression))
    batch[position : position + len(replacement)] = replacement
    if not keep_crc:
        write_crc(batch, 0, len(batch))
    code = code_of(batch)
    assert code in (0, 2, 32, 47, 76, 87)
    if code == 0:
        assert walk(batch) in (0, 32, 87)
