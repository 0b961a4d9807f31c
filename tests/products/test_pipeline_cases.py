"""The tests that a pipeline file contains: their form, and how rows are compared. Without Spark."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path

import pytest

from moldau.products.pipelines.core.case import compare
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.spec.spec import parse_spec

SPEC = """\
name: p
bootstrap_servers: a:1
sources:
  orders: {topic: orders, format: json, schema: "user string"}
targets:
  out: {from: orders, path: out}
tests:
  all of them:
    given:
      orders: [{user: ann, at: 2026-01-01T00:00:00Z}, no JSON]
    expect:
      out: [{user: ann}]
  in two batches:
    given:
      orders: [[{user: ann}], [{user: bob}, {user: cid}]]
    expect: {out: []}
"""


def parse(text: str = SPEC):
    return parse_spec(text, file_name="spec.yaml", directory=Path("/pages"))


def test_a_list_of_lists_is_one_micro_batch_each():
    first, second = parse().cases
    assert first.given["orders"] == (({"user": "ann", "at": "2026-01-01T00:00:00Z"}, "no JSON"),)
    assert [len(batch) for batch in second.given["orders"]] == [1, 2]
    assert (first.name, first.line, first.expected[0].line) == ("all of them", 8, 12)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (
            ("      out: [{user: ann}]", "      outt: []"),
            "spec.yaml:12: `outt` is not known here (did you mean `out`?)",
        ),
        (("      orders: [{user", "      ordrs: [{user"), "spec.yaml:10: `ordrs` is not known here"),
        (("      out: [{user: ann}]", "      out: [ann]"), "spec.yaml:12: `out` must be a list of rows"),
        (("expect: {out: []}", "expect: {out: none}"), "spec.yaml:16: `out` must be a list"),
        (("[{user: ann, at", "[{on: ann, at"), "spec.yaml:10: `orders` has a record with the name True, which"),
        (("{user: cid}]]", "{7: cid}]]"), "spec.yaml:15: `orders` has a record with the name 7, which is no"),
        (("    given:\n      orders: [{", "    gives:\n      orders: [{"), "spec.yaml:9: `gives` is not known here"),
    ],
)
def test_a_test_that_says_nothing_is_refused_with_its_line(change: tuple[str, str], refused: str):
    assert change[0] in SPEC
    with pytest.raises(SpecError) as error:
        parse(SPEC.replace(*change))
    assert refused in str(error.value)


def test_rows_are_compared_in_any_order_by_the_columns_that_are_named():
    found = [{"a": 1.0, "b": "x"}, {"a": 2, "b": "y"}, {"a": 1, "b": "z"}]
    assert compare([{"a": 1}, {"a": 1}, {"a": 2}], found) is None
    difference = compare([{"a": 1}, {"a": 2}, {"a": 3}], found)
    assert difference is not None
    assert difference.lines() == ['- {"a":3}', '+ {"a":1}']


def test_a_time_is_the_same_moment_however_it_is_written():
    found = [{"at": "2026-01-01T00:00:05.000Z", "in": [{"at": "2026-01-01T01:00:00.000Z"}]}]
    assert compare([{"at": "2026-01-01T01:00:05+01:00", "in": [{"at": "2026-01-01 01:00:00"}]}], found) is None
    assert compare([{"at": "2026-01-01T00:00:06Z"}], found) is not None


def test_moments_that_differ_by_a_microsecond_differ():
    found = [{"at": "2026-01-01T00:00:05.123456Z"}]
    assert compare([{"at": "2026-01-01T01:00:05.123456+01:00"}], found) is None
    difference = compare([{"at": "2026-01-01T00:00:05.123Z"}], found)
    assert difference is not None
    assert difference.lines() == ['- {"at":"2026-01-01T00:00:05.123Z"}', '+ {"at":"2026-01-01T00:00:05.123456Z"}']


def test_a_key_of_a_map_is_a_text_as_in_json():
    found = [{"sizes": {"7": 0.5, "true": {"2": None}}}]
    assert compare([{"sizes": {7: 0.5, True: {2: None}}}], found) is None
    assert compare([{"sizes": {7: 0.5, False: {2: None}}}], found) is not None


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("12345678901234567.89", "12345678901234568.00"),
        ("0.1000000000000000001", "0.1"),
        ("12345678901234567890123", "12345678901234567890124"),
        ("1", "true"),
        ("false", "0"),
        ("[0, {k: 1.0}]", '[false, {"k": 1.00}]'),
    ],
)
def test_a_number_is_what_its_digits_say(expected: str, found: str):
    def compared(text: str):
        spec = parse(SPEC.replace("expect: {out: []}", f"expect: {{out: [{{n: {text}}}]}}"))
        return compare(spec.cases[1].expected[0].rows, [{"n": json.loads(found, parse_float=Decimal)}])

    assert compared(found) is None
    difference = compared(expected)
    assert difference is not None
    assert [json.loads(line[2:])["n"] for line in difference.lines()] == [
        json.loads(expected.replace("k:", '"k":')),
        json.loads(found),
    ]


def test_numbers_of_a_test_may_be_written_as_yaml_has_them():
    texts = ["1.50", "1_000.25", ".5", "1.5e+3", "{0.5: 1}", "1:30.5", ".inf"]
    spec = parse(SPEC.replace("expect: {out: []}", f"expect: {{out: [{{n: [{', '.join(texts)}]}}]}}"))
    numbers = [Decimal("1.5"), Decimal("1000.250"), Decimal("0.50"), Decimal("1500"), {"0.5": 1}, 90.5, float("inf")]
    assert compare(spec.cases[1].expected[0].rows, [{"n": numbers}]) is None


def test_no_rows_are_expected_of_an_empty_list():
    assert compare([], []) is None
    assert compare([], [{"a": 1}]) is not None


def test_a_record_of_a_topic_is_its_json_beside_what_stands_around_it():
    source = parse().sources()["orders"]
    rows = source.given([{"user": "ann", "_key": "k", "_timestamp": "2026-01-01T00:00:00Z"}, "no JSON"], 5)
    assert [(row["key"], row["offset"], row["timestamp"]) for row in rows] == [
        ("aw==", 5, "2026-01-01T00:00:00Z"),
        (None, 6, "1970-01-01T00:00:00Z"),
    ]
    assert json.loads(base64.b64decode(str(rows[0]["value"]))) == {"user": "ann"}


@pytest.mark.parametrize("source", ["orders", "files"])
def test_a_number_that_a_test_gives_keeps_its_digits(source: str):
    digits = "12345678901234567.89"
    given = f"{source}: [[{{_value: {{n: {digits}, all: [0.10, {{0.5: .inf}}]}}}}], [{{_value: 1.10}}]]"
    text = SPEC.replace("orders: [[{user: ann}], [{user: bob}, {user: cid}]]", given)
    files = '  files: {files: in, format: json, schema: "user string"}\ntargets:\n  of_files: {from: files, path: f}\n'
    spec = parse(text.replace("targets:\n", files))
    of_source = spec.sources()[source]
    first, second = ([row["value"] for row in of_source.given(batch, 0)] for batch in spec.cases[1].given[source])
    texts = [base64.b64decode(str(text)).decode() if source == "orders" else str(text) for text in (*first, *second)]
    assert texts == [f'{{"n": {digits}, "all": [0.10, {{"0.5": Infinity}}]}}', "1.10"]
