"""What statements change of the catalog."""

from __future__ import annotations

import pytest

from moldau.products.sql.catalog.catalog import Catalog, QueryState
from moldau.products.sql.catalog.deciding import MAX_QUERIES, Decision, TopicDeleted, TopicNeeded, apply, decide
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import parse_script

CLICKS = "CREATE STREAM clicks (user STRING KEY, page STRING, at TIMESTAMP) WITH (kafka_topic='c', timestamp='at')"
USERS = "CREATE SOURCE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (value_format='AVRO', partitions=3)"
PAGES = "CREATE TABLE pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page"


def run(script: str, catalog: Catalog | None = None) -> tuple[Catalog, list[Decision]]:
    """The catalog after a script, and each decision."""
    catalog, decisions = catalog or Catalog(), []
    for parsed in parse_script(script):
        decisions.append(decide(catalog, parsed, {}))
        for change in decisions[-1].changes:
            catalog = apply(catalog, change)
    return catalog, decisions


def test_a_declared_stream_has_its_topic_formats_and_columns():
    catalog, (clicks, users) = run(f"{CLICKS}; {USERS}")
    relation = catalog.relations["clicks"]
    assert (relation.topic, relation.storage.value_format, relation.storage.timestamp) == ("c", "json", "at")
    assert [column.name.text for column in relation.columns] == ["user", "page", "at"]
    assert clicks.outside == (TopicNeeded(relation.storage, "c", is_made=False, is_compacted=False),)
    table = catalog.relations["users"]
    assert (table.topic, table.is_read_only, table.storage.value_format) == ("users", True, "avro")
    assert users.outside == (TopicNeeded(table.storage, "users", is_made=True, is_compacted=True),)
    assert clicks.message == "stream clicks is created"


def test_a_query_that_makes_a_table_knows_what_it_reads_through_views():
    view = "CREATE VIEW big AS WITH x AS (SELECT * FROM clicks) SELECT * FROM x JOIN users u ON x.user = u.id"
    catalog, decisions = run(f"{CLICKS}; {USERS}; {view}; CREATE STREAM out AS SELECT * FROM big PARTITION BY a, b")
    query = catalog.queries["CSAS_OUT_0"]
    assert (query.sink, query.reads, query.state) == ("out", {"clicks", "users"}, QueryState.RUNNING)
    assert catalog.relations["out"].made_by == "CSAS_OUT_0"
    assert decisions[-1].message == "stream out is made by the query CSAS_OUT_0"
    assert catalog.relations["out"].storage.value_format == "json", "its sources do not agree"
    catalog, _ = run("CREATE STREAM again AS SELECT * FROM STREAM(users)", catalog)
    assert catalog.relations["again"].storage.value_format == "avro"
    assert catalog.queries["CSAS_AGAIN_0"].reads == {"users"}


def test_an_id_is_used_once_and_a_replaced_query_keeps_its_own():
    catalog, _ = run(f"{CLICKS}; {PAGES}; TERMINATE CTAS_PAGES_0; DROP TABLE pages; {PAGES}")
    assert list(catalog.queries) == ["CTAS_PAGES_1"]
    catalog, _ = run(PAGES.replace("CREATE", "CREATE OR REPLACE").replace("count", "max"), catalog)
    assert list(catalog.queries) == ["CTAS_PAGES_1"]
    assert "max(" in catalog.queries["CTAS_PAGES_1"].statement


def test_an_edited_script_gives_the_queries_that_stayed_the_same_ids():
    """Their checkpoints are found by them."""
    inserts = "; ".join(f"INSERT INTO out SELECT * FROM {name}" for name in ("clicks", "users"))
    out = "CREATE STREAM out AS SELECT * FROM clicks"
    first, _ = run(f"{CLICKS}; {USERS}; {out}; {PAGES}; {inserts}")
    edited, _ = run(f"{CLICKS}; {USERS}; CREATE STREAM other AS SELECT * FROM clicks; {PAGES}; {out}; {inserts}")
    assert set(edited.queries) - set(first.queries) == {"CSAS_OTHER_0"}
    assert all(edited.queries[id] == query for id, query in first.queries.items())


def test_ids_of_ended_queries_are_not_used_again_in_any_order():
    insert = "INSERT INTO out SELECT * FROM clicks"
    catalog, _ = run(f"{CLICKS}; {CLICKS.replace('clicks', 'out')}; {insert}; {insert}; {insert}")
    assert list(catalog.queries) == [f"INSERTQUERY_OUT_{number}" for number in range(3)]
    catalog, _ = run(f"TERMINATE INSERTQUERY_OUT_2; {insert}; TERMINATE INSERTQUERY_OUT_0; {insert}", catalog)
    assert list(catalog.queries) == ["INSERTQUERY_OUT_1", "INSERTQUERY_OUT_3", "INSERTQUERY_OUT_4"]
    catalog, _ = run(f"TERMINATE ALL; {insert}", catalog)
    assert list(catalog.queries) == ["INSERTQUERY_OUT_5"]


def test_queries_are_paused_resumed_and_terminated_by_id_or_all():
    catalog, _ = run(
        f"{CLICKS}; {PAGES}; INSERT INTO clicks SELECT * FROM clicks2", run(CLICKS.replace("clicks", "clicks2"))[0]
    )
    assert list(catalog.queries) == ["CTAS_PAGES_0", "INSERTQUERY_CLICKS_0"]
    catalog, (paused,) = run("PAUSE ctas_pages_0", catalog)
    assert catalog.queries["CTAS_PAGES_0"].state is QueryState.PAUSED
    assert paused.message == "CTAS_PAGES_0: paused"
    catalog, _ = run("RESUME ALL", catalog)
    assert {query.state for query in catalog.queries.values()} == {QueryState.RUNNING}
    catalog, _ = run("TERMINATE ALL", catalog)
    assert catalog.queries == {}
    assert "pages" in catalog.relations


def test_a_dropped_table_takes_its_own_query_along():
    catalog, decisions = run(f"{CLICKS}; {PAGES}; DROP TABLE pages DELETE TOPIC")
    assert (list(catalog.relations), catalog.queries) == (["clicks"], {})
    assert decisions[-1].outside == (TopicDeleted("pages"),)


def test_what_is_there_already_is_left_or_refused():
    script = f"{CLICKS}; CREATE TYPE t AS INT; CREATE VIEW v AS SELECT * FROM clicks; CREATE FUNCTION f() RETURN 1;"
    catalog, _ = run(script)
    again = script.replace("VIEW v", "VIEW IF NOT EXISTS v").replace("TYPE t", "TYPE IF NOT EXISTS t")
    again = again.replace("STREAM clicks", "STREAM IF NOT EXISTS clicks").replace(
        "FUNCTION f", "FUNCTION IF NOT EXISTS f"
    )
    after, decisions = run(again, catalog)
    assert after == catalog
    assert [decision.message for decision in decisions] == [
        f"{name} exists already" for name in ("clicks", "t", "v", "f")
    ]
    gone = "DROP FUNCTION f; DROP VIEW v; DROP TYPE t; DROP STREAM clicks; DROP STREAM IF EXISTS clicks"
    assert run(gone, catalog)[0] == Catalog()


ERRORS = [
    ("CREATE STREAM a AS SELECT * FROM clics", 1, 34, "no stream, table or view clics; did you mean clicks?"),
    ("CREATE STREAM clicks WITH (kafka_topic='x')", 1, 15, "a stream clicks already: use OR REPLACE"),
    ("CREATE TABLE clicks (a INT PRIMARY KEY) WITH (kafka_topic='x')", 1, 14, "a stream clicks already"),
    ("CREATE OR REPLACE TABLE clicks (a INT PRIMARY KEY) WITH (value_format='JSON')", 1, 25, "which no table replaces"),
    ("CREATE STREAM a (b INT) WITH (topic='x')", 1, 31, "`topic` is no property"),
    ("CREATE STREAM a (b INT) WITH (kafka_topik='x')", 1, 31, "did you mean kafka_topic?"),
    ("CREATE STREAM a (b INT) WITH (value_format='jsn')", 1, 31, "did you mean JSON?"),
    ("CREATE STREAM a (b INT) WITH (value_format=3)", 1, 31, "`value_format` is a text"),
    ("CREATE STREAM a (b INT) WITH (partitions=0)", 1, 31, "a whole number from 1 to"),
    ("CREATE STREAM a (b INT) WITH (window_size='1 HOUR')", 1, 31, "columns WINDOWSTART and WINDOWEND"),
    ("CREATE STREAM a (b INT) WITH (format='JSON', key_format='JSON')", 1, 46, "leave out `key_format`"),
    ("CREATE STREAM a (b INT) WITH (value_format='NONE')", 1, 31, "a value has a format"),
    ("CREATE STREAM a (b INT) WITH (timestamp_format='yyyy')", 1, 31, "name it"),
    ("CREATE STREAM a (bat INT) WITH (timestamp='bet')", 1, 15, "which is no column; did you mean bat?"),
    ("CREATE STREAM a (k INT KEY) WITH (key_format='NONE')", 1, 18, "k is a key, and `key_format` is NONE"),
    ("CREATE OR REPLACE STREAM clicks AS SELECT * FROM users", 1, 26, "no query makes it"),
    ("CREATE OR REPLACE TABLE pages AS SELECT * FROM pages", 1, 25, "pages reads itself"),
    ("CREATE OR REPLACE TABLE pages (a INT PRIMARY KEY) WITH (value_format='JSON')", 1, 25, "by CREATE ... AS"),
    ("INSERT INTO clicks SELECT * FROM clicks", 1, 13, "its own rows again"),
    ("INSERT INTO clicks SELECT * FROM pages", 1, 13, "its own rows again"),
    ("INSERT INTO users VALUES ('a', 'b')", 1, 13, "only read"),
    ("INSERT INTO clicks (user, pge) VALUES ('a', 'b')", 1, 27, "no column pge; did you mean page?"),
    ("INSERT INTO clicks VALUES ('a', 'b')", 1, 28, "a row has 2 values for 3 columns"),
    ("INSERT INTO nothing VALUES (1)", 1, 13, "no stream, table or view nothing"),
    ("DROP TABLE clicks", 1, 12, "clicks is a stream: DROP STREAM"),
    ("DROP STREAM clicks", 1, 13, "used by CTAS_PAGES_0: TERMINATE first"),
    ("DROP TABLE users", 1, 12, "the view v reads users"),
    ("DROP STREAM klicks", 1, 13, "did you mean clicks?"),
    ("DROP VIEW w", 1, 11, "no view w"),
    ("DROP TYPE addres", 1, 11, "no type addres; did you mean address?"),
    ("CREATE TYPE address AS INT", 1, 13, "a type address already"),
    ("CREATE VIEW pages AS SELECT * FROM clicks", 1, 13, "a table pages already"),
    ("CREATE OR REPLACE VIEW v AS SELECT * FROM v", 1, 24, "v reads itself"),
    ("CREATE VIEW w AS SELECT * FROM v; CREATE OR REPLACE VIEW v AS SELECT * FROM w", 1, 58, "v reads itself"),
    ("TERMINATE ctas_page_0", 1, 11, "no query has the id ctas_page_0; did you mean CTAS_PAGES_0?"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "line", "column", "problem"), ERRORS)
def test_a_wrong_statement_changes_nothing_and_is_named(statement: str, line: int, column: int, problem: str):
    view = "CREATE VIEW v AS SELECT * FROM users; CREATE TYPE address AS STRUCT<street STRING>"
    catalog, _ = run(f"{CLICKS}; {USERS}; {PAGES}; {view}")
    with pytest.raises(SqlError) as raised:
        run(statement, catalog)
    assert problem in str(raised.value)
    assert (raised.value.line, raised.value.column) == (line, column)


def test_queries_are_bounded():
    catalog, _ = run(CLICKS)
    for number in range(MAX_QUERIES):
        catalog, _ = run(f"CREATE STREAM s{number} AS SELECT * FROM clicks", catalog)
    with pytest.raises(SqlError, match=f"{MAX_QUERIES} queries run already"):
        run("CREATE STREAM more AS SELECT * FROM clicks", catalog)
