"""The stored form of what statements change."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.products.sql.catalog.catalog import (
    AnyItem,
    Catalog,
    Function,
    NamedType,
    PersistentQuery,
    Relation,
    View,
    What,
)
from moldau.products.sql.catalog.deciding import Change, NextNumber, Put, Remove, apply, decide
from moldau.products.sql.catalog.journal import StoredChangeError, read_change, stored_change
from moldau.products.sql.language.parser.script import parse_script

SCRIPT = """
CREATE TYPE address AS STRUCT<street STRING, zip INT>;
CREATE STREAM clicks (`user name` STRING KEY, page STRING, at TIMESTAMP, home address, h BYTES HEADER('h'))
    WITH (kafka_topic='c', timestamp='at', partitions=3);
CREATE SOURCE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (value_format='AVRO');
CREATE VIEW both AS SELECT c.page, CAST(c.home AS address) AS home FROM clicks c JOIN users u ON c.`user name` = u.id;
CREATE FUNCTION plus(a INT) RETURNS INT RETURN a + 1;
CREATE TABLE pages WITH (key_format='JSON') AS SELECT page, count(*) AS n FROM both GROUP BY page EMIT CHANGES;
CREATE STREAM copies AS SELECT * FROM clicks;
INSERT INTO copies SELECT * FROM clicks WHERE page = 'ä/"\\n';
PAUSE ALL;
RESUME INSERTQUERY_COPIES_0;
CREATE OR REPLACE TABLE pages AS SELECT page, max(at) AS last FROM both GROUP BY page;
TERMINATE CSAS_COPIES_0;
DROP FUNCTION plus;
CREATE FUNCTION `Plus` (home address) RETURN home.zip;
DROP TABLE pages;
DROP VIEW both;
DROP TYPE address;
"""
PROPERTIES = {"sql.dialect": "ksql", "auto.offset.reset": "latest", "commit.interval.ms": "2000"}


def changes_of(script: str) -> list[tuple[str, list[Change], Catalog]]:
    """Each statement, its changes, and the catalog after it."""
    catalog, found = Catalog(), []
    for parsed in parse_script(script):
        changes = decide(catalog, parsed, PROPERTIES).changes
        for change in changes:
            catalog = apply(catalog, change)
        found.append((parsed.text, list(changes), catalog))
    return found


def test_the_changes_of_each_statement_are_read_as_they_were_stored():
    for text, changes, _ in changes_of(SCRIPT):
        assert changes, text
        for change in changes:
            assert read_change(*stored_change(change)) == change, text


def test_a_compacted_topic_gives_the_catalog_after_each_statement():
    topic: dict[bytes, bytes | None] = {}
    for text, changes, expected in changes_of(SCRIPT):
        for key, value in map(stored_change, changes):
            topic.pop(key, None)  # compaction keeps the newest record, at its own offset
            topic[key] = value
        catalog = Catalog()
        for key, value in topic.items():
            catalog = apply(catalog, read_change(key, value))
        assert catalog == expected, text


def test_a_statement_keeps_what_gave_it_its_meaning():
    by_text = {text: changes for text, changes, _ in changes_of(SCRIPT)}
    kept = {"sql.dialect": "ksql", "auto.offset.reset": "latest"}
    for text, changes in by_text.items():
        for change in changes:
            properties = getattr(getattr(change, "item", None), "properties", kept)
            assert properties == kept, text
    ((view,),) = [changes for text, changes in by_text.items() if text.startswith("CREATE VIEW")]
    assert view.item.types == {"address": "struct<street:string,zip:int>"}
    assert view.item.reads == {"clicks", "users"}
    again = parse_script(view.item.statement, types=view.item.types, substitutes=False)
    assert [one.text for one in again] == [view.item.statement]


TEXTS = st.dictionaries(st.text(), st.text())
ITEMS = st.one_of(
    st.from_type(Relation),
    st.from_type(NamedType),
    *(st.builds(item, properties=TEXTS, types=TEXTS) for item in (View, Function, PersistentQuery)),
)


@given(ITEMS)
def test_any_item_is_read_as_it_was_stored(item: AnyItem):
    assert read_change(*stored_change(Put(item))) == Put(item)


@given(st.sampled_from(What), st.text())
def test_any_removal_is_read_as_it_was_stored(what: What, key: str):
    assert read_change(*stored_change(Remove(what, key))) == Remove(what, key)


KEY, VALUE = stored_change(changes_of("CREATE TYPE t AS INT")[0][1][0])
REFUSED = [
    (KEY, VALUE.replace(b'"version":1', b'"version":2'), "version 2, and this release of Moldau reads version 1"),
    (KEY, VALUE.replace(b'"version":1,', b""), "missing required field `version`"),
    (KEY, VALUE.replace(b'"name"', b'"color":1,"name"'), "unknown field `color`"),
    (KEY, VALUE.replace(b'"version":1', b'"version":1,"more":1'), "unknown field `more`"),
    (KEY, VALUE.replace(b'"what":"type"', b'"what":"color"'), "Invalid value 'color'"),
    (KEY, VALUE[:-1], "truncated"),
    (KEY, b"\xff", "malformed"),
    (KEY, b'{"version":' + b"[" * 100_000, "Expected `int`"),
    (b"type/other", VALUE, "does not belong to its key"),
    (KEY, stored_change(NextNumber(3))[1], "does not belong to its key"),
    (b"color/t", None, "'color' is not a valid What"),
    (b"type", None, "names no item"),
    (KEY, VALUE[:-2] + b',"x":' + b"[" * 100_000, "recursion"),
    (b"\xff/t", None, "can't decode"),
]


@pytest.mark.parametrize(("key", "value", "problem"), REFUSED)
def test_a_record_of_a_later_version_or_a_damaged_one_is_refused(key: bytes, value: bytes | None, problem: str):
    with pytest.raises(StoredChangeError, match="the stored statement") as raised:
        read_change(key, value)
    assert problem in str(raised.value)


def test_the_stored_form_of_version_1_stays_as_it_is():
    assert msgspec.json.decode(VALUE) == {"version": 1, "item": {"what": "type", "name": "t", "type": "int"}}
    assert (KEY, stored_change(NextNumber(7))) == (b"type/t", (b"next_number", b'{"version":1,"number":7}'))
