"""The registry accepts exactly the defaults of Avro schemas that Apache Avro for Java accepts."""

from __future__ import annotations

import json

import pytest

from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.kinds.kinds import AVRO, KINDS
from moldau.products.registry.core.refusals import SchemaError
from tests.avro_pairs.defaults import DEFAULTS, Default, is_kept


@pytest.mark.parametrize("one", DEFAULTS, ids=lambda one: f"{json.dumps(one.type)[:40]} {json.dumps(one.value)}")
def test_a_default_is_taken_where_it_is_of_its_fields_type(one: Default) -> None:
    assert is_kept(one) is one.is_taken


def test_a_bad_default_is_named_wherever_its_record_stands() -> None:
    inner = {"type": "record", "name": "shop.Line", "fields": [{"name": "n", "type": "int", "default": "7"}]}
    for kind in (["null", inner], {"type": "array", "items": inner}, {"type": "map", "values": inner}):
        schema = {"type": "record", "name": "Order", "fields": [{"name": "lines", "type": kind}]}
        with pytest.raises(SchemaError, match=r"the default '7' of shop\.Line\.n is no int"):
            KINDS[AVRO].kept(WholeSchema(json.dumps(schema)))


def test_a_schema_that_holds_itself_may_have_defaults() -> None:
    text = json.dumps(
        {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"], "default": None}]}
    )
    assert json.loads(KINDS[AVRO].kept(WholeSchema(text))) == json.loads(text)


def test_a_schema_with_a_bad_default_that_is_there_already_is_still_compared() -> None:
    old = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int", "default": "x"}]}
    new = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int", "default": 0}]}
    assert KINDS[AVRO].problems(WholeSchema(json.dumps(new)), WholeSchema(json.dumps(old))) == []
