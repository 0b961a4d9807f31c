"""Which schema can read which: the rules of the three kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.kinds.kinds import AVRO, JSON, KINDS, PROTOBUF
from moldau.products.registry.core.refusals import SchemaError


def reads(kind: str, reader: Any, writer: Any) -> bool:
    texts = (one if isinstance(one, str) and kind == PROTOBUF else json.dumps(one) for one in (reader, writer))
    return not KINDS[kind].problems(*(WholeSchema(text) for text in texts))


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


AMOUNT = {"name": "amount", "type": "int"}
WIDE = {"name": "amount", "type": "long"}
CITY = {"name": "city", "type": ["null", "string"], "default": None}


@pytest.mark.parametrize(
    ("pattern", "is_searched"),
    [
        ("^[a-z]+$", True),
        ("^a{0,9}b", True),
        ("a|b", True),
        (r"^\(a+\)$", True),
        ("^(a+)+$", False),
        ("^(a|a)*$", False),
        ("^(?:a|a)*$", False),
        ("a*a*a*b", False),
        ("a?a?a?a", False),
        ("([)]a)+", False),
    ],
)
def test_a_pattern_of_a_stranger_is_searched_only_where_that_cannot_take_long(pattern: str, is_searched: bool) -> None:
    writer = closed(**{"a" * 40 + "!": TEXT})
    reader = {"type": "object", "patternProperties": {pattern: WHOLE}}
    [*why] = KINDS[JSON].problems(WholeSchema(json.dumps(reader)), WholeSchema(json.dumps(writer)))
    assert any("may take long" in each for each in why) is not is_searched
    reader = {"type": "string", "pattern": pattern}
    writer = {"enum": ["a" * 40 + "!"]}
    [*why] = KINDS[JSON].problems(WholeSchema(json.dumps(reader)), WholeSchema(json.dumps(writer)))
    assert any("may take long" in each for each in why) is not is_searched


@pytest.mark.parametrize(
    ("reader", "writer", "can_read"),
    [
        (record(AMOUNT, CITY), record(AMOUNT), True),
        (record(AMOUNT), record(AMOUNT, CITY), True),
        (record(AMOUNT, {"name": "city", "type": "string"}), record(AMOUNT), False),
        (record(WIDE), record(AMOUNT), True),
        (record(AMOUNT), record(WIDE), False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "E", "symbols": ["A", "B"]}, False),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["A"]}, True),
        (["null", "string"], "string", True),
        ("string", ["null", "string"], False),
    ],
)
def test_avro_is_read_as_its_schema_resolution_says(reader: Any, writer: Any, can_read: bool) -> None:
    assert reads(AVRO, reader, writer) is can_read


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TREE = {"$ref": "#/$defs/tree", "$defs": {"tree": closed(name=TEXT, under={"type": "array", "items": {"$ref": "#"}})}}
TREE_OF_NUMBERS = {
    "$ref": "#/$defs/tree",
    "$defs": {"tree": closed(name=WHOLE, under={"type": "array", "items": {"$ref": "#"}})},
}


@pytest.mark.parametrize(
    ("reader", "writer", "can_read"),
    [
        (closed(a=TEXT, b=TEXT), closed(a=TEXT), True),
        (closed(a=TEXT), closed(a=TEXT, b=TEXT), False),
        (
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
            {"type": "object", "properties": {"a": TEXT}},
            False,
        ),
        ({"type": "object", "properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT, "b": TEXT}}, True),
        ({**closed(a=TEXT), "required": ["a"]}, closed(a=TEXT), False),
        ({**closed(a={**TEXT, "default": "x"}), "required": ["a"]}, closed(a=TEXT), True),
        ({"type": ["string", "null"]}, TEXT, True),
        (TEXT, {"type": ["string", "null"]}, False),
        ({"type": "number"}, WHOLE, True),
        (WHOLE, {"type": "number"}, False),
        ({"anyOf": [TEXT, WHOLE]}, {"type": ["integer", "string"]}, True),
        ({"anyOf": [TEXT, WHOLE]}, {"oneOf": [WHOLE, TEXT]}, True),
        (TEXT, {"oneOf": [WHOLE, TEXT]}, False),
        ({"enum": ["a", "b"]}, {"const": "a"}, True),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, False),
        ({**TEXT, "maxLength": 2}, {"enum": ["ab"]}, True),
        ({**TEXT, "maxLength": 2}, {**TEXT, "maxLength": 3}, False),
        ({**TEXT, "maxLength": 3}, {**TEXT, "maxLength": 2}, True),
        (TEXT, {**TEXT, "pattern": "a"}, True),
        ({**TEXT, "pattern": "b"}, {**TEXT, "pattern": "a"}, False),
        ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": WHOLE}, True),
        ({"type": "array", "items": WHOLE}, {"type": "array", "prefixItems": [WHOLE]}, False),
        (closed(a=WHOLE), {"allOf": [closed(a={"type": "number"}), {"properties": {"a": WHOLE}}]}, True),
        (closed(a={"type": "number"}), {"allOf": [closed(a=WHOLE), {"required": ["a"]}]}, True),
        (TREE, TREE, True),
        (TREE, TREE_OF_NUMBERS, False),
        ({"not": TEXT}, {"not": {"type": ["string", "null"]}}, True),
        ({"not": {"type": ["string", "null"]}}, {"not": TEXT}, False),
        ({"type": "number", "multipleOf": 0.1}, {"type": "number", "multipleOf": 0.5}, True),
        ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 3}, False),
        (
            {"unevaluatedProperties": False, "properties": {"a": TEXT}},
            {"unevaluatedProperties": False, "properties": {"b": TEXT}},
            False,
        ),
        (True, TEXT, True),
        (False, TEXT, False),
        (TEXT, False, True),
    ],
)
def test_json_is_read_where_all_that_may_be_written_may_be_read(reader: Any, writer: Any, can_read: bool) -> None:
    assert reads(JSON, reader, writer) is can_read


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "bb", 0.5])),
    lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(st.sampled_from("ab"), inside, max_size=2)),
    max_leaves=4,
)
TYPE_NAMES = ("array", "boolean", "integer", "null", "number", "object", "string")


def with_keywords(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords = {
        "type": st.one_of(st.sampled_from(TYPE_NAMES), st.lists(st.sampled_from(TYPE_NAMES), min_size=1, unique=True)),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "maxLength": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "pattern": st.sampled_from(["a", "b"]),
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "properties": st.dictionaries(st.sampled_from("ab"), inside, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inside, max_size=1),
        "additionalProperties": inside,
        "items": inside,
        "prefixItems": st.lists(inside, min_size=1, max_size=2),
        "anyOf": st.lists(inside, min_size=1, max_size=2),
        "allOf": st.lists(inside, min_size=1, max_size=2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "unevaluatedProperties": inside,
        "not": inside,
    }
    return st.one_of(
        *(st.fixed_dictionaries({name: strategy}) for name, strategy in keywords.items()),
        st.fixed_dictionaries({}, optional=keywords),
    )


SCHEMAS = st.recursive(st.one_of(st.just({}), st.booleans()), with_keywords, max_leaves=4)


@given(reader=SCHEMAS, writer=SCHEMAS, document=VALUES)
def test_what_a_writer_may_write_a_reader_that_can_read_it_allows(reader: Any, writer: Any, document: Any) -> None:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    reader, writer = ({"$schema": dialect, **one} if isinstance(one, dict) else one for one in (reader, writer))
    if reads(JSON, reader, writer) and Draft202012Validator(writer).is_valid(document):
        assert Draft202012Validator(reader).is_valid(document)


@given(schema=SCHEMAS)
def test_every_json_schema_reads_what_it_writes(schema: Any) -> None:
    assert reads(JSON, schema, schema)


@pytest.mark.parametrize("keyword", [{"prefixItems": ["int"]}, {"prefixItems": {"minimum": "a"}}])
def test_a_keyword_of_a_later_draft_says_nothing(keyword: Any) -> None:
    """The meta-schema of draft 7 permits anything in `prefixItems`, which came with draft 2020-12."""
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array"}
    assert reads(JSON, {**draft_7, **keyword}, draft_7)


def proto(*lines: str) -> str:
    return f'syntax = "proto3"; package shop; message Order {{ {" ".join(lines)} }}'


@pytest.mark.parametrize(
    ("reader", "writer", "can_read"),
    [
        (proto("int32 a = 1; string b = 2;"), proto("int32 a = 1;"), True),
        (proto("int32 a = 1;"), proto("int32 a = 1; string b = 2;"), True),
        (proto("int64 other_name = 1;"), proto("bool a = 1;"), True),
        (proto("sint32 a = 1;"), proto("int32 a = 1;"), False),
        (proto("repeated string a = 1;"), proto("bytes a = 1;"), True),
        (proto("repeated int32 a = 1;"), proto("int32 a = 1;"), False),
        (proto("map<string, int64> a = 1;"), proto("map<string, int32> a = 1;"), True),
        (proto("map<string, double> a = 1;"), proto("map<string, int32> a = 1;"), False),
        (proto("message B {} B a = 1;"), proto("message B {} message C {} C a = 1;"), False),
        (proto("oneof o { int32 a = 1; int32 b = 2; }"), proto("int32 a = 1; int32 b = 2;"), False),
        (proto("oneof o { int32 a = 1; int32 c = 3; }"), proto("int32 a = 1;"), True),
        (proto("oneof o { int32 a = 1; }"), proto("oneof o { int32 a = 1; int32 b = 2; }"), False),
        (proto("int32 a = 1;").replace("shop", "other"), proto("int32 a = 1;"), False),
        (proto("int32 a = 1;").replace("Order", "Other"), proto("int32 a = 1;"), False),
        (
            'syntax = "proto2"; message A { required int32 a = 1; }',
            'syntax = "proto2"; message A { optional int32 b = 2; }',
            False,
        ),
    ],
)
def test_protobuf_is_read_as_its_rules_for_updated_messages_say(reader: str, writer: str, can_read: bool) -> None:
    assert reads(PROTOBUF, reader, writer) is can_read


IMPORTING = (
    'syntax = "proto3"; package shop; import "line.proto"; import "item.proto";'
    "message Order { repeated Line lines = 1; map<string, Line> named = 2; }"
)
LINE = 'syntax = "proto3"; package shop; import "item.proto"; message Line { Item item = 1; } message Unused {}'
ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; Item parent = 2; enum E { A = 0; } }'


def importing(line: str = LINE, item: str = ITEM) -> WholeSchema:
    return WholeSchema(IMPORTING, (("item.proto", item), ("line.proto", line)))


@pytest.mark.parametrize(
    ("reader", "found"),
    [
        (importing(), []),
        (importing(item=ITEM.replace("string name = 1", "bytes other = 1; int32 more = 3")), []),
        (importing(line=LINE.replace("message Unused {}", "")), []),
        (
            importing(item=ITEM.replace("string name = 1", "int32 name = 1")),
            ["shop.Item, field 1: its type was string and is int32"],
        ),
        (
            importing(line=LINE.replace("Item item = 1", "string item = 1")),
            ["shop.Line, field 1: its type was .shop.Item and is string"],
        ),
        (WholeSchema(IMPORTING.replace("1; map<string, Line>", "1; map<string, bytes>"), importing().references), None),
        (
            WholeSchema('syntax = "proto3"; package shop; message Order { } message Item { int32 name = 1; }'),
            [],
        ),
    ],
)
def test_protobuf_is_compared_with_what_it_imports_and_uses(reader: WholeSchema, found: list[str] | None) -> None:
    problems = KINDS[PROTOBUF].problems(reader, importing())
    assert problems == found if found is not None else problems


def test_a_message_that_comes_from_an_import_now_is_compared() -> None:
    whole = f"{ITEM} message Line {{ Item item = 1; }} message Order {{ repeated Line lines = 1; }}"
    moved = WholeSchema(
        f'{whole.split("message Item")[0]} import "item.proto"; message Line {{ Item item = 1; }}'
        " message Order { repeated Line lines = 1; }",
        (("item.proto", ITEM.replace("string", "int32")),),
    )
    assert "shop.Item, field 1: its type was string and is int32" in KINDS[PROTOBUF].problems(moved, WholeSchema(whole))


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (AVRO, "{", "is no Avro schema"),
        (AVRO, '{"type": "nothing"}', "is no Avro schema"),
        (JSON, '{"type": "nothing"}', "is no JSON Schema"),
        (JSON, '{"$ref": "other.json"}', r"its \$ref other.json leads nowhere"),
        (JSON, '"text"', "an object, true or false"),
        (JSON, '{"$schema": {}}', "is no JSON Schema"),
        (JSON, '{"$schema": 1}', "is no JSON Schema"),
        (PROTOBUF, "message {", "does not compile: .*Expected message name"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(kind: str, text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        KINDS[kind].kept(WholeSchema(text))
