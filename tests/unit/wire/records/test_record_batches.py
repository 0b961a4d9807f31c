"""Batches are Kafka's, byte for byte: compared with kafka-python's builder and reader and kio's reader."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kio.records.readers import read_batch as kio_read_batch

from moldau.errors import ProtocolError
from moldau.wire.records.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    clear_log_append_time,
    is_crc_valid,
    iterate_batches,
    patch_base_offset,
    read_header,
    set_log_append_time,
)
from moldau.wire.records.builder import build_batch, build_batch_with_holes
from moldau.wire.records.compression import Compression
from moldau.wire.records.record import read_records

NOW_MS = 1_750_000_000_000

nullable_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=20)), max_size=3)
timestamps = st.integers(0, 4_000_000_000_000)
records = st.lists(st.tuples(nullable_bytes, nullable_bytes, timestamps, headers), min_size=1, max_size=30)


@given(records, st.integers(-1, 2**62), st.integers(0, 2**31 - 1), st.booleans())
def test_a_batch_is_byte_for_byte_kafka_pythons(rows, producer_id, base_sequence, is_transactional):
    theirs = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    for index, (key, value, timestamp, record_headers) in enumerate(rows):
        theirs.append(index, timestamp=timestamp, key=key, value=value, headers=record_headers)
    # kafka-python leaves the leader epoch at 0; the CRC does not cover it
    ours = build_batch(
        rows,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    assert ours == bytes(theirs.build())


@given(records, st.sampled_from(Compression), st.integers(0, 2**40))
def test_what_was_built_is_read_back(rows, compression, base_offset):
    batch = build_batch(rows, base_offset=base_offset, compression=compression, leader_epoch=7)
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.compression is compression
    assert header.next_offset == base_offset + len(rows)
    assert is_crc_valid(batch, 0, len(batch))
    read = read_records(batch)
    assert [(r.key, r.value, r.timestamp, list(r.headers)) for r in read] == rows
    assert [r.offset for r in read] == list(range(base_offset, base_offset + len(rows)))


@given(records)
def test_kafka_python_and_kio_read_our_batches(rows):
    batch = build_batch(rows, base_offset=40, compression="gzip")
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert [(r.offset, r.key, r.value, r.timestamp, r.headers) for r in theirs] == [
        (40 + index, key, value, timestamp, record_headers)
        for index, (key, value, timestamp, record_headers) in enumerate(rows)
    ]
    plain = [(key, value, NOW_MS, record_headers) for key, value, _, record_headers in rows]
    kios, size = kio_read_batch(build_batch(plain, base_offset=40), 0)
    assert size == len(build_batch(plain))
    assert [(r.key, r.value) for r in kios.records] == [(key, value) for key, value, _, _ in plain]


def test_every_timestamp_and_offset_delta_width_survives():
    base = NOW_MS
    rows = [(None, b"v", base + delta, ()) for delta in (0, 1, -1, 63, 64, -64, -65, 2**31, -(2**31), 2**45, -base)]
    deltas = [0, 1, 63, 64, 8191, 8192, 1_048_575, 1_048_576, 2**27, 2**30, 2**31 - 2]
    batch = build_batch_with_holes(rows, deltas, 2**31 - 1)
    read = read_records(batch)
    assert [r.offset for r in read] == deltas
    assert [r.timestamp for r in read] == [row[2] for row in rows]
    assert read_header(batch).last_offset == 2**31 - 1


def test_log_append_time_gives_every_record_the_brokers_time():
    batch = bytearray(build_batch([(None, b"a", 5, ()), (None, b"b", 9, ())]))
    set_log_append_time(batch, 0, len(batch), NOW_MS)
    assert is_crc_valid(batch, 0, len(batch))
    assert read_header(batch).is_log_append_time
    assert [r.timestamp for r in read_records(batch)] == [NOW_MS, NOW_MS]
    clear_log_append_time(batch, 0, len(batch))
    assert is_crc_valid(batch, 0, len(batch))
    assert [r.timestamp for r in read_records(batch)] == [5, 9]


def test_patching_base_offset_and_epoch_leaves_the_crc_valid():
    first, second = build_batch([(b"k", b"v", 1, ())] * 3), build_batch([(b"k", b"w", 2, ())] * 2)
    log = bytearray(first + second)
    view = memoryview(log)
    patch_base_offset(view, 0, 1 << 40, len(first) - LENGTH_OVERHEAD, 9)
    patch_base_offset(view, len(first), (1 << 40) + 3, len(second) - LENGTH_OVERHEAD, 9)
    positions = list(iterate_batches(view))
    assert [position for position, _ in positions] == [0, len(first)]
    assert [(h.base_offset, h.partition_leader_epoch) for _, h in positions] == [(1 << 40, 9), ((1 << 40) + 3, 9)]
    assert all(is_crc_valid(view, position, header.size) for position, header in positions)


@given(st.integers(1, 200))
def test_a_cut_last_batch_is_left_out_of_the_iteration(cut):
    whole = build_batch([(b"k", b"v" * 60, 1, ())])
    cut_batch = build_batch([(b"k", b"v" * 200, 1, ())])
    buffer = whole + cut_batch[: min(cut, len(cut_batch) - 1)]
    assert [position for position, _ in iterate_batches(buffer)] == [0]


def test_sequences_wrap_and_producerless_batches_have_none():
    rows = [(None, b"v", 1, ())] * 3
    assert read_header(build_batch(rows, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)).last_sequence == 0
    assert read_header(build_batch(rows)).last_sequence == -1


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (16, b"\x01"),  # magic
        (8, struct.pack(">i", 10)),  # length shorter than the header
        (8, struct.pack(">i", -1)),
        (57, struct.pack(">i", 99)),  # more records than bytes
        (57, struct.pack(">i", -1)),
        (57, struct.pack(">i", 1)),  # fewer records than there are
        (HEADER_SIZE, b"\x7e"),  # record length
        (HEADER_SIZE + 4, b"\x7e"),  # key length
        (HEADER_SIZE + 6, b"\x7e"),  # value length
        (HEADER_SIZE + 8, b"\x01"),  # header count -1
        (HEADER_SIZE + 8, b"\x80"),  # a varint that runs into the next record
        (22, b"\x05"),  # codec
        (22, b"\x01"),  # not gzip
    ],
)
def test_damage_is_a_protocol_error(position, replacement):
    batch = bytearray(build_batch([(b"k", b"v", 1, ())] * 2))
    batch[position : position + len(replacement)] = replacement
    with pytest.raises(ProtocolError):
        read_records(batch)


def test_kafka_reads_any_negative_key_length_as_null_and_ignores_record_attributes():
    batch = bytearray(build_batch([(None, b"v", 1, ())]))
    batch[HEADER_SIZE + 1] = 0xFF
    batch[HEADER_SIZE + 4] = 0x03  # -2
    assert read_records(batch)[0].key is None
