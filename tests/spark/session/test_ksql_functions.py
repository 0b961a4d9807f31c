"""Every function of ksqlDB, rewritten and run by Spark, gives the value that ksqlDB gives."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException, PySparkException
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
    yield own
    spark.createDataFrame([], "nothing int")  # makes it the active session again, as `own` has made itself


def rewritten(source: str, dialect: Dialect = Dialect.KSQL) -> str:
    return rewrite(source, tokenize(source), columns=COLUMNS, dialect=dialect).text


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
    """Fails with every case that differs. One query has all cases; if it fails, each case has its own."""
    texts = [rewritten(source) for source, _ in cases]
    try:
        found = list(session.sql(query.format(", ".join(f"{text} AS v{i}" for i, text in enumerate(texts)))).first())
    except PySparkException:
        found = [_first(session, query.format(f"{text} AS value")) for text in texts]
    assert len(found) == len(cases)
    wrong = [
        f"{source}\n  = {text}\n  gives {plain(value)!r}, not {expected!r}"
        for (source, expected), text, value in zip(cases, texts, found, strict=True)
        if not is_equal(value, expected)
    ]
    assert not wrong, "\n".join(wrong)


def _first(session, query: str) -> object:
    try:
        return session.sql(query).first()[0]
    except PySparkException as error:
        return f"an error: {str(error)[:300]}"


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_function_gives_ksqldbs_value(session, name: str) -> None:
    compare(session, VALUES[name], "SELECT {}")


def test_the_spelling_gives_ksqldbs_value(session) -> None:
    compare(session, SPELLING, "SELECT {}")


@pytest.mark.parametrize("name", sorted(AGGREGATED))
def test_an_aggregate_gives_ksqldbs_value(session, name: str) -> None:
    compare(session, AGGREGATED[name], "SELECT {} FROM rows")


@pytest.mark.parametrize("name", sorted(EXPLODED))
def test_a_table_function_gives_ksqldbs_rows(session, name: str) -> None:
    for source, expected in EXPLODED[name]:
        rows = session.sql(f"SELECT {rewritten(source)} AS value").collect()
        assert [plain(row[0]) for row in rows] == expected, source


def test_every_aggregate_runs_in_a_stream(session, tmp_path) -> None:
    session.table("rows").write.json(str(tmp_path / "in"))
    schema = session.table("rows").schema
    session.readStream.schema(schema).json(str(tmp_path / "in")).createOrReplaceTempView("streamed")
    cases = [case for name in sorted(AGGREGATED) for case in AGGREGATED[name]]
    columns = ", ".join(f"{rewritten(source)} AS v{place}" for place, (source, _) in enumerate(cases))
    query = (
        session.sql(f"SELECT {columns} FROM streamed GROUP BY row_partition")
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName("aggregated")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    (row,) = session.table("aggregated").collect()
    wrong = [source for (source, expected), found in zip(cases, row, strict=True) if not is_equal(found, expected)]
    assert not wrong


@pytest.mark.parametrize("dialect", Dialect)
def test_riders_near_a_town_in_either_dialect(session, dialect: Dialect) -> None:
    """The queries of ksqlDB's quick start."""
    session.createDataFrame(
        [
            ("c2309eec", 37.7877, -122.4205, 0),
            ("18f4ea86", 37.3903, -122.0643, 1),
            ("4ab5cbad", 37.3952, -122.0813, 2),
            ("c2309eec", 37.3910, -122.0642, 3),
        ],
        "profileId string, latitude double, longitude double, row_offset long",
    ).selectExpr("*", "0 AS row_partition").createOrReplaceTempView("riderLocations")
    latest = """
        SELECT profileId, LATEST_BY_OFFSET(latitude) AS la, LATEST_BY_OFFSET(longitude) AS lo
        FROM riderLocations GROUP BY profileId"""
    session.sql(rewritten(latest, dialect)).createOrReplaceTempView("currentLocation")
    near = """
        SELECT ROUND(GEO_DISTANCE(la, lo, 37.4133, -122.1162), -1) AS distanceInMiles,
          COLLECT_LIST(profileId) AS riders,
          COUNT(*) AS count
        FROM currentLocation GROUP BY ROUND(GEO_DISTANCE(la, lo, 37.4133, -122.1162), -1)"""
    rows = {row[0]: (sorted(row[1]), row[2]) for row in session.sql(rewritten(near, dialect)).collect()}
    assert rows == {0.0: (["4ab5cbad"], 1), 10.0: (["18f4ea86", "c2309eec"], 2)}


def test_an_error_of_spark_has_its_place_in_the_source(session) -> None:
    source = "SELECT SPLIT(name, ','),\n  GEO_DISTANCE(x, x,\n    missing, 2) + x\nFROM rows"
    made = rewrite(source, tokenize(source), columns=COLUMNS, dialect=Dialect.KSQL)
    with pytest.raises(AnalysisException) as caught:
        session.sql(made.text)
    line, position = map(int, re.findall(r"line (\d+) pos (\d+)", str(caught.value))[0])
    assert made.place_in_source(line, position + 1) == (3, 5), "the place of `missing`"


def test_every_struct_is_spread_by_its_fields(session) -> None:
    row = session.sql(rewritten("SELECT s->* FROM (SELECT STRUCT(a := 1, b := 'x') AS s)")).collect()[0]
    assert row.asDict() == {"a": 1, "b": "x"}
