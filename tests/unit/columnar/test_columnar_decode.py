"""Columns contain exactly the records: compared with the scalar reader, for every codec, hole, marker and damage."""

from __future__ import annotations

import random
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.columnar.decode import TOPIC_SCHEMA, DecodeSettings, decode_records, next_fetch_offset
from moldau.errors import ProtocolError
from moldau.types import TopicPartition
from moldau.wire.records.batch import HEADER_SIZE, iterate_batches, set_log_append_time, write_crc
from moldau.wire.records.builder import build_batch, build_batch_with_holes
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records.record import read_records

PARTITION = TopicPartition("topic", 3)
NOW_MS = 1_750_000_000_000

nullable_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4)
timestamps = st.integers(NOW_MS - 2**33, NOW_MS + 2**33)
records = st.lists(st.tuples(nullable_bytes, nullable_bytes, timestamps, headers), min_size=1, max_size=80)


def decode(buffer, **choices) -> pa.Table:
    batches = list(decode_records(buffer, PARTITION, **choices))
    assert all(batch.num_rows for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, TOPIC_SCHEMA)


def rows_of(table: pa.Table) -> list[tuple]:
    """(offset, timestamp in ms, key, value, headers) of each row."""
    columns = table.set_column(4, "timestamp", table["timestamp"].cast(pa.int64())).to_pydict()
    listed = [
        tuple((header["key"], header["value"]) for header in row) if row is not None else ()
        for row in columns["headers"]
    ]
    assert set(columns["partition"]) <= {3}
    return list(zip(columns["offset"], columns["timestamp"], columns["key"], columns["value"], listed, strict=True))


def expected_of(buffer) -> list[tuple]:
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for position, header in iterate_batches(buffer)
        for record in read_records(buffer[position : position + header.size])
    ]


@given(st.lists(st.tuples(records, st.sampled_from(Compression)), min_size=1, max_size=4))
def test_columns_are_what_the_scalar_reader_gives(batches):
    buffer, offset = b"", 5
    for rows, compression in batches:
        buffer += build_batch(rows, base_offset=offset, compression=compression)
        offset += len(rows) + 2
    assert rows_of(decode(buffer)) == expected_of(buffer)
    assert rows_of(decode(memoryview(bytearray(buffer)))) == expected_of(buffer)


@pytest.mark.parametrize("value_bytes", [0, 20, 50, 56, 57, 58, 100, 8180, 8190])
@pytest.mark.parametrize("count", [1, 255, 256, 700, 9000])
def test_equal_records_are_found_without_a_walk_and_rightly(value_bytes, count):
    count = min(count, 4_000_000 // (value_bytes + 1))
    rows = [(None, bytes([index % 251]) * value_bytes, NOW_MS + index // 50, ()) for index in range(count)]
    buffer = build_batch(rows) + build_batch(rows[: count // 2 + 1], base_offset=count)
    assert rows_of(decode(buffer)) == expected_of(buffer)


def test_almost_equal_records_are_found_rightly():
    chance = random.Random(4)
    for _ in range(20):
        sizes = [100] * 600
        for _ in range(chance.randrange(4)):
            sizes[chance.randrange(600)] = chance.choice([0, 63, 99, 101, 9000])
        buffer = build_batch([(None, b"v" * size, NOW_MS, ()) for size in sizes])
        assert rows_of(decode(buffer)) == expected_of(buffer)


def test_many_small_batches_are_walked_in_step_and_rightly():
    chance = random.Random(6)
    for round_number in range(12):
        buffer, offset = b"", 0
        for _ in range(chance.choice([47, 48, 49, 130])):
            count = chance.choice([1, 2, 9, 40, 300])
            sizes = [chance.choice([0, 10, 60, 63, 64, 200, 8180]) for _ in range(count)]
            if round_number % 3 == 2 and chance.random() < 0.1:
                sizes[chance.randrange(count)] = chance.choice([9000, 1_050_000])  # lengths of three bytes and more
            rows = [(None, b"v" * size, NOW_MS, ()) for size in sizes]
            buffer += build_batch(rows, base_offset=offset)
            offset += count
        assert rows_of(decode(buffer)) == expected_of(buffer)


def test_a_malformed_batch_among_many_is_named():
    batches = [bytearray(build_batch([(None, b"v" * 20, NOW_MS, ())] * 9, base_offset=9 * n)) for n in range(60)]
    for position, replacement in ((HEADER_SIZE, b"\x7e"), (HEADER_SIZE, b"\x02"), (HEADER_SIZE, b"\xff\xff\x7f")):
        damaged = [bytearray(batch) for batch in batches]
        damaged[33][position : position + len(replacement)] = replacement
        write_crc(damaged[33], 0, len(damaged[33]))
        with pytest.raises(ProtocolError, match="offset 297"):
            decode(b"".join(damaged))
    damaged[-1][HEADER_SIZE:] = b"\xfe\x7f" * ((len(damaged[-1]) - HEADER_SIZE) // 2)
    with pytest.raises(ProtocolError):
        decode(b"".join(damaged), settings=DecodeSettings(check_crcs=False))


def test_large_records():
    rows = [(b"k" * 70_000, b"v" * 3_000_000, NOW_MS, ()), (None, b"", NOW_MS, ()), (b"", b"w" * 1_100_000, 0, ())]
    buffer = build_batch(rows)
    assert rows_of(decode(buffer)) == expected_of(buffer)


def test_only_the_asked_range_is_shown():
    buffer = b"".join(
        build_batch([(None, b"%d" % i, NOW_MS, ()) for i in range(10)], base_offset=n) for n in (0, 10, 20)
    )
    for start, end in ((0, 30), (3, 30), (0, 17), (12, 13), (10, 20), (5, 5), (29, 99), (30, 99)):
        offsets = decode(buffer, start_offset=start, end_offset=end)["offset"].to_pylist()
        assert offsets == list(range(max(start, 0), min(end, 30)))


def test_holes_that_compaction_left_are_no_rows():
    rows = [(b"k", b"v", NOW_MS, ())] * 3
    buffer = (
        build_batch_with_holes(rows, [0, 5, 9], 12, base_offset=4)
        + build_batch_with_holes([], [], 6, base_offset=20)
        + build_batch(rows, base_offset=40)
    )
    assert decode(buffer)["offset"].to_pylist() == [4, 9, 13, 40, 41, 42]
    assert next_fetch_offset(buffer) == 43
    assert next_fetch_offset(b"") is None


def test_a_cut_last_batch_is_left_out():
    whole, cut = build_batch([(None, b"a", NOW_MS, ())]), build_batch([(None, b"b", NOW_MS, ())], base_offset=1)
    assert decode(whole + cut[:-1])["offset"].to_pylist() == [0]
    assert next_fetch_offset(whole + cut[:-1]) == 1


def test_a_brokers_append_time_counts_for_every_record():
    own = build_batch([(None, b"a", NOW_MS - 7, ()), (None, b"b", NOW_MS - 3, ())])
    appended = bytearray(build_batch([(None, b"c", 5, ()), (None, b"d", 9, ())], base_offset=2))
    set_log_append_time(appended, 0, len(appended), NOW_MS)
    table = decode(own + bytes(appended))
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [NOW_MS - 7, NOW_MS - 3, NOW_MS, NOW_MS]


def transaction(producer_id, base_offset, values, *, is_transactional=True) -> bytes:
    rows = [(None, value, NOW_MS, ()) for value in values]
    return build_batch(
        rows,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )


def marker(producer_id, base_offset, *, is_commit) -> bytes:
    ending = EndTransactionMarker(is_commit, 0)
    return build_end_transaction_batch(
        ending, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS, base_offset=base_offset
    )


def test_aborted_transactions_and_markers_are_not_shown():
    buffer = b"".join(
        [
            transaction(1, 0, [b"1 aborted"]),
            transaction(2, 1, [b"2 committed"]),
            transaction(3, 2, [b"plain"], is_transactional=False),
            marker(1, 3, is_commit=False),
            transaction(1, 4, [b"1 committed"]),
            marker(2, 5, is_commit=True),
            marker(1, 6, is_commit=True),
            transaction(1, 7, [b"1 aborted again"]),
            transaction(2, 8, [b"2 aborted"]),
            marker(2, 9, is_commit=False),
            marker(1, 10, is_commit=False),
            transaction(2, 11, [b"2 last"]),
        ]
    )
    # the list of a Fetch response, in an order that a broker may choose
    aborted = [(2, 8), (1, 0), (1, 7)]
    shown = decode(buffer, aborted=aborted)["value"].to_pylist()
    assert shown == [b"2 committed", b"plain", b"1 committed", b"2 last"]
    assert decode(buffer)["offset"].to_pylist() == [0, 1, 2, 4, 7, 8, 11]


def test_an_aborted_transaction_that_began_before_the_fetch_is_dropped():
    buffer = transaction(1, 50, [b"tail of it"]) + marker(1, 51, is_commit=False) + transaction(1, 52, [b"next"])
    assert decode(buffer, start_offset=50, aborted=[(1, 10)])["value"].to_pylist() == [b"next"]


def test_headers_can_be_left_unread():
    buffer = build_batch([(b"k", b"v", NOW_MS, [("a", b"b")])] * 4)
    table = decode(buffer, settings=DecodeSettings(include_headers=False))
    assert table["headers"].null_count == 4
    assert decode(buffer)["headers"].null_count == 0


def test_very_many_headers_and_repeated_and_odd_keys():
    rows = [
        (None, b"v", NOW_MS, [(f"h{index}", b"%d" % index) for index in range(300)]),
        (None, b"v", NOW_MS, ()),
        (None, b"v", NOW_MS, [("same", None), ("same", b""), ("ключ", b"\xff")]),
    ]
    buffer = build_batch(rows)
    assert rows_of(decode(buffer)) == expected_of(buffer)
    broken = bytearray(build_batch([(None, b"v", NOW_MS, [("ab", b"x")])]))
    position = broken.index(b"ab")
    broken[position : position + 2] = b"\xff\xfe"
    write_crc(broken, 0, len(broken))
    assert rows_of(decode(broken))[0][4] == (("��", b"x"),)


def test_a_chunk_is_bounded_by_its_expanded_bytes():
    batches = [build_batch([(None, bytes(10_000), NOW_MS, ())] * 5, base_offset=5 * n, compression=c)
               for n, c in enumerate(["none", "zstd", "gzip", "none", "lz4", "snappy"])]  # fmt: skip
    buffer = b"".join(batches)
    small = list(decode_records(buffer, PARTITION, settings=DecodeSettings(max_chunk_bytes=60_000)))
    assert [batch.num_rows for batch in small] == [5, 10, 10, 5]
    assert sum(batch.num_rows for batch in decode_records(buffer, PARTITION)) == 30
    with pytest.raises(ProtocolError, match=r"topic-3.*offset 5"):
        decode(buffer, settings=DecodeSettings(max_expanded_bytes=49_000))


# --- damage ---


def test_a_wrong_crc_is_refused_unless_not_asked_for():
    buffer = bytearray(build_batch([(None, b"value", NOW_MS, ())], base_offset=9))
    buffer[-3] ^= 1
    with pytest.raises(ProtocolError, match=r"topic-3.*CRC.*offset 9"):
        decode(buffer)
    assert decode(buffer, settings=DecodeSettings(check_crcs=False)).num_rows == 1


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (57, b"\x7f\xff\xff\xff"),  # record count
        (57, b"\xff\xff\xff\xff"),
        (57, b"\x00\x00\x00\x01"),
        (22, b"\x02"),  # claims snappy
        (22, b"\x06"),  # codec 6
        (HEADER_SIZE, b"\x7e"),  # record lengths
        (HEADER_SIZE, b"\x01"),
        (HEADER_SIZE, b"\xff\xff\xff\xff\xff\x7f"),
        (HEADER_SIZE + 2, b"\xff" * 11),  # a timestamp without an end
        (HEADER_SIZE + 4, b"\x7e"),  # key length
        (HEADER_SIZE + 4, b"\xfe\xff\xff\xff\x0f"),
        (HEADER_SIZE + 6, b"\x7e"),  # value length
        (HEADER_SIZE + 8, b"\x01"),  # header count -1
        (HEADER_SIZE + 8, b"\x7e"),
    ],
)
def test_malformed_records_name_their_offset(position, replacement):
    buffer = bytearray(build_batch([(b"k", b"v", NOW_MS, ())] * 3, base_offset=70))
    buffer[position : position + len(replacement)] = replacement
    del buffer[HEADER_SIZE + 30 :]
    write_crc(buffer, 0, len(buffer))
    with pytest.raises(ProtocolError, match=r"topic-3.*70"):
        decode(buffer)


def test_old_message_formats_are_refused():
    buffer = bytearray(build_batch([(None, b"v", NOW_MS, ())]))
    buffer[16] = 1
    with pytest.raises(ProtocolError, match="magic 1"):
        decode(buffer)


def test_mutated_batches_raise_only_protocol_errors():
    chance = random.Random(8)
    rows = [(b"key", b"value" * 4, NOW_MS + index, [("h", b"x"), ("", None)]) for index in range(6)]
    seeds = [build_batch(rows), build_batch([(None, b"v" * 30, NOW_MS, ())] * 300)]
    settings = DecodeSettings(check_crcs=False, max_expanded_bytes=1 << 20)
    for _ in range(1500):
        buffer = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 5)):
            buffer[chance.randrange(16, len(buffer))] = chance.randrange(256)
        try:
            decode(buffer, settings=settings)
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    "rows",
    [
        [(None, None, 0, ())] * 20_000,
        [(None, None, 0, [("", None)])] * 20_000,
        [(None, None, 0, [("", None)] * 64)] * 300,
        [(None, None, 0, [("", None)] * 20_000)],
    ],
)
def test_decoding_allocates_at_most_64_times_the_input(rows):
    buffer = b"".join(build_batch(rows, base_offset=index * len(rows)) for index in range(3))
    decode(build_batch([(None, b"v", 0, [("h", b"x")])]))  # what is made once
    tracemalloc.start()
    batches = list(decode_records(buffer, PARTITION))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak + sum(batch.nbytes for batch in batches) <= 64 * len(buffer) + 65_536
