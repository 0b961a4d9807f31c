"""The targets of references in a JSON Schema: by place, by the `$id` around them, by the names in a registry."""

from __future__ import annotations

import json

import pytest

from moldau.errors import MoldauError
from moldau.products.json_schemas import JsonSchema
from moldau.products.pipelines.formats.json_schema import JsonSchemaFormat, JsonSchemaWriter
from moldau.products.pipelines.formats.registry import RegisteredSchema
from moldau.products.registry.core.kinds.json_reading import problems
from moldau.products.registry.core.kinds.kind import WholeSchema

DRAFT_4, DRAFT_2020 = "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"
TEXT = {"type": "string"}
ORDER = "https://shop.example/schemas/order.json"


def town(reference: object, **more: object) -> dict:
    """A schema whose property `town` refers to another part."""
    return {"type": "object", "properties": {"town": {"$ref": reference}}, **more}


def written(schema: dict, row: dict, **references: dict) -> object:
    texts = tuple((name.replace("_", "."), json.dumps(one)) for name, one in references.items())
    return json.loads(JsonSchemaWriter(RegisteredSchema(-1, json.dumps(schema), texts), None, None).value_of(row))


BUNDLED = {
    "$schema": DRAFT_2020,
    "$id": ORDER,
    **town("town.json"),
    "$defs": {
        "town": {
            "$id": "town.json",
            "$schema": DRAFT_2020,
            "type": "object",
            "properties": {"name": {"$ref": "#/$defs/name"}},
            "$defs": {"name": {"$anchor": "name", "type": "string"}},
        },
        "name": {"type": "integer"},
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        BUNDLED,
        {**BUNDLED, **town("https://shop.example/schemas/town.json")},
        {**BUNDLED, **town("#/$defs/town")},
        {name: value for name, value in BUNDLED.items() if name != "$id"},
        {
            "$schema": DRAFT_4,
            "id": ORDER,
            **town("town.json"),
            "definitions": {
                "town": {
                    "id": "town.json",
                    "properties": {"name": {"$ref": "#/definitions/name"}},
                    "definitions": {"name": TEXT},
                }
            },
        },
    ],
)
def test_a_bundled_part_is_found_by_its_id_and_its_references_lead_into_itself(schema):
    assert written(schema, {"town": {"name": "Brno"}}) == {"town": {"name": "Brno"}}
    with pytest.raises(MoldauError, match=r"\$\.town\.name: 1 is not of type 'string'"):
        written(schema, {"town": {"name": 1}})
    assert problems(WholeSchema(json.dumps(schema)), WholeSchema(json.dumps(schema))) == []


def test_an_anchor_of_a_bundled_part_is_found():
    schema = {**BUNDLED, **town("town.json#name")}
    assert written(schema, {"town": "Brno"}) == {"town": "Brno"}


@pytest.mark.parametrize("identity", [{}, {"$id": ORDER}, {"$id": "order.json"}])
def test_a_relative_reference_next_to_an_id_resolves_to_that_name_in_the_registry(identity):
    schema = {**town("town.json"), **identity}
    there = {"type": "object", "properties": {"name": {"$ref": "name.json"}, "zip": {"$ref": "#/definitions/zip"}}}
    there["definitions"] = {"zip": {"type": "integer"}}
    row = {"town": {"name": "Brno", "zip": 60200}}
    assert written(schema, row, town_json=there, name_json=TEXT) == row
    with pytest.raises(MoldauError, match="'60200' is not of type 'integer'"):
        written(schema, {"town": {"zip": "60200"}}, town_json=there, name_json=TEXT)


def test_a_reference_in_a_text_is_relative_to_the_id_of_that_text():
    texts = (
        ("towns", json.dumps({"$id": "https://maps.example/town.json", **town("name.json")})),
        ("names", json.dumps({"$id": "https://maps.example/name.json", **TEXT})),
    )
    schema = RegisteredSchema(-1, json.dumps({"$id": ORDER, **town("https://maps.example/town.json")}), texts)
    row = {"town": {"town": "Brno"}}
    assert json.loads(JsonSchemaWriter(schema, None, None).value_of(row)) == row


def test_the_root_is_found_by_its_id():
    schema = {"$id": ORDER, **town("order.json#/definitions/name", definitions={"name": TEXT})}
    assert written(schema, {"town": "Brno"}) == {"town": "Brno"}
    node = {"$id": ORDER, "type": "object", "properties": {"inner": {"$ref": ORDER}, "name": TEXT}}
    assert written(node, {"inner": '{"name": "a"}'}) == {"inner": {"name": "a"}}


@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        (town("#/definitions/no"), r"its \$ref #/definitions/no leads nowhere"),
        ({"$id": ORDER, **town("no.json")}, r"its \$ref no\.json leads nowhere"),
        ({"$schema": DRAFT_2020, **town("#no")}, r"its \$ref #no leads nowhere"),
        ({"$schema": DRAFT_2020, "properties": {"a": {"$dynamicRef": "#no"}}}, r"its \$ref #no leads nowhere"),
        (town("#/required/one", required=["town"]), r"its \$ref #/required/one leads nowhere"),
        (town("#/required/0", required=["town"]), r"its \$ref #/required/0 leads to no schema"),
        (town("#/type/x"), r"its \$ref #/type/x leads nowhere"),
        (town("#/examples/0", examples=[{"$ref": "#/no"}]), r"its \$ref #/no leads nowhere"),
        ({"$schema": DRAFT_4, **town(TEXT)}, r'its \$ref \{"type": "string"\} is no text'),
        ({"$schema": DRAFT_4, "properties": {"a": TEXT}, "$ref": TEXT}, r'its \$ref \{"type": "string"\} is no text'),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused_with_the_file_of_the_schema(tmp_path, schema, refused):
    file = tmp_path / "order.json"
    file.write_text(json.dumps(schema), "utf-8")
    for refusing in (JsonSchemaFormat(schema_file=file).values, JsonSchemaFormat(schema_file=file).writer):
        with pytest.raises(MoldauError, match=rf"order\.json: the JSON Schema cannot be read: {refused}$"):
            refusing()


@pytest.mark.parametrize(
    ("there", "refused"),
    [(town("#/no"), r"its \$ref #/no leads nowhere"), ([], "its reference town.json is no JSON Schema")],
)
def test_a_reference_of_a_text_that_is_referred_to_is_looked_at_before_the_start(there, refused):
    with pytest.raises(MoldauError, match=refused):
        JsonSchema.parse(json.dumps(town("town.json")), (("town.json", json.dumps(there)),))
