"""The language of streaming SQL next to Spark's own parser: what is left to Spark, Spark reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.queries import Fragment, Query
from moldau.products.sql.language.tokens import tokenize
from tests.support.parsed_sql import cases_of
from tests.support.source_tree import ROOT

CASES = cases_of(ROOT / "tests/unit/products/sql/language/statements.txt", "= ")
STRINGS = [
    "'it''s'", "'a\"\"b'", '"a""b\'\'c"', r"'\n\t\'\\\d\%\_'", r"'\u00e9\U0001F600\101'", r"'\ud83d\ude00'",
    r"r'\d+\'", r'R"\n"', r"'\477\x41\1'", "'a\\\nb'", r"'\Z\b\a'", "'two\nlines'",
]  # fmt: skip


def expressions_of(query: Query) -> Iterator[Fragment]:
    for select in query.selects:
        yield from (item.expression for item in select.items)
        yield from (join.on for join in select.joins)
        yield from (part for part in (select.where, select.having) if part is not None)
        yield from (*select.group_by, *select.partition_by)


def test_spark_reads_what_is_left_to_it(spark):
    parser = spark._jsparkSession.sessionState().sqlParser()
    statements = [parsed for case in CASES for parsed in parse_script(case.text)]
    queries = [one for one in statements if isinstance(getattr(one.statement, "query", None), Query)]
    for parsed in queries:
        (alone,) = parse_script(parsed.text, substitutes=False)
        query, writing = alone.statement.query, Writing(alone.text, {}, Session().dialect)
        for expression in expressions_of(query):
            parser.parseExpression(writing.sql(expression).text)
        if not query.selects:
            parser.parsePlan(query.source.text)
    assert len(queries) > 60


@pytest.mark.parametrize("written", STRINGS)
def test_a_string_has_the_value_that_spark_reads(spark, written):
    ((value,),) = spark.sql(f"SELECT {written}").collect()
    assert tokenize(written)[0].value == value
