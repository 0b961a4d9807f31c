"""What a query reads, gives and keeps, decided without Spark."""

from __future__ import annotations

import pytest

from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import apply, decide
from moldau.products.sql.compiling.composed import Composed
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.links import How
from moldau.products.sql.compiling.plan import Asked, QueryPlan, asked_by, plan_query
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.rewrites import Dialect
from moldau.products.sql.language.statements import Kind, RunQuery

DECLARED = """
CREATE STREAM clicks (user STRING KEY, page STRING, ms INT) WITH (kafka_topic = 'clicks');
CREATE STREAM views (id STRING KEY, user STRING) WITH (kafka_topic = 'views');
CREATE TABLE users (id STRING PRIMARY KEY, name STRING, region STRING) WITH (kafka_topic = 'users');
CREATE TABLE orders (oid BIGINT PRIMARY KEY, user STRING, amount INT) WITH (kafka_topic = 'orders');
CREATE TABLE notes (id STRING PRIMARY KEY, text STRING) WITH (kafka_topic = 'notes');
CREATE VIEW fast AS SELECT user, ms FROM clicks WHERE ms < 25;
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = Catalog()
    for parsed in parse_script(DECLARED):
        for change in decide(made, parsed, {}).changes:
            made = apply(made, change)
    return made


def planned(catalog: Catalog, text: str, *, is_live: bool = True) -> tuple[QueryPlan, Writing]:
    (parsed,) = parse_script(text)
    assert isinstance(parsed.statement, RunQuery)
    writing = Writing(text, {}, Dialect.SPARK)
    return plan_query(catalog, Asked(parsed.statement.query, writing), is_live=is_live), writing


def text_of(catalog: Catalog, text: str, *, is_live: bool = True) -> str:
    plan, _ = planned(catalog, text, is_live=is_live)
    assert plan.text is not None
    return plan.text.text.replace("`", "")


def test_a_projection_is_a_stream_with_the_key_of_its_source(catalog: Catalog) -> None:
    plan, _ = planned(catalog, "SELECT page, user AS who FROM clicks c WHERE ms > 3 EMIT CHANGES")
    assert (plan.kind, plan.mode, plan.key, plan.watermark_ms) == (Kind.STREAM, "append", ("who",), None)
    assert [one.name for one in plan.reads] == ["clicks"]
    assert plan.text is not None
    assert plan.text.text.replace("`", "") == (
        "SELECT c.page AS page, c.user AS who, c._rowtime AS _rowtime, c.ROWTIME AS ROWTIME, "
        "c.ROWPARTITION AS ROWPARTITION, c.ROWOFFSET AS ROWOFFSET FROM _rows_of_clicks AS c WHERE ms > 3"
    )


@pytest.mark.parametrize(
    ("clause", "spark"),
    [
        ("TUMBLING (SIZE 1 MINUTE)", "window(clicks._rowtime, '60000 milliseconds')"),
        (
            "HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS)",
            "window(clicks._rowtime, '60000 milliseconds', '10000 milliseconds')",
        ),
    ],
)
def test_a_window_is_spark_s(catalog: Catalog, clause: str, spark: str) -> None:
    text = f"SELECT user, count(*) AS n, WINDOWSTART AS ws FROM clicks WINDOW {clause} GROUP BY user EMIT CHANGES"
    plan, _ = planned(catalog, text)
    assert (plan.kind, plan.mode) == (Kind.TABLE, "update")
    assert plan.key == ("user", "WINDOWSTART", "WINDOWEND")
    assert text_of(catalog, text) == (
        "SELECT clicks.user AS user, count(*) AS n, unix_millis(window.start) AS ws, "
        "unix_millis(window.start) AS WINDOWSTART, unix_millis(window.end) AS WINDOWEND, "
        f"max(clicks._rowtime) AS _rowtime FROM _rows_of_clicks AS clicks GROUP BY {spark}, user"
    )


def test_a_grace_period_is_the_watermark(catalog: Catalog) -> None:
    window = "SELECT user, count(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE{}) GROUP BY user EMIT FINAL"
    graced, _ = planned(catalog, window.format(", GRACE PERIOD 5 SECONDS"))
    bare, _ = planned(catalog, window.format(""))
    assert (graced.mode, graced.watermark_ms) == ("append", 5_000)
    assert bare.watermark_ms == 24 * 3_600_000


def test_streams_are_joined_within_a_time(catalog: Catalog) -> None:
    join = "LEFT JOIN views v WITHIN (1 SECOND, 2 SECONDS) ON c.user = v.user"
    text = f"SELECT c.user, v.id FROM clicks c {join} EMIT CHANGES"
    assert (
        "FROM _rows_of_clicks AS c LEFT JOIN _rows_of_views AS v ON (c.user = v.user) AND "
        "v._rowtime >= c._rowtime - INTERVAL 1000 MILLISECONDS AND "
        "v._rowtime <= c._rowtime + INTERVAL 2000 MILLISECONDS"
    ) in text_of(catalog, text)
    assert "greatest(c._rowtime, v._rowtime) AS _rowtime" in text_of(catalog, text)


@pytest.mark.parametrize(
    ("kind", "timed", "after"),
    [("", "c", 2_000 + 4_000), ("LEFT", "c", 2_000 + 4_000), ("RIGHT", "v", 1_000 + 4_000)],
)
def test_a_third_stream_is_within_the_time_of_the_joined_rows(
    catalog: Catalog, kind: str, timed: str, after: int
) -> None:
    joins = (
        f"{kind} JOIN views v WITHIN (1 SECOND, 2 SECONDS) ON c.user = v.user "
        "JOIN views w WITHIN (3 SECONDS, 4 SECONDS) ON w.user = v.user"
    )
    text = text_of(catalog, f"SELECT v.id FROM clicks c {joins} EMIT CHANGES")
    assert (
        "ON (w.user = v.user) AND "
        "w._rowtime >= greatest(c._rowtime, v._rowtime) - INTERVAL 3000 MILLISECONDS AND "
        "w._rowtime <= greatest(c._rowtime, v._rowtime) + INTERVAL 4000 MILLISECONDS AND "
        "w._rowtime >= _moldau_left_time - INTERVAL 3000 MILLISECONDS AND "
        f"w._rowtime <= _moldau_left_time + INTERVAL {after} MILLISECONDS"
    ) in text
    assert ", v._rowtime + INTERVAL 0 SECONDS AS _rowtime) AS v, c.user AS user, " in text
    assert f"{timed}._rowtime AS _moldau_left_time FROM _rows_of_clicks AS c {kind}{' ' * bool(kind)}JOIN" in text


def test_a_star_of_a_join_has_the_names_of_the_relations(catalog: Catalog) -> None:
    plan, _ = planned(catalog, "SELECT * FROM clicks c JOIN users u ON c.user = u.id EMIT CHANGES")
    assert [one.name for one in plan.outputs] == ["c_user", "c_page", "c_ms", "u_id", "u_name", "u_region"]
    assert plan.key == ("c_user",)


@pytest.mark.parametrize(
    ("query", "how", "key"),
    [
        ("SELECT c.user, u.name FROM clicks c JOIN users u ON c.user = u.id", How.LOOK_UP, ("user",)),
        ("SELECT u.id, n.text FROM users u LEFT JOIN notes n ON u.id = n.id", How.ON_KEY, ("id",)),
        ("SELECT o.oid, u.name FROM orders o JOIN users u ON o.user = u.id", How.BY_REFERENCE, ("oid",)),
        ("SELECT u.id, coalesce(u.id, n.id) AS k FROM users u FULL JOIN notes n ON u.id = n.id", How.ON_KEY, ("k",)),
    ],
)
def test_how_a_table_is_joined_follows_from_the_keys(catalog: Catalog, query: str, how: How, key: tuple[str]) -> None:
    plan, _ = planned(catalog, f"{query} EMIT CHANGES")
    assert plan.text is None
    assert [link.how for link in plan.links] == [how]
    assert plan.key == key


def test_a_query_that_ends_joins_tables_as_spark_does(catalog: Catalog) -> None:
    text = "SELECT o.oid, u.name FROM orders o JOIN users u ON o.user = u.id LIMIT 3"
    assert text_of(catalog, text, is_live=False).endswith(
        "FROM _rows_of_orders AS o JOIN _rows_of_users AS u ON (o.user = u.id) LIMIT 3"
    )


def test_a_query_that_ends_may_lack_from(catalog: Catalog) -> None:
    assert text_of(catalog, "SELECT 1 AS one", is_live=False) == "SELECT 1 AS one"


def test_a_view_is_a_query_in_parentheses(catalog: Catalog) -> None:
    text = text_of(catalog, "SELECT user, ms + 1 AS later FROM fast EMIT CHANGES")
    assert "FROM (SELECT clicks.user AS user, clicks.ms AS ms," in text
    assert text.endswith("FROM _rows_of_clicks AS clicks WHERE ms < 25) AS fast")


def test_rows_of_a_view_keep_their_key(catalog: Catalog) -> None:
    plan, _ = planned(catalog, "SELECT ms, user AS who FROM fast EMIT CHANGES")
    assert (plan.kind, plan.key) == (Kind.STREAM, ("who",))


def test_a_view_is_joined_with_a_table(catalog: Catalog) -> None:
    plan, _ = planned(catalog, "SELECT f.user, u.name FROM fast f JOIN users u ON f.user = u.id EMIT CHANGES")
    assert [link.how for link in plan.links] == [How.LOOK_UP]
    assert str(plan.scope.sources[0].sql).startswith("(SELECT `clicks`.`user` AS `user`,")


def test_each_view_of_a_long_chain_is_planned_once(catalog: Catalog) -> None:
    """Twice would be two to the power of forty."""
    made = catalog
    for number in range(40):
        before = f"v{number - 1}" if number else "fast"
        (parsed,) = parse_script(f"CREATE VIEW v{number} AS SELECT user, ms FROM {before}")
        for change in decide(made, parsed, {}).changes:
            made = apply(made, change)
    plan, _ = planned(made, "SELECT * FROM v39 EMIT CHANGES")
    assert [one.name for one in plan.outputs] == ["user", "ms"]
    assert [one.name for one in plan.reads] == ["clicks"]


def test_groups_without_a_window_are_warned_of(catalog: Catalog) -> None:
    _, writing = planned(catalog, "SELECT user, count(*) AS n FROM clicks GROUP BY user EMIT CHANGES")
    assert writing.warnings == ["line 1, column 49: the groups by user are kept for ever: a WINDOW bounds them"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT 1 AS one EMIT CHANGES", "line 1, column 1: a query that runs on has FROM"),
        ("SELECT x.* FROM clicks c EMIT CHANGES", "line 1, column 8: `x` is no relation of FROM"),
        ("SELECT user, upper(user) AS user FROM clicks EMIT CHANGES", "two columns are named user"),
        ("SELECT * FROM users ORDER BY name EMIT CHANGES", "a clause that only Spark reads (ORDER BY"),
        ("SELECT page, count(*) FROM clicks LATERAL VIEW explode(array(1)) GROUP BY page EMIT CHANGES", "groups rows"),
        ("SELECT c.user FROM clicks c FULL JOIN users u ON c.user = u.id EMIT CHANGES", "FULL would have no row"),
        ("SELECT o.oid FROM orders o RIGHT JOIN users u ON o.user = u.id EMIT CHANGES", "joins by a reference"),
        (
            "SELECT v.id FROM clicks c FULL JOIN views v WITHIN 1 HOUR ON c.user = v.user "
            "JOIN views w WITHIN 1 HOUR ON w.user = v.user EMIT CHANGES",
            "column 78: after a FULL JOIN of streams",
        ),
        ("SELECT c.user FROM clicks c JOIN users u WITHIN 1 HOUR ON c.user = u.id EMIT CHANGES", "u is a table"),
    ],
)
def test_what_cannot_run_for_good_is_told_apart(catalog: Catalog, query: str, problem: str) -> None:
    with pytest.raises(SqlError) as raised:
        planned(catalog, query)
    assert problem in str(raised.value)


def test_an_error_of_spark_has_the_place_of_the_statement(catalog: Catalog) -> None:
    text = "SELECT user,\n       upper(usr) AS u\nFROM clicks EMIT CHANGES"
    plan, _ = planned(catalog, text)
    assert plan.text is not None
    written = plan.text.text
    line = written[: written.index("usr")].count("\n") + 1
    at = written.index("usr") - (written.rfind("\n", 0, written.index("usr")) + 1)
    error = plan.text.error(
        text, f"[UNRESOLVED_COLUMN] A column `usr` cannot be resolved. SQLSTATE: 42703; line {line} pos {at};"
    )
    assert (error.line, error.column, error.problem) == (2, 14, "A column `usr` cannot be resolved.")
    assert error.source_line == "       upper(usr) AS u"


def test_an_error_without_a_place_is_of_the_statement() -> None:
    assert str(Composed("SELECT 1").error("SELECT 1", "no idea")) == "line 1, column 1: no idea"


def read_twice(catalog: Catalog, levels: int) -> None:
    """Views that each read the one before twice."""
    before = "fast"
    for level in range(levels):
        view = f"CREATE VIEW twice_{level} AS SELECT a.user FROM {before} a JOIN {before} b ON a.user = b.user"
        (parsed,) = parse_script(view)
        plan_query(catalog, asked_by(parsed.statement, Writing(view, {}, Dialect.SPARK)), is_live=False)
        for change in decide(catalog, parsed, {}).changes:
            catalog = apply(catalog, change)
        before = f"twice_{level}"


def test_the_text_of_views_that_read_a_view_twice_has_a_bound(catalog: Catalog) -> None:
    with pytest.raises(SqlError, match="has more than 100,000 characters with the views in it") as raised:
        read_twice(catalog, 40)
    assert raised.value.line == 1
    assert raised.value.source_line[raised.value.column - 1 :].startswith("twice_")
