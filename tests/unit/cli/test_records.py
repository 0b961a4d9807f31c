"""Records as JSON lines, which give the same records again, and output templates."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from confluent_kafka import Message

from moldau.cli.output import CommandError
from moldau.cli.records.text import from_json, parse_template
from moldau.products.record_json import record_as_json


def message(key: bytes | None, value: bytes | None, headers: Any = None, at: tuple[int, int] = (1, 5)) -> Message:
    return Message(topic="orders", partition=2, offset=7, key=key, value=value, headers=headers, timestamp=at)


def test_json_brings_every_byte_back() -> None:
    source = random.Random(1)
    samples: list[bytes | None] = [None, b"", b"null", b"\xff\x00", 'Gl\u00fcck \u2028\n"'.encode(), b"\xed\xa0\x80"]
    samples += [source.randbytes(source.randrange(40)) for _ in range(200)]
    for sample in samples:
        line = json.dumps(record_as_json(message(sample, sample, [("a", sample), ("a", None)])))
        back = from_json(line.encode())
        assert (back.key, back.value, back.headers) == (sample, sample, [("a", sample), ("a", None)])
        assert (back.timestamp_ms, back.partition) == (5, 2)


def test_a_record_without_a_timestamp_gets_the_time_of_writing() -> None:
    line = json.dumps(record_as_json(message(b"k", b"v", at=(0, -1))))
    assert from_json(line.encode()).timestamp_ms is None


def test_a_line_of_too_many_levels_is_no_record() -> None:
    with pytest.raises(CommandError, match="not JSON"):
        from_json(b"[" * 100_000)


def test_a_value_alone_is_a_record() -> None:
    record = from_json(b'{"value": "coffee", "headers": {"trace": "1"}}')
    assert (record.key, record.value, record.headers, record.partition) == (None, b"coffee", [("trace", b"1")], None)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"coffee", "this is not JSON"),
        (b"\xff", "this is not JSON"),
        (b'["coffee"]', "a record is an object"),
        (b'{"key": "k"}', '"value" is missing'),
        (b'{"valeu": "v"}', "no field 'valeu'"),
        (b'{"value": 5}', '"value" is a string'),
        (b'{"value": {"base64": "?"}}', '"value" is a string'),
        (b'{"value": {"base64": 5}}', '"value" is a string'),
        (b'{"value": "\\ud800"}', '"value" is a string'),
        (b'{"value": "v", "headers": [["a"]]}', '"headers" is a list'),
        (b'{"value": "v", "timestamp": "now"}', '"timestamp" is a whole number'),
        (b'{"value": "v", "timestamp": -1}', '"timestamp" is a whole number'),
        (b'{"value": "v", "partition": true}', '"partition" is a whole number'),
        (b'{"value": "v", "partition": 2147483648}', '"partition" is a whole number'),
    ],
)
def test_what_is_no_record_is_a_sentence(line: bytes, sentence: str) -> None:
    with pytest.raises(CommandError) as raised:
        from_json(line)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{topic}/{partition}@{offset}", b"orders/2@7"),
        (r"{time}\t{timestamp}\n", b"1970-01-01T00:00:00.005Z\t5\n"),
        ("{key}={value}", b"k=\xff"),
        ("{headers} {header.a} {header.b}", b"a=1 1 ~"),
        (r"{{{value}}} \q", b"{\xff} \\q"),
        ("", b""),
    ],
)
def test_a_template_writes_fields_in_the_bytes_of_the_record(template: str, printed: bytes) -> None:
    assert parse_template(template, b"~")(message(b"k", b"\xff", [("a", b"1")])) == printed


def test_what_is_absent_is_printed_as_the_null_text() -> None:
    assert parse_template("{key} {value} {time}", b"~")(message(None, None, at=(0, -1))) == b"~ ~ ~"


@pytest.mark.parametrize(("template", "sentence"), [("{valeu}", "no field {valeu}"), ("{value", "{ stands alone")])
def test_a_template_that_is_none_is_a_sentence(template: str, sentence: str) -> None:
    with pytest.raises(CommandError) as raised:
        parse_template(template, b"")
    assert sentence in str(raised.value)
