"""Statements that only look: what they answer of the catalog, the session and the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import apply, decide
from moldau.products.sql.engine.answers import Answer, Described, Explained, FunctionDescribed, Listing, QueryStatus
from moldau.products.sql.engine.looking.cluster import Topic
from moldau.products.sql.engine.looking.looking import look, only_looks
from moldau.products.sql.engine.looking.pictures import picture_of
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.parser.script import parse_script

SCRIPT = """
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic='c', key_format='JSON');
CREATE SOURCE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (value_format='AVRO', partitions=3);
CREATE TABLE pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page;
CREATE VIEW big AS SELECT * FROM clicks WHERE page > 'm';
CREATE TYPE point AS STRUCT<x INT, y INT>;
CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2;
"""
QUERY = "CTAS_PAGES_0"


class OneCluster:
    """A cluster with three topics and one subject. Each pause makes another topic."""

    def __init__(self) -> None:
        self.found = {name: Topic(name, 3, 1, name.startswith("__")) for name in ("__offsets", "c", "users")}
        self.now_ms = 0

    def topics(self) -> Mapping[str, Topic]:
        return self.found

    def settings(self, topic: str) -> Mapping[str, str]:
        return {"cleanup.policy": "compact", "retention.ms": "1000", "segment.bytes": "5"}

    def ranges(self, topics: Sequence[Topic]) -> Mapping[str, Sequence[tuple[int, int]]]:
        return {one.name: [(5, 10), (0, 7)] for one in topics}

    def has_schema(self, subject: str | None, schema_id: int | None) -> bool:
        return subject in (None, "c-value") and schema_id in (None, 4)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def pause(self, length_ms: int) -> None:
        self.now_ms += length_ms
        self.found["late"] = Topic("late", 1, 1)


class Looker:
    def __init__(self) -> None:
        self.catalog = Catalog()
        for parsed in parse_script(SCRIPT):
            for change in decide(self.catalog, parsed, {}).changes:
                self.catalog = apply(self.catalog, change)
        self.session, self.cluster = Session(), OneCluster()
        running = QueryStatus(query=self.catalog.queries[QUERY], state="running", records_read=1234, lag=7)
        self.statuses = [running]

    def look(self, text: str) -> Answer:
        (parsed,) = parse_script(text, self.session.variables)
        assert only_looks(parsed.statement)
        return look(self.catalog, self.session, self.statuses, self.cluster, parsed)

    def rows(self, text: str) -> list[tuple[str, ...]]:
        listing = self.look(text)
        assert isinstance(listing, Listing)
        assert len(listing.items) == len(listing.rows)
        assert {len(listing.columns)} >= {len(row) for row in listing.rows}
        return list(listing.rows)


@pytest.fixture
def looker() -> Looker:
    return Looker()


def test_show_lists_what_the_catalog_has(looker: Looker):
    assert looker.rows("SHOW STREAMS") == [("clicks", "c", "JSON", "JSON", "a topic")]
    tables = looker.rows("LIST TABLES EXTENDED")
    assert [row[0] for row in tables] == ["pages", "users"]
    assert tables[0][5:] == ("?", "", QUERY), "its columns are known when its query runs"
    assert tables[1][5:] == ("id string, name string", "", "")
    assert looker.rows("SHOW STREAMS EXTENDED")[0][6] == QUERY
    assert looker.rows("SHOW VIEWS") == [("big", "clicks")]
    assert looker.rows("SHOW VIEWS EXTENDED")[0][2] == "CREATE VIEW big AS SELECT * FROM clicks WHERE page > 'm'"
    assert looker.rows("SHOW TYPES") == [("point", looker.catalog.types["point"])]
    functions = looker.rows("SHOW FUNCTIONS")
    assert functions[0] == ("twice", "own", "")
    assert len(functions) == 1 + len(FUNCTIONS)


def test_show_queries_has_how_they_run(looker: Looker):
    assert looker.rows("SHOW QUERIES") == [(QUERY, "running", "pages", "1,234", "0", "7", "")]
    assert looker.rows("SHOW QUERIES EXTENDED")[0][7] == "clicks"
    looker.statuses = []
    assert looker.rows("SHOW QUERIES")[0][1] == "stopped", "a query that was just made"


def test_show_topics_leaves_internal_ones_out(looker: Looker):
    assert looker.rows("SHOW TOPICS") == [("c", "3", "1", "clicks"), ("users", "3", "1", "users")]
    assert [row[0] for row in looker.rows("SHOW ALL TOPICS")] == ["__offsets", "c", "users"]
    assert looker.rows("SHOW TOPICS EXTENDED")[0] == ("c", "3", "1", "clicks", "12")


def test_set_and_define_change_the_session(looker: Looker):
    looker.look("SET 'sql.dialect' = 'KSQL'")
    looker.look("SET 'ksql.streams.auto.offset.reset' = 'latest'")
    assert (looker.session.dialect.value, looker.session.start) == ("ksql", "latest")
    assert looker.rows("SHOW PROPERTIES")[0][:3] == ("auto.offset.reset", "latest", "earliest")
    looker.look("UNSET 'auto.offset.reset'")
    assert looker.session.start == "earliest"
    looker.look("DEFINE Place = 'here'")
    assert looker.rows("SHOW VARIABLES") == [("place", "here")]
    looker.look("UNDEFINE place")
    assert looker.rows("SHOW VARIABLES") == []
    for text, problem in (
        ("SET 'sql.dialct' = 'ksql'", "there is no property sql.dialct; .*did you mean sql.dialect"),
        ("SET 'sql.dialect' = 'sprak'", "spark or ksql, not 'sprak'; did you mean spark"),
        ("UNDEFINE place", "not defined"),
    ):
        with pytest.raises(SqlError, match=problem):
            looker.look(text)


def test_a_property_of_ksqldb_without_a_meaning_here_says_why(looker: Looker):
    answer = looker.look("SET 'processing.guarantee' = 'exactly_once_v2'")
    assert "every query writes exactly once" in answer.warnings[0]
    assert looker.session.properties == {}


def test_describe_has_columns_queries_and_the_topic(looker: Looker):
    plain = looker.look("DESCRIBE CLICKS")
    assert isinstance(plain, Described)
    assert (plain.relation.name, plain.topic) == ("clicks", ())
    assert [one.query.id for one in plain.readers] == [QUERY]
    extended = looker.look("DESCRIBE clicks EXTENDED")
    assert isinstance(extended, Described)
    assert dict(extended.topic) == {
        "partitions": "3",
        "replicas": "1",
        "offsets that are kept": "12",
        "partitions without a leader": "1",
        "cleanup.policy": "compact",
        "retention.ms": "1000",
    }
    missing = looker.look("DESCRIBE pages EXTENDED")
    assert isinstance(missing, Described)
    assert missing.topic == (("topic", "pages does not exist"),)
    view = looker.look("DESCRIBE big")
    assert isinstance(view, Explained)
    assert view.reads == ("clicks",)
    with pytest.raises(SqlError, match="did you mean clicks"):
        looker.look("DESCRIBE cliks")


def test_each_function_is_described(looker: Looker):
    for name, row in FUNCTIONS.items():
        answer = looker.look(f"DESCRIBE FUNCTION `{name}`")
        assert isinstance(answer, FunctionDescribed)
        assert bool(answer.template) is not row.is_same
    own = looker.look("DESCRIBE FUNCTION Twice")
    assert isinstance(own, FunctionDescribed)
    assert (own.usage, own.template) == ("twice(x int) RETURNS int", "x * 2")
    with pytest.raises(SqlError, match="did you mean SUBSTRING"):
        looker.look("DESCRIBE FUNCTION substing")


@pytest.mark.parametrize(
    "text",
    [
        "ASSERT TOPIC c",
        "ASSERT TOPIC c WITH (partitions = 3, replicas = 1, cleanup_policy = 'compact', retention.ms = 1000)",
        "ASSERT TOPIC late TIMEOUT 10 SECONDS",
        "ASSERT NOT EXISTS TOPIC nothing",
        "ASSERT SCHEMA SUBJECT 'c-value'",
        "ASSERT SCHEMA SUBJECT 'c-value' ID 4",
        "ASSERT NOT EXISTS SCHEMA ID 5",
        "ASSERT STREAM clicks",
        "ASSERT STREAM clicks (page STRING, user STRING KEY) WITH (kafka_topic = 'c', value_format = 'JSON')",
        "ASSERT TABLE users WITH (value_format = 'AVRO', partitions = 3)",
    ],
)
def test_what_holds_is_asserted(looker: Looker, text: str):
    looker.look(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ASSERT TOPIC nothing", "there is no topic nothing"),
        ("ASSERT TOPIC c WITH (partitions = 4)", "has partitions = 3, not 4"),
        ("ASSERT TOPIC c WITH (partitons = 4)", "did you mean partitions"),
        ("ASSERT NOT EXISTS TOPIC c TIMEOUT 10 SECONDS", "the topic c exists"),
        ("ASSERT TOPIC c TIMEOUT 1 DAY", "at most 60 SECONDS"),
        ("ASSERT SCHEMA SUBJECT 'c-value' ID 5", "no schema with the subject c-value and the id 5"),
        ("ASSERT NOT EXISTS SCHEMA ID 4", "there is a schema with the id 4"),
        ("ASSERT STREAM click", "no stream click; did you mean clicks"),
        ("ASSERT TABLE clicks", "clicks is a stream"),
        ("ASSERT STREAM clicks (user STRING, page STRING)", "user string KEY, not user string"),
        ("ASSERT STREAM clicks (user STRING KEY)", "has the column page string too"),
        ("ASSERT STREAM clicks (user STRING KEY, pag STRING)", "no column pag; did you mean page"),
        ("ASSERT STREAM clicks WITH (format = 'AVRO')", "has key_format = json, not avro"),
        ("ASSERT TABLE users WITH (partitions = 4)", "partitions = 3, not 4"),
        ("ASSERT TABLE pages (page STRING PRIMARY KEY)", "not known yet"),
    ],
)
def test_what_does_not_hold_says_the_difference(looker: Looker, text: str, problem: str):
    with pytest.raises(SqlError, match=problem):
        looker.look(text)
    assert looker.cluster.now_ms <= 10_000


def test_a_plan_is_drawn_from_topic_to_topic():
    answer = Explained(reads=("clicks",), steps=("read clicks", "keep rows where page > 'm'", "x " * 100), writes="p")
    lines = picture_of(answer)
    assert "│ read clicks" in lines[1]
    assert "writes p" in lines[-2]
    assert lines.count(lines[3]) == 3, "an arrow between two boxes"
    assert len({len(line) for line in lines if line[0] in "┌│└"}) == 1, "the boxes have one width"
    assert picture_of(Explained()) == []
