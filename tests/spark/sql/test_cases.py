"""The golden cases of streaming SQL: statements, inputs and expected rows, on a broker and a Spark session.

`cases` run with the slow tests, `more_cases` by `make sql-cases`. One engine runs all of them, one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.products.sql.engine.cases import Case, cases_of, run_case
from moldau.products.sql.engine.engine import Engine, EngineSettings

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
DIRECTORIES = ("cases", "more_cases") if os.environ.get("MOLDAU_ALL_SQL_CASES") else ("cases",)


def _cases() -> Iterator[pytest.ParameterSet]:
    for directory in DIRECTORIES:
        for file in sorted((HERE / directory).glob("*.sql")):
            for case in cases_of(file.read_text("utf-8"), file.name):
                yield pytest.param(case, id=f"{file.stem}: {case.name}")


@pytest.fixture(scope="module")
def engine(spark, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    settings = EngineSettings(ClusterAccess.of(bootstrap_servers), tmp_path_factory.mktemp("sql"), name="cases")
    with Engine(spark, settings) as engine:
        yield engine


@pytest.mark.parametrize("case", list(_cases()))
def test_a_case_holds(engine: Engine, spark, case: Case) -> None:
    run_case(engine, spark, case)
