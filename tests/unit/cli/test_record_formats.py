"""The bytes of `--key-format` and `--value-format` are those of Kafka's serializers, and come back as the same text."""

from __future__ import annotations

import json
import random
import struct

import pytest
from confluent_kafka.serialization import DoubleSerializer, IntegerSerializer, StringSerializer

from moldau.cli.output import CommandError
from moldau.cli.records.formats import FORMATS, encoded
from moldau.cli.records.text import from_json

UUID = "123e4567-e89b-12d3-a456-426614174000"
SAMPLES = [
    ("string", "Glück", "Glück".encode()),
    ("string", "", b""),
    ("integer", "-2147483648", b"\x80\x00\x00\x00"),
    ("integer", "7", b"\x00\x00\x00\x07"),
    ("long", "-2", b"\xff" * 7 + b"\xfe"),
    ("long", "9223372036854775807", b"\x7f" + b"\xff" * 7),
    ("double", "1.5", b"\x3f\xf8" + bytes(6)),
    ("double", "-0.0", b"\x80" + bytes(7)),
    ("double", "NaN", struct.pack(">d", float("nan"))),
    ("double", "-Infinity", struct.pack(">d", float("-inf"))),
    ("uuid", UUID, UUID.encode()),
    ("bytes", "AP8K", b"\x00\xff\n"),
    ("bytes", "", b""),
    ("json", '{"a": [1.10, null, "x"]}', b'{"a": [1.10, null, "x"]}'),
]


@pytest.mark.parametrize(("name", "text", "data"), SAMPLES)
def test_a_text_becomes_the_bytes_of_the_format_and_comes_back(name: str, text: str, data: bytes) -> None:
    assert FORMATS[name].from_text(text.encode()) == data
    assert FORMATS[name].to_text(data) == text.encode()


@pytest.mark.parametrize(("name", "text", "data"), SAMPLES)
def test_a_line_of_json_brings_the_record_back(name: str, text: str, data: bytes) -> None:
    shown = FORMATS[name].to_json(data)
    line = json.dumps({"key": shown, "value": shown}, allow_nan=False).encode()
    record = from_json(line, FORMATS[name], FORMATS[name])
    assert record.key == record.value
    assert FORMATS[name].to_json(record.value or b"") == shown
    assert name == "json" or record.value == data


def test_numbers_and_strings_are_written_as_confluents_serializers_write_them() -> None:
    source = random.Random(5)
    for _ in range(500):
        number, real = source.randrange(-(1 << 31), 1 << 31), source.uniform(-1, 1) * 10 ** source.randrange(-300, 300)
        assert FORMATS["integer"].from_text(b"%d" % number) == IntegerSerializer()(number)
        assert FORMATS["double"].from_text(repr(real).encode()) == DoubleSerializer()(real)
        assert FORMATS["string"].from_text(b"%d" % number) == StringSerializer()(str(number))
        assert float(FORMATS["double"].to_text(DoubleSerializer()(real))) == real


def test_a_uuid_is_written_in_lower_case_as_uuidserializer_writes_it() -> None:
    assert FORMATS["uuid"].from_text(UUID.upper().encode()) == UUID.encode()


def test_json_of_several_lines_is_shown_on_one() -> None:
    assert FORMATS["json"].to_text(b'{\n  "a": 1.10,\r\n  "b": "x y"\n}') == b'{"a":1.10,"b":"x y"}'


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("string", b"\xff", "is not UTF-8"),
        ("integer", b"2147483648", "'2147483648' is not an integer (from -2147483648 to 2147483647)"),
        ("integer", b" 7", "' 7' is not an integer"),
        ("integer", b"1_000", "is not an integer"),
        ("integer", "\u0667".encode(), "is not an integer"),
        ("integer", b"", "'' is not an integer"),
        ("long", b"1.0", "is not a long"),
        ("long", b"9" * 1_000, "is not a long"),
        ("double", b"1e999", "is not a double"),
        ("double", b"1,5", "is not a double"),
        ("double", b"inf", "is not a double"),
        ("uuid", b"123e4567", "is not a UUID"),
        ("uuid", UUID.replace("-", "").encode(), "is not a UUID"),
        ("bytes", b"abc", "is not base64"),
        ("bytes", b"AP 8K", "is not base64"),
        ("json", b"{'a': 1}", "is not JSON"),
        ("json", b"NaN", "is not JSON"),
        ("json", b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_text_that_is_not_of_its_format_is_a_short_sentence(name: str, text: bytes, sentence: str) -> None:
    with pytest.raises(CommandError) as raised:
        encoded("value", FORMATS[name], text)
    assert str(raised.value).startswith("the value ")
    assert sentence in str(raised.value)
    assert len(str(raised.value)) < 150


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", "5"),
        ("integer", "true"),
        ("integer", "1.0"),
        ("long", "[5]"),
        ("double", '"x"'),
        ("uuid", "5"),
        ("bytes", '"AP8K"'),
        ("bytes", '{"base64": 5}'),
        ("json", '{"a": 1e999}'),
        ("string", '"\\ud800"'),
    ],
)
def test_a_json_value_that_is_not_of_its_format_is_rejected(name: str, value: str) -> None:
    with pytest.raises(CommandError, match="the value "):
        from_json(b'{"value": %s}' % value.encode(), None, FORMATS[name])


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("integer", b"12345", "has 5 bytes, but an integer has 4"),
        ("long", b"", "has 0 bytes, but a long has 8"),
        ("double", b"1", "has 1 bytes, but a double has 8"),
        ("uuid", b"\x01" * 16, "is not a UUID"),
        ("json", b"\xff", "is not JSON"),
    ],
)
def test_bytes_that_are_not_of_a_format_are_not_shown(name: str, data: bytes, sentence: str) -> None:
    for read in (FORMATS[name].to_text, FORMATS[name].to_json):
        with pytest.raises(ValueError, match=sentence):
            read(data)
