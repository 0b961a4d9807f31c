"""ksqlDB's spelling as Spark SQL: a golden table, lines that stay, warnings, and what is refused. Without Spark.

tests/spark/session/test_ksql_functions.py compares the values with ksqlDB's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.functions.reference_page import functions_page
from moldau.products.sql.language.functions.row import Kind
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.rewrites import Dialect, Rewritten, rewrite
from moldau.products.sql.language.tokens import text_of, tokenize
from tests.support.ksql_values import AGGREGATED, EXPLODED, READ, VALUES
from tests.support.sql_statements import STATEMENTS

SPARK, KSQL = Dialect.SPARK, Dialect.KSQL

COLUMNS = {
    "ROWTIME": "row_time",
    "ROWPARTITION": "row_partition",
    "ROWOFFSET": "row_offset",
    "WINDOWSTART": "window_start",
    "WINDOWEND": "window_end",
}


def _golden() -> list[tuple[str, str, str]]:
    """The rows of rewrites.txt: dialect, source, text."""
    lines = (Path(__file__).parent / "rewrites.txt").read_text("utf-8").splitlines()[1:]
    return [
        (*head.split(": ", 1), text.removeprefix("    ")) for head, text in zip(lines[::2], lines[1::2], strict=True)
    ]


GOLDEN = _golden()


def rewritten(source: str, dialect: Dialect = SPARK, columns: dict[str, str] | None = None) -> Rewritten:
    return rewrite(source, tokenize(source), columns=COLUMNS if columns is None else columns, dialect=dialect)


@pytest.mark.parametrize(("dialect", "source", "text"), GOLDEN)
def test_a_golden_row(dialect: str, source: str, text: str) -> None:
    made = rewritten(source, Dialect(dialect))
    assert made.text == text
    assert bool(made.rewrites) == (made.text != source), "what changed is listed"


def test_the_golden_table_has_every_kind_of_row() -> None:
    assert len(GOLDEN) >= 150
    assert len({(dialect, source) for dialect, source, _ in GOLDEN}) == len(GOLDEN)


@pytest.mark.parametrize(("dialect", "source", "text"), GOLDEN)
def test_what_was_rewritten_is_spark_sql_that_stays(dialect: str, source: str, text: str) -> None:
    assert rewritten(text, SPARK, {}).text == text


@pytest.mark.parametrize(("dialect", "source", "text"), GOLDEN)
def test_every_line_stays_where_it_was(dialect: str, source: str, text: str) -> None:
    over_lines = "\n".join(token.before.strip() + token.text for token in tokenize(source))
    made = rewritten(f"{over_lines}\n, last_line", Dialect(dialect))
    assert made.text.count("\n") == over_lines.count("\n") + 1
    assert made.text.endswith("\n, last_line")
    last = made.text.count("\n") + 1
    assert made.place_in_source(last, 3) == (last, 3)


def test_places_of_the_text_come_from_the_source() -> None:
    source = "SELECT SPLIT(name, ','),\n  bad AS x,\n  GEO_DISTANCE(a,\n    b, 1, 2)\nFROM t"
    made = rewritten(source, KSQL)
    lines = made.text.split("\n")
    assert made.place_in_source(2, lines[1].index("bad") + 1) == (2, 3)
    assert made.place_in_source(3, lines[2].index("asin") + 1) == (3, 3), "of a call's own text: the call"
    assert made.place_in_source(3, lines[2].index("- b") + 3) == (4, 5), "of an argument: the argument"
    assert made.place_in_source(5, 1) == (5, 1)
    assert made.place_in_source(99, 1)[0] == 5


def test_comments_stay_outside_of_rewritten_calls() -> None:
    made = rewritten("-- first\nSPLIT(a, -- the list\n '.') /* last */ , b", KSQL)
    assert made.text == "split(a, '\\\\.')\n /* last */ , b"


def test_a_string_over_two_lines_is_put_on_one() -> None:
    assert rewritten("AS_VALUE('a\nb'), c").text == "'a\\nb'\n, c"


def test_what_was_rewritten_is_told_with_its_place() -> None:
    made = rewritten("SELECT x,\n  UCASE(a->b), COUNT_DISTINCT(c) FROM t")
    assert [(one.line, one.column, one.was, one.now) for one in made.rewrites] == [
        (2, 10, "->b", ".b"),
        (2, 16, "COUNT_DISTINCT(c)", "approx_count_distinct(c, 0.01)"),
    ]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("SELECT a->b, SPLIT(c, '.') FROM t", ["SPLIT is Spark's: the delimiter is a regular expression."]),
        ("SELECT a->b, c[1] FROM t", ["[1] counts from 0, in ksqlDB from 1:"]),
        ("SELECT a->b, c['key'], ABS(d) FROM t", []),
        ("SELECT a.b, SPLIT(c, '.'), d[1] FROM t", []),
        ("SELECT a->b, SUM(x) FROM t", ["SUM is Spark's: of no value it gives null, in ksqlDB 0."]),
    ],
)
def test_a_statement_with_ksqldbs_words_is_warned(source: str, told: list[str]) -> None:
    warnings = rewritten(source).warnings
    assert [one.message[: len(start)] for one, start in zip(warnings, told, strict=True)] == told
    assert all("SET 'sql.dialect' = 'ksql'" in one.message for one in warnings)


def test_the_dialect_ksql_warns_of_divisions() -> None:
    assert [(one.line, one.column) for one in rewritten("a / b, a / 2.0", KSQL).warnings] == [(1, 3)]
    assert "DIV" in rewritten("a / b", KSQL).warnings[0].message


def test_the_dialect_ksql_warns_of_not_before_a_comparison() -> None:
    source = "NOT a = b AND c NOT IN (1) AND d IS NOT NULL AND e NOT LIKE 'x' AND NOT (f > 1)"
    assert [one.column for one in rewritten(source, KSQL).warnings] == [1, source.rindex("NOT") + 1]
    assert rewritten(source, SPARK).warnings == ()


@pytest.mark.parametrize(
    ("source", "dialect", "place", "message"),
    [
        ("a->", SPARK, (1, 2), "expected a field of the struct, or *, found the end of the statement"),
        ("a->1", SPARK, (1, 4), "expected a field of the struct, or *, found `1`"),
        ("SELECT f(x)->* FROM t", SPARK, (1, 12), "->* takes a column"),
        ("SELECT EXPLODE(a)->b FROM t", SPARK, (1, 18), "the rows of EXPLODE have no field here"),
        (
            "SELECT EXPLODE(a) x, EXPLODE(b) y FROM t",
            SPARK,
            (1, 22),
            "a SELECT has one EXPLODE: write inline(arrays_zip",
        ),
        ("(" * 51, SPARK, (1, 51), "brackets and CASE are nested deeper than 50 levels"),
        ("CASE WHEN x THEN " * 51, KSQL, (1, 851), "brackets and CASE are nested deeper than 50 levels"),
        ("SLICE(" * 12 + "a" + ", b, c)" * 12, KSQL, (1, 43), "SLICE has more than 100000 characters in Spark SQL"),
        ("a" + "[1]" * 300, KSQL, (1, 503), "more than 500 words stand before this bracket"),
        ("STRUCT(x := 1, 2)", SPARK, (1, 17), "expected `:=` and a value"),
        ("STRUCT(1 := 2)", SPARK, (1, 8), "expected the name of a field, found `1`"),
        ("MAP('a' := 1, 2)", SPARK, (1, 16), "expected `:=` and a value"),
        ("CAST(x)", SPARK, (1, 7), "expected AS and a type"),
        ("SELECT t AT TIME ZONE 'UTC'", SPARK, (1, 10), "AT TIME ZONE is not known: write CONVERT_TZ"),
        ("(a + b", SPARK, (1, 1), "`(` is not closed"),
        ("a + b)", SPARK, (1, 6), "`)` closes no bracket"),
        ("a[1)", SPARK, (1, 4), "`)` closes no bracket"),
        ("ROWTIME > 'yesterday'", SPARK, (1, 11), "ROWTIME is compared with a time as in"),
        ("ROWTIME > '2026-13-01'", SPARK, (1, 11), "ROWTIME is compared with a time as in"),
        ("COUNT_DISTINCT(a, b)", SPARK, (1, 1), "COUNT_DISTINCT takes 1 arguments and has 2"),
        ("GEO_DISTANCE(a, b, c)", SPARK, (1, 1), "GEO_DISTANCE takes 4 or 5 arguments and has 3"),
        ("GEO_DISTANCE(a, b, c, d, 'feet')", SPARK, (1, 1), "GEO_DISTANCE measures in 'KM' or 'MILES'"),
        ("TOPK(x, k)", SPARK, (1, 1), "TOPK takes the number of values last"),
        ("TOPK(x, 0)", SPARK, (1, 1), "TOPK takes the number of values last"),
        ("LATEST_BY_OFFSET(x, y)", SPARK, (1, 1), "LATEST_BY_OFFSET takes a value, then a number"),
        ("LATEST_BY_OFFSET(x, 0)", SPARK, (1, 1), "LATEST_BY_OFFSET takes a value, then a number"),
        ("FROM_BYTES(b, 'utf16')", SPARK, (1, 1), "FROM_BYTES takes an encoding as a string"),
        ("ENCODE(a, e, 'hex')", KSQL, (1, 1), "ENCODE takes an encoding as a string"),
        ("DATEADD(MONTHS, 1, d)", KSQL, (1, 1), "DATEADD counts in DAYS, HOURS, MINUTES"),
        ("ARRAY_SORT(a, 'UP')", KSQL, (1, 1), "ARRAY_SORT sorts 'ASC' or 'DESC', not 'UP'"),
        ("INT_FROM_BYTES(b, 'MIXED')", SPARK, (1, 1), "INT_FROM_BYTES takes the order of bytes"),
        ("SPLIT_TO_MAP(a, '', ':')", SPARK, (1, 1), "SPLIT_TO_MAP gives null without delimiters"),
        ("FILTER(a, (x, y, z) => x)", SPARK, (1, 1), "FILTER takes an array and x => ..., or a map"),
        ("TRANSFORM(m, (k, v) => k)", SPARK, (1, 1), "TRANSFORM takes an array and x => ..., or a map"),
        ("REDUCE(a, 0, x => x)", SPARK, (1, 1), "REDUCE takes an array, a state and (s, x) => ..."),
    ],
)
def test_what_has_no_twin_is_refused(source: str, dialect: Dialect, place: tuple[int, int], message: str) -> None:
    with pytest.raises(SqlError) as caught:
        rewritten(source, dialect)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.problem.startswith(message)


def test_offsets_are_needed_for_the_latest_value() -> None:
    with pytest.raises(SqlError, match=r"these rows have none: write max_by\(value, time\)"):
        rewritten("SELECT LATEST_BY_OFFSET(x) FROM t", columns={})


@pytest.mark.parametrize("statement", STATEMENTS)
def test_spark_sql_stays_as_it_is(statement: str) -> None:
    made = rewritten(statement, SPARK)
    assert (made.text, made.rewrites, made.warnings) == (text_of(tokenize(statement)[:-1]), (), ())


def test_two_queries_have_an_explode_each() -> None:
    source = "SELECT EXPLODE(a) FROM t UNION SELECT EXPLODE(b) FROM (SELECT explode(c) AS b FROM u)"
    assert rewritten(source).text == source
    lateral = "SELECT x FROM t LATERAL VIEW explode(a) u AS x LATERAL VIEW explode(b) v AS y"
    assert rewritten(lateral).text == lateral


def test_the_deepest_text_is_rewritten() -> None:
    for source in (
        "(" * 50 + "a->b" + ")" * 50,
        "ABS(" * 50 + "a->b" + ")" * 50,
        "ARRAY_LENGTH(" * 50 + "a" + ")" * 50,
    ):
        assert rewritten(source, KSQL).rewrites
    cases = "CASE WHEN x THEN a || 'y' ELSE " * 50 + "b" + " END" * 50
    assert rewritten(cases, KSQL).text.count("concat_ws") == 50


def test_a_long_text_is_rewritten_in_time_that_grows_with_it() -> None:
    source = "SELECT " + ", ".join(f"STRUCT(a := x->f{place}, b := UCASE(y) || 'z')" for place in range(2_000))
    assert len(rewritten(source, KSQL).rewrites) == 6_000


def test_names_without_a_column_stay() -> None:
    assert rewritten("ROWTIME >= '2026' AND WINDOWSTART", columns={}).text == "ROWTIME >= '2026' AND WINDOWSTART"


def test_a_type_of_ones_own_is_written_out() -> None:
    types = {"Address": "struct<street:string>"}
    source = "CAST(x AS ARRAY<ADDRESS>), CAST(y AS STRUCT<address `address`>), address"
    made = rewrite(source, tokenize(source), columns={}, types=types)
    assert made.text == (
        "CAST(x AS ARRAY<struct<street:string>>), CAST(y AS STRUCT<address struct<street:string>>), address"
    )


def test_every_function_is_compared_with_ksqldb() -> None:
    compared = {**VALUES, **AGGREGATED, **EXPLODED}
    assert sorted(compared) == sorted(FUNCTIONS)
    assert set(compared) >= READ
    assert all(row.examples and row.name in row.examples[0] for row in FUNCTIONS.values())


def test_every_row_says_what_differs() -> None:
    for row in FUNCTIONS.values():
        assert not (row.differs and not row.in_spark), row.name
        assert row.kind in Kind
        if row.in_spark and not row.is_same and row.own is None:
            assert row.differs, f"{row.name} would be Spark's without a word"


def test_the_reference_page_is_what_the_table_says() -> None:
    written = Path(__file__).parents[3] / "docs" / "reference" / "sql" / "functions.md"
    module = "moldau.products.sql.language.functions.reference_page"
    assert written.read_text("utf-8") == functions_page(), f"run python -m {module}"
