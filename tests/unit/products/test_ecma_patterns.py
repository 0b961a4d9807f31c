r"""`\p{L}` in patterns of JSON Schemas."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest

from moldau.errors import MoldauError
from moldau.products.ecma_patterns import Pattern
from moldau.products.json_schemas import JsonSchema, JsonSchemaError
from moldau.products.pipelines.formats.json_schema import JsonSchemaWriter
from moldau.products.pipelines.formats.registry import RegisteredSchema
from moldau.products.registry.core.kinds.json_reading import problems
from moldau.products.registry.core.kinds.kind import WholeSchema

NAME = {"type": "string", "pattern": r"^\p{Lu}[\p{Ll}\p{gc=Zs}'-]+$"}
PERSON = {
    "type": "object",
    "properties": {"name": NAME, "more": {"type": "object"}},
    "patternProperties": {r"^\p{L}+$": {"type": ["string", "object"]}},
    "additionalProperties": False,
}


def written(schema: dict, row: dict) -> bytes:
    return JsonSchemaWriter(RegisteredSchema(-1, json.dumps(schema)), None, None).value_of(row)


@pytest.mark.parametrize(
    ("pattern", "categories"),
    [
        (r"\p{L}", ("L",)), (r"\p{Letter}", ("L",)), (r"\p{General_Category=Nd}", ("Nd",)), (r"[\p{Nd}]", ("Nd",)),
        (r"[^\P{Lu}]", ("Lu",)), (r"\p{LC}", ("Lu", "Ll", "Lt")), (r"[\p{P}\p{S}]", ("P", "S")),
    ],
)  # fmt: skip
def test_a_category_matches_its_characters(pattern, categories):
    # 0x5100 is in a run of thousands of letters, 0x10ffff is the last of all
    for character in map(chr, (*range(0x2000), 0x5100, 0x1D400, 0x10FFFF)):
        is_in = unicodedata.category(character).startswith(categories)
        assert (re.fullmatch(Pattern(pattern), character) is not None) == is_in
        assert (re.fullmatch(Pattern(f"(?!{pattern}).|\n"), character, re.DOTALL) is None) == (
            is_in and character != "\n"
        )


@pytest.mark.parametrize("pattern", [r"\\p{L}", r"^[a-z]+\d{2}\[\]$", r"[[]x]"])
def test_all_else_in_a_pattern_stays(pattern):
    assert Pattern(pattern) == pattern


def test_rows_are_checked_by_such_a_pattern_and_refused_in_its_words():
    assert written(PERSON, {"name": "Jürgen o'neil"}) == '{"name":"Jürgen o\'neil"}'.encode()
    with pytest.raises(MoldauError, match=re.escape(f"'jürgen' does not match {NAME['pattern']!r}")):
        written(PERSON, {"name": "jürgen"})


def test_names_of_properties_are_checked_by_such_a_pattern():
    validator = JsonSchema.parse(json.dumps(PERSON)).validator(JsonSchema.parse(json.dumps(PERSON)).root)
    assert validator.is_valid({"größe": "1"})
    (refused,) = validator.iter_errors({"größe2": "1"})
    assert refused.message == "'größe2' does not match any of the regexes: '^\\\\p{L}+$'"


def test_a_category_that_is_none_is_refused():
    with pytest.raises(JsonSchemaError, match=r"\\p\{Greek\} is no general category of Unicode such as \\p\{L\}"):
        JsonSchema.parse(json.dumps({"properties": {"a": {"pattern": r"\p{Greek}"}}}))


def test_schemas_with_such_patterns_are_compared_in_a_registry():
    person = WholeSchema(json.dumps(PERSON))
    assert problems(person, person) == []
    looser = WholeSchema(json.dumps({**PERSON, "properties": {}}))
    assert problems(looser, person) == []
    tighter = {"properties": {"name": {**NAME, "pattern": r"^\p{Lu}+$"}}, "additionalProperties": False}
    assert "#/properties/name: the reader's `pattern` is not the writer's" in problems(
        WholeSchema(json.dumps({**PERSON, **tighter})), person
    )
