"""Properties of a JSON Schema with the names of keywords."""

from __future__ import annotations

import json

import pytest

from moldau.products.json_schemas import VALUES
from moldau.products.pipelines.formats.json_schema import JsonSchemaWriter
from moldau.products.pipelines.formats.registry import RegisteredSchema
from moldau.products.registry.core.kinds.json_reading import problems
from moldau.products.registry.core.kinds.kind import WholeSchema


def _with_property(name: str) -> str:
    inside = {"x": {"type": "string"}}
    return json.dumps({"type": "object", "properties": {name: {"$ref": "#/definitions/x"}}, "definitions": inside})


@pytest.mark.parametrize("name", VALUES)
def test_a_property_with_the_name_of_a_keyword_may_have_a_reference(name):
    writer = JsonSchemaWriter(RegisteredSchema(-1, _with_property(name)), None, None)
    assert writer.value_of({name: "a"}) == json.dumps({name: "a"}, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", VALUES)
def test_a_schema_whose_property_has_the_name_of_a_keyword_reads_its_own_values(name):
    schema = WholeSchema(_with_property(name))
    assert problems(schema, schema) == []
