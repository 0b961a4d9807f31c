"""Answers of statements in ksqlDB's shapes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from moldau.products.service.people import LOCAL, Person
from moldau.products.sql.engine.answers import Explained, QueryStatus
from moldau.products.sql.engine.session import Session
from moldau.products.sql.serving.http.bodies import Asked
from moldau.products.sql.serving.http.errors import RejectedRequest
from moldau.products.sql.serving.http.statements import check_script, read_script, run_script
from moldau.products.sql.serving.http.values import encoded
from tests.support.listed_sql import ListedSql
from tests.support.parsed_sql import cases_of

FILE = Path(__file__).with_name("http_entities.txt")


def answers(engine: ListedSql, session: Session, sql: str, person: Person = LOCAL) -> list[str]:
    """The entities as JSON, or the error."""
    try:
        script = read_script(engine, Asked(sql, {}, session.variables))
        check_script(script, person)
        found = run_script(engine, script, session, 7)
    except RejectedRequest as error:
        found = [error.body]
    return [encoded(one).decode() for one in found]


def failing_queries(engine: ListedSql) -> None:
    engine.explained = Explained(
        reads=("orders",),
        columns=(("user", "string"), ("n", "bigint")),
        key=("user",),
        steps=("reads orders", "keeps the column user"),
        text="SELECT user FROM orders",
        rewrites=("line 1: UCASE is upper",),
        plan="== Physical Plan ==",
    )
    for id, query in engine.catalog.queries.items():
        engine.states.setdefault(
            id,
            QueryStatus(
                query=query, state="retrying", records_read=12, batches=3, lag=4, batch_ms=50, error="a record is bad",
                records_per_second=1.5,
            ),
        )  # fmt: skip


def test_each_answer_has_the_shape_that_ksqldb_gives_it() -> None:
    engine, session = ListedSql(), Session()
    for case in cases_of(FILE, "= "):
        failing_queries(engine)
        expected = [msgspec.json.decode(line) for line in case.expected if line]
        found = [msgspec.json.decode(line) for line in answers(engine, session, case.text)]
        assert found == expected, case
