"""Texts with invalid UTF-8 are found at any depth, and other arrays stay unchanged."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

from moldau.columnar.equal_keys import with_equal_keys
from moldau.columnar.texts import valid_texts, with_valid_texts

BAD = pa.array([b"a\xff", None, b"ok", b"\xe2\x82"], pa.binary()).view(pa.string())
GOOD = ["a\ufffd", None, "ok", "\ufffd"]
OFFSETS = pa.array([0, 2, 2, 4], pa.int32())
STRUCTS = pa.StructArray.from_arrays(
    [BAD, pa.array([1, 2, 3, 4])], ["s", "n"], mask=pa.array([False, False, True, False])
)
LISTS = pa.ListArray.from_arrays(OFFSETS, BAD, mask=pa.array([False, True, False]))
MAPS = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), BAD[2:], BAD[:2])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (BAD, GOOD),
        (STRUCTS, [{"s": "a\ufffd", "n": 1}, {"s": None, "n": 2}, None, {"s": "\ufffd", "n": 4}]),
        (LISTS, [["a\ufffd", None], None, ["ok", "\ufffd"]]),
        (MAPS, [[("ok", "a\ufffd")], [("\ufffd", None)]]),
        (
            pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), STRUCTS),
            [[{"s": "a\ufffd", "n": 1}, {"s": None, "n": 2}], [None, {"s": "\ufffd", "n": 4}]],
        ),
    ],
)
def test_bytes_that_are_no_utf8_are_replaced_at_any_depth_and_in_slices(column: pa.Array, expected: list):
    assert valid_texts(column).to_pylist() == expected
    for begin in range(1, len(column)):
        assert valid_texts(column[begin:]).to_pylist() == expected[begin:]
    assert valid_texts(column).type == column.type


def test_a_column_whose_texts_are_utf8_is_the_same_array():
    column = pa.array([{"s": "größe"}, None])
    assert valid_texts(column) is column


def test_of_a_key_such_bytes_are_escaped_so_that_two_keys_stay_two():
    keys = pa.array([b"\xc8", b"\xc9"], pa.binary()).view(pa.string())
    rows = with_valid_texts(pa.record_batch({"k": keys, "v": keys}), ["k"])
    assert rows.to_pydict() == {"k": [r"\xc8", r"\xc9"], "v": ["\ufffd", "\ufffd"]}


def test_a_place_without_the_character_0_gets_none_also_in_json():
    texts = ["a\0", r"\u0000", None]
    documents = [json.dumps({"a": "\0", "b": r"\u0000"}), json.dumps("\\\0"), None]
    rows = pa.record_batch({"k": texts, "v": texts, "j": documents})
    found = with_valid_texts(rows, ["k"], takes_zero=False, json=["j"]).to_pydict()
    assert found["k"] == [r"a\x00", r"\u0000", None]
    assert found["v"] == ["a\ufffd", r"\u0000", None]
    assert [one and json.loads(one) for one in found["j"]] == [{"a": "\ufffd", "b": r"\u0000"}, "\\\ufffd", None]
    assert with_valid_texts(rows).equals(rows)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_key_has_one_zero_and_one_nan(kind: pa.DataType):
    odd = pa.array([-0.0, 0.0, math.nan, -math.nan, 1.5, None], kind)
    rows = with_equal_keys(pa.record_batch({"k": odd, "v": odd, "n": [1] * 6}), ["k", "n"])
    assert str(rows.column("k").to_pylist()) == "[0.0, 0.0, nan, nan, 1.5, None]"
    assert str(rows.column("v").to_pylist()) == str(odd.to_pylist())
    assert len(pa.table(rows).group_by("k").aggregate([])) == 4
