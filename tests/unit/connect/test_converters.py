"""Converters: names, settings, errors and bounds. Their bytes and values: test_converter_pairs.py."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from moldau.connect.configuration import ConfigError
from moldau.connect.converting.converter import Converter, DataError, Role
from moldau.connect.converting.header_parser import MAX_DEPTH, parse_header
from moldau.connect.converting.java_numbers import double_text, float_text, scaled, unscaled
from moldau.connect.converting.json_schemas import MAX_DEPTH as MAX_SCHEMA_DEPTH
from moldau.connect.converting.named import CONVERTERS, new_converter
from moldau.connect.converting.schema_cache import SchemaCache
from moldau.connect.data.schema import Field, Schema, Type

PAIR = Schema(Type.STRUCT, fields=(Field("a", Schema(Type.INT32)), Field("b", Schema(Type.STRING, optional=True))))


def converter(name: str, role: Role = Role.VALUE, **settings: str) -> Converter:
    key = f"{role}.converter"
    return new_converter({key: name, **{f"{key}.{k.replace('_', '.')}": v for k, v in settings.items()}}, role, "bytes")


def test_the_default_is_used_without_a_setting() -> None:
    assert new_converter({}, Role.KEY, "string").from_value("t", (), None, "x") == b"x"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("strng", "string"),
        ("org.apache.kafka.connect.json.JsonConvertor", "org.apache.kafka.connect.json.JsonConverter"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigError) as found:
        converter(name)
    assert f"Did you mean {near}?" in str(found.value)
    assert list(found.value.errors) == ["value.converter"]


def test_a_converter_of_headers_is_rejected_for_values() -> None:
    with pytest.raises(ConfigError, match="headers only"):
        converter("header")


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("string", {"converter_encoding": "nothing"}, "value.converter.converter.encoding"),
        ("json", {"schemas_enable": "maybe"}, "value.converter.schemas.enable"),
        ("json", {"schemas_cache_size": "-1"}, "value.converter.schemas.cache.size"),
        ("json", {"decimal_format": "HEX"}, "value.converter.decimal.format"),
        ("json", {"schema_content": '{"type":"nothing"}'}, "value.converter.schema.content"),
        ("json", {"schema_content": "{"}, "value.converter.schema.content"),
    ],
)
def test_a_wrong_setting_is_rejected_by_its_whole_name(name: str, settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as found:
        converter(name, **settings)
    assert list(found.value.errors) == [key]


def test_every_short_name_is_the_class_of_its_full_name() -> None:
    for short, (full, _) in CONVERTERS.items():
        for name in (short, full):
            assert full.rpartition(".")[2].lower() == type(converter_of(name)).__name__.lower()


def converter_of(name: str) -> Converter:
    role = Role.HEADER if name in ("header", CONVERTERS["header"][0]) else Role.VALUE
    return converter(name, role, schema_registry_url="http://127.0.0.1:1")


def test_the_encoding_has_a_short_name() -> None:
    assert converter("string", encoding="utf-16-be").from_value("t", (), None, "a") == b"\x00a"


def test_an_error_names_the_field() -> None:
    with pytest.raises(DataError, match=r"Field a: Invalid type for INT32: str"):
        converter("json").from_value("t", (), PAIR, {"a": "1"})
    written = converter("json").from_value("t", (), PAIR, {"a": 1}) or b""
    with pytest.raises(DataError, match=r"Field a: Invalid JSON for INT32: STRING"):
        converter("json").to_value("t", (), written.replace(b'"a":1', b'"a":"1"'))


def test_a_name_that_is_no_field_is_rejected() -> None:
    with pytest.raises(DataError, match=r"'c' is no field of the schema"):
        converter("json").from_value("t", (), PAIR, {"a": 1, "c": 2})


@pytest.mark.parametrize("value", [{1, 2}, 2**63, "\ud800", {"a": {"b": object()}}])
def test_what_json_cannot_hold_is_rejected(value: object) -> None:
    with pytest.raises(DataError):
        converter("json", schemas_enable="false").from_value("t", (), None, value)


def test_a_value_in_itself_is_rejected() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(DataError):
        converter("json", schemas_enable="false").from_value("t", (), None, value)


def test_json_that_is_too_deep_is_rejected() -> None:
    with pytest.raises(DataError):
        converter("json", schemas_enable="false").to_value("t", (), b"[" * 100_000 + b"]" * 100_000)


def test_a_schema_that_is_too_deep_is_rejected() -> None:
    depth = MAX_SCHEMA_DEPTH + 1
    schema = b'{"type":"array","items":' * depth + b'{"type":"int32"}' + b"}" * depth
    with pytest.raises(DataError, match="in each other"):
        converter("json").to_value("t", (), b'{"schema":' + schema + b',"payload":[]}')


def test_a_header_that_is_too_deep_is_a_string() -> None:
    text = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    assert parse_header(text) == (Schema(Type.STRING), text)
    schema, _ = parse_header(text[1:-1])
    assert schema is not None
    assert schema.type is Type.ARRAY


def test_a_number_with_a_huge_exponent_is_not_expanded() -> None:
    schema, value = parse_header("1e999999999")
    assert (schema and schema.name, value) == ("org.apache.kafka.connect.data.Decimal", Decimal("1e999999999"))


def test_a_cache_is_bounded_and_finds_equal_schemas() -> None:
    made: list[Schema] = []
    cache = SchemaCache(lambda schema: made.append(schema) or len(made), 2)  # type: ignore[func-returns-value]
    first = Schema(Type.INT32)
    assert cache.get(first) == cache.get(Schema(Type.INT32)) == 1
    assert [cache.get(Schema(Type.INT32, version=version)) for version in (1, 2)] == [2, 3]
    assert cache.get(first) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (1e22, "1.0E22"),
        (2.5e-300, "2.5E-300"),
    ],
)
def test_doubles_are_written_as_java_does(value: float, text: str) -> None:
    assert double_text(value) == text


def test_floats_are_written_with_the_digits_of_a_float() -> None:
    assert [float_text(each) for each in (0.1, 16777216.0, 3.4028234663852886e38)] == [
        "0.1",
        "1.6777216E7",
        "3.4028235E38",
    ]
    assert math.isnan(float(float_text(math.nan)))


@pytest.mark.parametrize("text", ["0", "-1", "127", "128", "-128", "-129", "32768", "123456789012345678901234567890"])
def test_decimals_go_through_their_bytes(text: str) -> None:
    value = Decimal(f"{text}E-3")
    payload = unscaled(value, 3)
    assert payload is not None
    assert scaled(payload, 3) == value
