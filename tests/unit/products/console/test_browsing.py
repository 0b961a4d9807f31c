"""The query string of the records page, and JSON over several lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.products.console.core.browsing import COUNTS, Question, read_question, read_time, write_next
from moldau.products.console.core.shown import indent_json
from moldau.products.record_json import bytes_as_json

texts = st.text(max_size=30)


@given(st.dictionaries(st.sampled_from(["from", "at", "partition", "key", "value", "header", "count", "next"]), texts))
def test_any_query_string_is_read(parameters: dict[str, str]) -> None:
    question = read_question(parameters)
    assert question.count in COUNTS
    assert question.partition is None or 0 <= question.partition < 1 << 31
    assert 0 <= question.offset < 1 << 63


def test_no_question_asks_for_the_newest_records() -> None:
    assert read_question({}) == Question()


def test_an_offset_a_time_and_a_partition_are_read() -> None:
    assert read_question({"from": "offset", "at": "120", "partition": "3"}).offset == 120
    assert read_question({"from": "offset", "at": "120", "partition": "3"}).partition == 3
    assert read_question({"from": "time", "at": "1970-01-01 00:01"}).timestamp_ms == 60_000
    assert read_question({"count": "200"}).count == 200


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"from": "offset", "at": "-3"}, "offset"),
        ({"from": "offset", "at": "9223372036854775808"}, "offset"),
        ({"from": "time", "at": "yesterday"}, "time"),
        ({"partition": "first"}, "partition"),
    ],
)
def test_what_means_nothing_becomes_a_sentence(parameters: dict[str, str], word: str) -> None:
    assert word in read_question(parameters).trouble


def test_a_time_without_a_zone_is_utc() -> None:
    assert read_time("1970-01-02") == 86_400_000
    assert read_time("1970-01-02T01:00:00+01:00") == 86_400_000
    assert read_time("1700000000000") == 1_700_000_000_000
    assert read_time("soon") is None


@given(st.dictionaries(st.integers(0, 1 << 20), st.integers(0, (1 << 63) - 1), max_size=20))
def test_a_link_to_the_next_page_is_read_as_it_was_written(offsets: dict[int, int]) -> None:
    assert dict(read_question({"next": write_next(offsets)}).next_offsets) == offsets


def test_a_filter_looks_at_key_value_and_headers_whatever_the_case() -> None:
    headers: list[tuple[str, bytes | None]] = [("source", b"Shop"), ("empty", None)]
    assert Question(key="K1", value="coff", header="shop").takes(b"k1", b"Coffee", headers)
    assert Question(header="SOURCE").takes(None, None, headers)
    assert not Question(key="k1").takes(None, b"k1", headers)
    assert not Question(header="bar").takes(b"bar", b"bar", headers)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 1]), st.booleans())
def test_json_over_several_lines_means_the_same(value: object, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    assert json.loads(indent_json(text)) == value


def test_json_over_several_lines_keeps_each_token() -> None:
    text = '{"a":1.10,"a":12345678901234567890,"b":[],"c":{"d":[1,{}]},"e":"x, {y}: \\"z\\""}'
    assert indent_json(text) == (
        '{\n  "a": 1.10,\n  "a": 12345678901234567890,\n  "b": [],\n  "c": {\n    "d": [\n      1,\n      {}\n    ]\n'
        '  },\n  "e": "x, {y}: \\"z\\""\n}'
    )


def test_bytes_that_are_no_text_are_base64() -> None:
    assert bytes_as_json("žluť".encode()) == "žluť"
    assert bytes_as_json(b"\xff\x00") == {"base64": "/wA="}
    assert bytes_as_json(None) is None
