"""Every function of ksqlDB, rewritten and run by Spark, gives the value that ksqlDB gives."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from moldau.products.sql.language.functions.table import SESSION_SETTINGS
from moldau.products.sql.language.rewrites import Dialect, rewrite
from moldau.products.sql.language.tokens import tokenize
from tests.support.ksql_values import AGGREGATED, EXPLODED, ROWS, SPELLING, VALUES

pytestmark = pytest.mark.slow

COLUMNS = {"ROWOFFSET": "row_offset", "ROWPARTITION": "row_partition"}


@pytest.fixture(scope="module")
def session(spark):
    """A session of its own with the settings that the table asks for."""
    own = spark.newSession()
    for name, value in SESSION_SETTINGS.items():
        own.conf.set(name, value)
    own.createDataFrame(
        [(offset, 0, x, name) for offset, x, name in ROWS], "row_offset long, row_partition int, x int, name string"
    ).createOrReplaceTempView("rows")
    return own


def rewritten(source: str) -> str:
    return rewrite(source, tokenize(source), columns=COLUMNS, dialect=Dialect.KSQL).text


def plain(value: object) -> object:
    """As the tables write it."""
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value


def is_equal(found: object, expected: object) -> bool:
    if isinstance(expected, float) and found is not None and not isinstance(found, str):
        number = float(found)  # type: ignore[arg-type]
        return (math.isnan(number) and math.isnan(expected)) or math.isclose(number, expected, rel_tol=1e-12)
    return plain(found) == expected and (found is None) == (expected is None)


def compare(session, cases, query: str) -> None:
    """Fails with every case that differs."""
    wrong = []
    for source, expected in cases:
        try:
            found = session.sql(query.format(rewritten(source))).collect()[0][0]
        except PySparkException as error:
            wrong.append(f"{source}\n  = {rewritten(source)}\n  {str(error)[:300]}")
            continue
        if not is_equal(found, expected):
            wrong.append(f"{source}\n  = {rewritten(source)}\n  gives {plain(found)!r}, not {expected!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_function_gives_ksqldbs_value(session, name: str) -> None:
    compare(session, VALUES[name], "SELECT {} AS value")


def test_the_spelling_gives_ksqldbs_value(session) -> None:
    compare(session, SPELLING, "SELECT {} AS value")


@pytest.mark.parametrize("name", sorted(AGGREGATED))
def test_an_aggregate_gives_ksqldbs_value(session, name: str) -> None:
    compare(session, AGGREGATED[name], "SELECT {} AS value FROM rows")


@pytest.mark.parametrize("name", sorted(EXPLODED))
def test_a_table_function_gives_ksqldbs_rows(session, name: str) -> None:
    for source, expected in EXPLODED[name]:
        rows = session.sql(f"SELECT {rewritten(source)} AS value").collect()
        assert [plain(row[0]) for row in rows] == expected, source


def test_every_struct_is_spread_by_its_fields(session) -> None:
    row = session.sql(rewritten("SELECT s->* FROM (SELECT STRUCT(a := 1, b := 'x') AS s)")).collect()[0]
    assert row.asDict() == {"a": 1, "b": "x"}
