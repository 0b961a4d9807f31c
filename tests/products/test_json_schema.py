"""JSON with a JSON Schema: its columns, the values that are rows, and what rows become."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import MoldauError
from moldau.products.json_schemas import JsonSchema
from moldau.products.pipelines.formats.json_kinds import arrow_type, kind_of
from moldau.products.pipelines.formats.json_schema import JsonSchemaFormat, JsonSchemaValues, JsonSchemaWriter
from moldau.products.pipelines.formats.registry import RegisteredSchema

TEXT, WHOLE, NUMBER, NULL = ({"type": name} for name in ("string", "integer", "number", "null"))
LINE = {"type": "object", "properties": {"item": TEXT}}
LINE_TYPE = pa.struct({"item": pa.string()})


def schema(**properties: object) -> dict:
    return {"type": "object", "properties": properties}


def columns(of: dict) -> pa.StructType:
    return arrow_type(kind_of(JsonSchema.parse(json.dumps(of))))


def rows(of: dict, *values: str | None) -> list[dict | None]:
    kind = kind_of(JsonSchema.parse(json.dumps(of)))
    encoded = pa.array([None if value is None else value.encode() for value in values], pa.binary())
    return JsonSchemaValues(kind, None)(encoded).to_pylist()


def written(of: dict, row: dict) -> str:
    return JsonSchemaWriter(RegisteredSchema(-1, json.dumps(of)), None, None).value_of(row).decode()


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (TEXT, pa.string()), (WHOLE, pa.int64()), (NUMBER, pa.float64()), ({"type": "boolean"}, pa.bool_()),
        ({**TEXT, "format": "date-time"}, pa.timestamp("us", "UTC")), ({**TEXT, "format": "date"}, pa.date32()),
        ({**TEXT, "format": "uuid"}, pa.string()), ({"type": ["null", "integer"]}, pa.int64()),
        ({"type": ["integer", "number"]}, pa.float64()), ({"oneOf": [NULL, LINE]}, LINE_TYPE),
        ({"anyOf": [{"$ref": "#/definitions/Line"}, NULL]}, LINE_TYPE), ({"enum": ["a", "b", None]}, pa.string()),
        ({"const": 7}, pa.int64()), ({"enum": ["a", 1]}, pa.string()), (NULL, pa.string()), ({}, pa.string()),
        (True, pa.string()), ({"type": "array", "items": LINE}, pa.list_(LINE_TYPE)),
        ({"items": WHOLE}, pa.list_(pa.int64())),
        ({"type": "array"}, pa.string()), ({"type": "array", "items": [TEXT, WHOLE]}, pa.string()),
        ({"type": "object", "additionalProperties": WHOLE}, pa.map_(pa.string(), pa.int64())),
        ({"type": "object", "patternProperties": {"^a": WHOLE}}, pa.string()), ({"type": "object"}, pa.string()),
        ({"oneOf": [LINE, schema(other=TEXT)]}, pa.string()), ({"anyOf": [TEXT, WHOLE]}, pa.string()),
        ({**LINE, "oneOf": [{"required": ["item"]}, {"minProperties": 1}]}, LINE_TYPE),
        ({"allOf": [{"$ref": "#/definitions/Line"}], "properties": {"of": {"$ref": "#/definitions/Line"}}},
         pa.struct({"of": LINE_TYPE, "item": pa.string()})),
        ({"$ref": "#/definitions/Node"}, pa.struct({"inner": pa.list_(pa.string())})),
        ({"$ref": "#"}, pa.string()),
    ],
)  # fmt: skip
def test_a_part_of_a_schema_has_its_column(part, kind):
    node = schema(inner={"type": "array", "items": {"$ref": "#/definitions/Node"}})
    whole = {**schema(a=part), "definitions": {"Line": LINE, "Node": node}}
    found = columns(whole).field("a").type
    if pa.types.is_struct(kind):
        assert {field.name: field.type for field in found} == {field.name: field.type for field in kind}
    else:
        assert found == kind


def test_newer_drafts_have_their_columns():
    draft = "https://json-schema.org/draft/2020-12/schema"
    pair = {"type": "array", "prefixItems": [TEXT], "items": WHOLE}
    whole = {"$schema": draft, **schema(a={"$ref": "#/$defs/Line"}, b=pair), "$defs": {"Line": LINE}}
    assert columns(whole) == pa.struct({"a": LINE_TYPE, "b": pa.string()})


def doubled(levels: int) -> dict:
    """Short to write, but each level has twice the columns of the one before."""
    both = [{f"l{level}": {"$ref": f"#/definitions/l{level - 1}"}} for level in range(1, levels)]
    parts = [LINE, *(schema(a=next(iter(one.values())), b=next(iter(one.values()))) for one in both)]
    named = {f"l{level}": part for level, part in enumerate(parts)}
    return {"$ref": f"#/definitions/l{levels - 1}", "definitions": named}


@pytest.mark.parametrize(
    ("whole", "refused"),
    [
        (TEXT, "describes no object with `properties` alone, so it has no columns"),
        ({"type": "object", "additionalProperties": TEXT}, "so it has no columns"),
        ({"type": "object", "patternProperties": {"a": TEXT}}, "so it has no columns"),
        ({"oneOf": [LINE, schema(other=TEXT)]}, "so it has no columns"),
        (doubled(30), "has more than 10,000 parts"),
    ],
)
def test_a_schema_without_columns_is_refused(tmp_path: Path, whole, refused):
    file = tmp_path / "one.json"
    file.write_text(json.dumps(whole), "utf-8")
    with pytest.raises(MoldauError, match=refused):
        JsonSchemaFormat(schema_file=file).values()


@pytest.mark.parametrize(
    ("text", "refused"),
    [("7", "an object, true or false"), ('{"type": "record"}', "'record' is not"), ('{"$ref": "b.json"}', "nowhere")],
)
def test_what_is_no_json_schema_is_refused(tmp_path: Path, text, refused):
    file = tmp_path / "one.json"
    file.write_text(text, "utf-8")
    with pytest.raises(MoldauError, match=f"the JSON Schema cannot be read: .*{refused}"):
        JsonSchemaFormat(schema_file=file).values()


@pytest.mark.parametrize(
    ("part", "given", "value"),
    [
        (WHOLE, "1", 1), (WHOLE, "1.0", 1), (WHOLE, "1e2", 100), (WHOLE, "-9223372036854775808", -(2**63)),
        (WHOLE, "null", None), (NUMBER, "1", 1.0), (NUMBER, "1.5", 1.5), (TEXT, '"a\\u00e9"', "aé"),
        ({**TEXT, "format": "date-time"}, '"2026-01-02T03:04:05.5+02:00"', datetime(2026, 1, 2, 1, 4, 5, 500_000, UTC)),
        ({**TEXT, "format": "date-time"}, '"2026-01-02T03:04:05"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ({**TEXT, "format": "date"}, '"2026-01-02"', date(2026, 1, 2)),
        ({"type": "array", "items": WHOLE}, "[1, null, 2.0]", [1, None, 2]),
        ({"type": "object", "additionalProperties": WHOLE}, '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        (LINE, '{"item": "tea", "more": 1}', {"item": "tea"}), (LINE, "{}", {"item": None}),
        ({}, "1.12345678901234567890", "1.12345678901234567890"), ({}, '"é"', '"é"'),
        ({}, '{"b": [1, {}]}', '{"b":[1,{}]}'),
        ({}, "null", None), ({"type": "array", "items": {}}, '[1, "a", null]', ["1", '"a"', None]),
    ],
)  # fmt: skip
def test_a_value_becomes_that_of_its_column(part, given, value):
    (row,) = rows(schema(a=part), f'{{"a": {given}, "b": 2}}')
    assert row == {"a": value, "_moldau_corrupt": None}


@pytest.mark.parametrize(
    ("part", "given"),
    [
        (WHOLE, '"1"'), (WHOLE, "1.5"), (WHOLE, "true"), (WHOLE, "1e999999999"), (WHOLE, "9223372036854775808"),
        (NUMBER, '"1"'), (NUMBER, "1e400"), (TEXT, "1"), (TEXT, "{}"), ({"type": "boolean"}, "1"), (LINE, "[]"),
        ({**TEXT, "format": "date-time"}, '"soon"'), ({**TEXT, "format": "date"}, '"2026-02-30"'),
        ({"type": "array", "items": WHOLE}, "7"), ({"type": "array", "items": WHOLE}, '["a"]'), ({}, "nope"),
        ({}, "1}"), ({}, "[" * 100_000), ({}, "NaN"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_a_reason_and_its_neighbours_are_rows(part, given):
    first, bad, nothing, last = rows(schema(a=part), "{}", f'{{"a": {given}}}', None, "{}")
    assert first == last == {"a": None, "_moldau_corrupt": None}
    assert (nothing, bad["a"]) == (None, None)
    assert bad["_moldau_corrupt"]


def test_what_a_schema_asks_for_beside_types_is_not_looked_at_in_values():
    strict = {**schema(a={**WHOLE, "minimum": 5}), "required": ["a", "b"], "additionalProperties": False}
    assert rows(strict, '{"a": 1, "c": 2}') == [{"a": 1, "_moldau_corrupt": None}]


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        (WHOLE, 1, "1"), (NUMBER, Decimal("1.50"), "1.50"), (TEXT, "é", '"é"'), (LINE, {"item": None}, "{}"),
        ({**TEXT, "format": "date"}, date(2026, 1, 2), '"2026-01-02"'), (TEXT, b"a", '"YQ=="'),
        ({"type": "array", "items": {"type": ["null", "integer"]}}, [1, None], "[1,null]"),
        ({"type": "object", "additionalProperties": WHOLE}, {"a": 1}, '{"a":1}'), ({}, '{"b": "c"}', '{"b": "c"}'),
        ({}, [1], "[1]"), ({"type": ["null", "string"]}, None, "null"),
    ],
)  # fmt: skip
def test_a_value_of_a_column_is_written_as_its_schema_says(part, value, text):
    assert written(schema(a=part), {"a": value}) == f'{{"a":{text}}}'


def test_a_null_is_left_out_where_the_schema_has_none():
    assert written(schema(a=WHOLE, b=TEXT), {"a": None, "b": "x"}) == '{"b":"x"}'


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ({**WHOLE, "minimum": 5}, 1, r"\$\.a: 1 is less than the minimum of 5"), (WHOLE, "1", "is not of type"),
        (WHOLE, None, "'a' is a required property"), (NUMBER, float("nan"), "nan is no number in JSON"),
        (LINE, {"other": 1}, "the schema has no property 'other'"), ({}, "no JSON", "JSON is malformed"),
        ({"type": "array", "items": WHOLE}, [None], "None is not of type 'integer'"),
    ],
)  # fmt: skip
def test_a_row_that_its_schema_refuses_is_not_written(part, value, reason):
    with pytest.raises(MoldauError, match=f"a row does not fit the schema: .*{reason}"):
        written({**schema(a=part), "required": ["a"]}, {"a": value})


@pytest.mark.parametrize(
    ("step", "value", "is_multiple"),
    [
        (0.01, 19.99, True), (0.01, Decimal("19.99"), True), (0.01, 19.995, False), (0.1, 0.3, True), (0.1, 4, True),
        (0.01, 1e22, True), (1e-5, 1e300, True), (0.3, 1, False), (7, 14, True), (7, 15, False), (2.5, 7.5, True),
        (2, 3.5, False), (0.01, -19.99, True), (1e-3, Decimal("123456789012.345"), True),
    ],
)  # fmt: skip
def test_a_multiple_is_told_by_the_digits_of_a_number(step, value, is_multiple):
    """As binary fractions, 19.99 is not a multiple of 0.01."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    for whole in (schema(a={**NUMBER, "multipleOf": step}), {**draft, **schema(a={**NUMBER, "multipleOf": step})}):
        if is_multiple:
            assert json.loads(written(whole, {"a": value})) == {"a": float(value)}
        else:
            with pytest.raises(MoldauError, match=rf"\$\.a: {value} is not a multiple of {step}"):
                written(whole, {"a": value})


def test_columns_that_are_not_those_of_the_schema_are_refused():
    writer = JsonSchemaWriter(
        RegisteredSchema(-1, json.dumps({**schema(a=WHOLE, b=TEXT), "required": ["a"]})), None, None
    )
    writer.check(["a"])
    with pytest.raises(MoldauError, match="the SQL gives a column 'c', but the schema has a, b"):
        writer.check(["a", "c"])
    with pytest.raises(MoldauError, match="has a field 'a' without a default, which the SQL does not give"):
        writer.check(["b"])


ALL = schema(
    whole=WHOLE, number=NUMBER, text=TEXT, yes={"type": "boolean"}, at={**TEXT, "format": "date-time"},
    day={**TEXT, "format": "date"}, lines={"type": "array", "items": LINE}, maybe={"type": ["null", "integer"]},
    prices={"type": "object", "additionalProperties": NUMBER},
)  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
ROWS = st.fixed_dictionaries(
    {
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "number": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "text": st.none() | TEXTS,
        "yes": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "day": st.none() | st.dates(),
        "lines": st.none() | st.lists(st.fixed_dictionaries({"item": st.none() | TEXTS}), max_size=3),
        "maybe": st.none() | st.integers(0, 9),
        "prices": st.none() | st.dictionaries(TEXTS, st.floats(0, 1), max_size=3),
    }
)


@given(row=ROWS)
def test_what_is_written_is_read(row):
    (found,) = rows(ALL, written(ALL, row))
    prices = row["prices"]
    assert found == {**row, "prices": prices and list(prices.items()), "_moldau_corrupt": None} | (
        {"prices": []} if prices == {} else {}
    )
