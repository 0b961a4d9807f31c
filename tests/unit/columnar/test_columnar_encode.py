"""Arrow columns become Kafka's own record batches: byte for byte like the builder's, and readable by both readers."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.columnar.decode import HEADERS_TYPE, decode_records
from moldau.columnar.encode import BatchIdentity, columns_of, encode_batches
from moldau.types import TopicPartition
from moldau.wire.records.batch import is_crc_valid, read_header
from moldau.wire.records.builder import build_batch
from moldau.wire.records.compression import Compression
from moldau.wire.records.record import read_records

NOW_MS = 1_750_000_000_000

nullable_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
timestamps = st.integers(NOW_MS - 2**33, NOW_MS + 2**33)
records = st.lists(st.tuples(nullable_bytes, nullable_bytes, timestamps, headers), min_size=1, max_size=120)


def arrow_of(rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "timestamp": pa.array([row[2] for row in rows], pa.timestamp("ms", tz="UTC")),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in row[3]] for row in rows], HEADERS_TYPE
            ),
        }
    )


def encode(batch: pa.RecordBatch, **choices) -> list[bytes]:
    return [encoded.data for encoded in encode_batches(columns_of(batch, now_ms=NOW_MS), **choices)]


@given(records)
def test_one_batch_is_byte_for_byte_the_builders(rows):
    (encoded,) = encode(arrow_of(rows), identity=BatchIdentity(9, 2, 41))
    assert encoded == build_batch(rows, producer_id=9, producer_epoch=2, base_sequence=41)


@given(records, st.integers(1, 400), st.sampled_from(Compression))
def test_batches_keep_their_bound_order_and_sequences(rows, batch_bytes, compression):
    batches = list(
        encode_batches(
            columns_of(arrow_of(rows), now_ms=0),
            identity=BatchIdentity(9, 2, 2**31 - 3),
            compression=compression,
            batch_bytes=batch_bytes,
        )
    )
    read = []
    sequence = 2**31 - 3
    for encoded in batches:
        header = read_header(encoded.data)
        assert is_crc_valid(encoded.data, 0, len(encoded.data))
        assert (header.size, header.record_count) == (len(encoded.data), encoded.record_count)
        assert (header.base_offset, header.base_sequence, header.compression) == (0, sequence, compression)
        if compression is Compression.NONE:
            assert header.record_count == 1 or header.size - 61 <= batch_bytes
        sequence = (sequence + header.record_count) & 0x7FFFFFFF
        read += [(r.key, r.value, r.timestamp, list(r.headers)) for r in read_records(encoded.data)]
    assert read == rows


@given(records)
def test_what_was_decoded_is_encoded_again(rows):
    batch = build_batch(rows)
    (decoded,) = decode_records(batch, TopicPartition("topic", 0))
    assert encode(decoded, identity=BatchIdentity()) == [batch]


def test_slices_and_other_types_of_the_same_columns():
    whole = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["a", None, "c", "d"]).dictionary_encode(),
            "value": pa.array(["1", "2", "", "4"], pa.large_string()),
            "timestamp": pa.array([datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)] * 3 + [None]),
            "headers": pa.array([[("x", b"1")], None, [], [("y", None)]], pa.map_(pa.string(), pa.binary())).cast(
                HEADERS_TYPE
            ),
        }
    )
    (encoded,) = encode(whole.slice(1, 3))
    assert [(r.key, r.value, r.timestamp, r.headers) for r in read_records(encoded)] == [
        (None, b"2", 1_735_689_600_000, ()),
        (b"c", b"", 1_735_689_600_000, ()),
        (b"d", b"4", NOW_MS, (("y", None),)),
    ]


def test_a_slice_of_a_column_of_more_than_2_gib_is_encoded(tmp_path):
    """Its offsets need 64 bits. The file has holes: only the pages of the last row occupy space."""
    start = 1 << 31
    with open(tmp_path / "column", "wb+") as file:
        file.truncate(start)
        file.seek(start)
        file.write(b"last")
    offsets = pa.array([0, start, start + 4], pa.int64()).buffers()[1]
    with pa.memory_map(str(tmp_path / "column")) as mapped:
        buffers = [None, offsets, mapped.read_buffer()]
        for column in (
            pa.LargeStringArray.from_buffers(2, offsets, buffers[2]),
            pa.Array.from_buffers(pa.large_binary(), 2, buffers),
        ):
            batch = pa.RecordBatch.from_arrays([column, column], ["key", "value"])
            (encoded,) = encode(batch.slice(1))
            assert [(record.key, record.value) for record in read_records(encoded)] == [(b"last", b"last")]


def test_only_a_value_is_needed():
    (encoded,) = encode(pa.RecordBatch.from_pydict({"value": [b"a", None]}))
    assert [(r.key, r.value, r.timestamp) for r in read_records(encoded)] == [
        (None, b"a", NOW_MS),
        (None, None, NOW_MS),
    ]
    assert encode(pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})) == []


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"key": [b"a"]}, "value"),
        ({"value": [1]}, "value"),
        ({"value": [b"a"], "key": [1.5]}, "key"),
        ({"value": [b"a"], "timestamp": ["today"]}, "timestamp"),
        ({"value": [b"a"], "timestamp": pa.array([10**17], pa.timestamp("s"))}, "too far away for a record"),
        ({"value": [b"a"], "headers": ["x=y"]}, "headers"),
        ({"value": [b"a"], "headers": [[{"key": None, "value": b""}]]}, "header"),
        (
            {"value": [b"a"], "headers": [[{"name": "waiter", "value": b""}]]},
            "list<struct<key: string, value: binary>>",
        ),
        ({"value": [b"a"], "headers": [[{"key": "waiter"}]]}, "list<struct<key: string, value: binary>>"),
        ({"value": [b"a"], "headers": [[{"key": 1, "value": b""}]]}, "headers.key is int64"),
        ({"value": [b"a"], "headers": [[{"key": "waiter", "value": 1.5}]]}, "headers.value is double"),
    ],
)
def test_columns_of_the_wrong_type_are_named(columns, word):
    with pytest.raises(ValueError, match=word):
        encode(pa.RecordBatch.from_pydict(columns))


def test_a_header_without_a_key_names_the_input_record_of_its_row():
    headers = [None, [{"key": "a", "value": b""}] * 3, [], [{"key": "b", "value": b""}, {"key": None, "value": b""}]]
    origins = {"_topic": ["in"] * 4, "_partition": [2] * 4, "_offset": [10, 11, 12, 13]}
    with pytest.raises(ValueError, match="a record header without a key; the input record is in-2 at offset 13"):
        encode(pa.RecordBatch.from_pydict({"value": [b"a"] * 4, "headers": headers, **origins}))


def test_what_lies_under_a_null_is_no_header():
    fields = [pa.array(["shown", "hidden"]), pa.array([b"1", b"2"])]
    structs = pa.StructArray.from_arrays(fields, ["key", "value"], mask=pa.array([False, True]))
    headers = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), structs)
    with pytest.raises(ValueError, match="a record header without a key"):
        encode(pa.RecordBatch.from_pydict({"value": [b"a"], "headers": headers}))


def test_a_header_is_read_by_the_names_of_its_fields():
    batch = pa.RecordBatch.from_pydict({"value": [b"a"], "headers": [[{"value": b"Ada", "key": "waiter"}]]})
    assert batch.schema.field("headers").type.value_type.field(0).name == "value"
    (encoded,) = encode(batch)
    assert [record.headers for record in read_records(encoded)] == [(("waiter", b"Ada"),)]


def test_large_records_have_batches_of_their_own():
    rows = [(None, b"v" * size, NOW_MS, ()) for size in (10, 700_000, 10, 3_000_000, 10, 10)]
    batches = encode(arrow_of(rows), batch_bytes=500_000)
    assert [read_header(batch).record_count for batch in batches] == [1, 1, 1, 1, 2]
