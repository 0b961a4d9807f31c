"""Verdicts about JSON Schemas: proven by documents for random pairs, and by examples for easily missed cases."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema.validators import validator_for

from moldau.products.registry.core.kinds.json_reading import problems
from moldau.products.registry.core.kinds.kind import WholeSchema
from tests.support.json_schema_pairs import URIS, annotated, counter_example, pair

TEXT, SHORT, WHOLE = {"type": "string"}, {"type": "string", "maxLength": 3}, {"type": "integer"}
REF = {"$ref": "#/$defs/A"}


def whole(schema: Any, draft: int = 2020) -> dict[str, Any]:
    return {"$schema": URIS[draft], **schema}


def read(reader: Any, writer: Any) -> list[str]:
    return problems(*(WholeSchema(json.dumps(one)) for one in (reader, writer)))


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_no_document_contradicts_a_compatible_verdict(first: int) -> None:
    for seed in range(first, first + 10):
        rng = random.Random(seed)
        one, other = pair(rng)
        for reader, writer in ((one, other), (other, one)):
            if not read(reader, writer):
                assert counter_example(rng, reader, writer, 100, 250)[0] == [], (seed, reader, writer)


@pytest.mark.parametrize("seed", range(50))
def test_a_change_of_annotations_alone_is_compatible(seed: int) -> None:
    rng = random.Random(seed)
    schema, _ = pair(rng)
    changed = annotated(rng, schema)
    assert (read(changed, schema), read(schema, changed)) == ([], [])


@pytest.mark.parametrize(
    ("around", "before", "after", "document"),
    [
        ({"type": "array", "contains": REF}, TEXT, SHORT, ["abcd"]),
        ({"type": "object", "propertyNames": REF}, TEXT, SHORT, {"abcd": 1}),
        (
            {"type": "object", "dependentSchemas": {"a": REF}},
            {"required": ["b"]},
            {"required": ["b", "c"]},
            {"a": 1, "b": 1},
        ),
        (
            {"type": "object", "if": {"required": ["a"]}, "then": REF},
            {"required": ["b"]},
            {"required": ["b", "c"]},
            {"a": 1, "b": 1},
        ),
        ({"type": "object", "if": REF, "else": False}, {}, {"required": ["a"]}, {}),
        ({"type": "object", "patternProperties": {"^x": REF}}, TEXT, SHORT, {"x": "abcd"}),
        ({"type": "object", "unevaluatedProperties": REF}, TEXT, SHORT, {"x": "abcd"}),
        ({"not": REF}, SHORT, TEXT, "abcd"),
        ({"oneOf": [REF, WHOLE]}, TEXT, SHORT, "abcd"),
        ({"oneOf": [REF, {"minimum": 5}]}, WHOLE, {"type": "number"}, 5.5),
        ({"items": {"$dynamicRef": "#n"}, "$defs": {"B": {"$dynamicAnchor": "n", **REF}}}, TEXT, SHORT, ["abcd"]),
        ({"allOf": [{"$ref": "#/$defs/B"}], "$defs": {"B": {"items": REF}}}, TEXT, SHORT, ["abcd"]),
    ],
)
def test_a_definition_that_is_narrowed_is_seen_wherever_it_is_used(
    around: dict[str, Any], before: Any, after: Any, document: Any
) -> None:
    old, new = (whole({**around, "$defs": {**around.get("$defs", {}), "A": one}}) for one in (before, after))
    assert validator_for(old)(old).is_valid(document)
    assert not validator_for(new)(new).is_valid(document)
    assert read(new, old)
    assert read({**old, "title": "other"}, old) == []


@pytest.mark.parametrize(
    ("draft", "reader", "writer", "document"),
    [
        # up to draft 7 a `$ref` hides all keywords next to it
        (
            7,
            {"properties": {"a": {"maxLength": 1}}},
            {"properties": {"a": {"$ref": "#/definitions/A", "maxLength": 1}}, "definitions": {"A": {}}},
            {"a": "ab"},
        ),
        # keywords that a draft does not know
        (7, {"prefixItems": [WHOLE], "minItems": 1}, {"prefixItems": [WHOLE]}, []),
        (7, {"required": ["b"]}, {"dependentRequired": {"a": ["b"]}, "required": ["a"]}, {"a": 1}),
        (4, {"enum": [1]}, {"const": 1}, 2),
        # whether a limit itself is out of bounds
        (4, {"maximum": 6, "exclusiveMaximum": True}, {"maximum": 6, "exclusiveMaximum": False}, 6),
        (2020, {"exclusiveMaximum": 6}, {"maximum": 6}, 6),
        # keywords that have a meaning only together are not combined from different parts of an `allOf`
        (
            2020,
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
            {"allOf": [{"if": {"required": ["a"]}}, {"then": {"required": ["b"]}}]},
            {"a": 1},
        ),
        (2020, {"contains": WHOLE, "minContains": 2}, {"allOf": [{"contains": WHOLE}, {"minContains": 2}]}, [1]),
        (
            7,
            {"items": [WHOLE], "additionalItems": False},
            {"allOf": [{"items": [WHOLE]}, {"additionalItems": False}]},
            [1, 2],
        ),
        (
            4,
            {"maximum": 5, "exclusiveMaximum": True},
            {"allOf": [{"maximum": 5}, {"maximum": 9, "exclusiveMaximum": True}]},
            5,
        ),
        # the meaning of `unevaluated...` depends on all keywords next to it
        (
            2020,
            {"unevaluatedProperties": False},
            {"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}]},
            {"a": 1},
        ),
        # never two branches of a `oneOf`
        (2020, {"oneOf": [WHOLE, {"type": "number"}]}, WHOLE, 1),
        (2020, {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"required": ["a"]}, {"a": 1, "b": 1}),
        (
            2020,
            {"oneOf": [{"required": ["a"], "properties": {"x": {"type": "number"}}}, {"required": ["b"]}]},
            {"oneOf": [{"required": ["a"], "properties": {"x": WHOLE}}, {"required": ["b"]}]},
            {"a": 1, "b": 1, "x": 0.5},
        ),
    ],
)
def test_a_pair_with_a_counter_example_is_not_compatible(draft: int, reader: Any, writer: Any, document: Any) -> None:
    reader, writer = whole(reader, draft), whole(writer, draft)
    assert validator_for(writer)(writer).is_valid(document)
    assert not validator_for(reader)(reader).is_valid(document)
    assert read(reader, writer)


def tagged(name: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": name}, **properties},
        "required": ["kind"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ({"allOf": [{"required": ["a"], "anyOf": [{"required": ["b"]}]}], "title": "t"},) * 2,
        (
            {"allOf": [{"required": ["a"], "anyOf": [{"required": ["b"]}]}], "type": ["object", "null"]},
            {"allOf": [{"required": ["a"], "anyOf": [{"required": ["b"]}]}], "type": "object"},
        ),
        # a renamed definition
        ({"items": {"$ref": "#/$defs/B"}, "$defs": {"B": TEXT}}, {"items": REF, "$defs": {"A": TEXT}}),
        # a tagged union grows: one more branch, one more property
        ({"oneOf": [tagged("a", n=WHOLE), tagged("b"), tagged("c")]}, {"oneOf": [tagged("a"), tagged("b")]}),
        # branches that differ by their required properties, with a change elsewhere
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": ["object", "null"]},
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        ),
        (
            {
                "oneOf": [
                    {"required": ["a"], "properties": {"x": WHOLE}},
                    {"required": ["b"], "type": ["object", "null"]},
                ]
            },
            {"oneOf": [{"required": ["a"], "properties": {"x": WHOLE}}, {"required": ["b"]}]},
        ),
        ({"minimum": 1, "type": "number"}, {"allOf": [{"minimum": 0}, {"minimum": 1}], "type": "integer"}),
        ({"maximum": 6}, {"exclusiveMaximum": 6}),
        ({"multipleOf": 1, "type": "number"}, WHOLE),
        ({"enum": [True, False, None]}, {"type": ["boolean", "null"]}),
        ({"not": TEXT}, WHOLE),
        ({"type": "object", "propertyNames": {"maxLength": 5}}, {"type": "object", "propertyNames": {"maxLength": 3}}),
        (
            {"type": "object", "patternProperties": {"^x": REF}, "maxProperties": 9, "$defs": {"A": {"minimum": 1}}},
            {"type": "object", "patternProperties": {"^x": {"minimum": 1}}, "maxProperties": 8},
        ),
    ],
)
def test_what_is_plainly_compatible_is(reader: Any, writer: Any) -> None:
    assert read(whole(reader), whole(writer)) == []


def test_a_large_schema_is_compared_along_its_change() -> None:
    """30 levels of a union of two objects that are used twice each: the lowest level has 2^60 paths."""

    def large(lowest: Any) -> dict[str, Any]:
        levels = {"L0": lowest}
        for number in range(1, 31):
            below = {"$ref": f"#/$defs/L{number - 1}"}
            levels[f"L{number}"] = {"anyOf": [tagged("a", x=below, y=below), tagged("b", x=below, y=below)]}
        return whole({"$ref": "#/$defs/L30", "$defs": levels})

    assert read(large({"type": ["string", "null"]}), large(TEXT)) == []
    assert read(large(TEXT), large({"type": ["string", "null"]}))


def test_schemas_of_different_drafts_are_compared_by_what_each_says() -> None:
    text = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}
    assert read(whole(text, 2020), whole(text, 7)) == []
    items = {"items": [WHOLE], "type": "array"}
    assert read(whole({"type": "array", "prefixItems": [WHOLE]}, 2020), whole(items, 7)) == []
    assert read(whole(WHOLE, 7), whole(WHOLE, 4)) == []
    assert read(whole(WHOLE, 4), whole(WHOLE, 7))  # 1.0
    assert read(whole({"minContains": 2, "contains": TEXT}, 2020), whole({"minContains": 2, "contains": TEXT}, 7))


def test_schemas_of_draft_3_are_compatible_where_they_say_the_same() -> None:
    schema = {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"a": {"type": "string"}}}
    assert read({**schema, "title": "t"}, schema) == []
    assert read({**schema, "properties": {"a": {"type": "string", "required": True}}}, schema)
