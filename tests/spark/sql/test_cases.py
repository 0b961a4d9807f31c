"""The golden cases of streaming SQL: statements, inputs and expected rows, on a broker, a schema registry
and a Spark session.

`cases` run with the slow tests, `more_cases` by `make sql-cases`. Each has an engine of its own.
MOLDAU_SQL_CASES_ON takes them to Apache Kafka ("kafka") or to a standalone Spark cluster ("cluster").
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.sql.engine.cases import Case, cases_of, run_case
from moldau.products.sql.engine.engine import EngineSettings
from moldau.spark import QUICK_START, open_session
from tests.exactly_once.spark_cluster import SparkCluster
from tests.support.apache_kafka import apache_kafka
from tests.support.schema_registry import SchemaRegistry

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
DIRECTORIES = ("cases", "more_cases") if os.environ.get("MOLDAU_ALL_SQL_CASES") else ("cases",)
ON = os.environ.get("MOLDAU_SQL_CASES_ON", "")
QUICK = QUICK_START["spark.driver.defaultJavaOptions"]


def _cases() -> Iterator[pytest.ParameterSet]:
    for directory in DIRECTORIES:
        for file in sorted((HERE / directory).glob("*.sql")):
            for case in cases_of(file.read_text("utf-8"), file.name):
                yield pytest.param(case, id=f"{file.stem}: {case.name}")


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if ON != "kafka":
        yield request.getfixturevalue("bootstrap_servers")
        return
    folder = tmp_path_factory.mktemp("kafka")
    with apache_kafka(folder / "scratch", folder / "data") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    if ON != "cluster":
        yield request.getfixturevalue("spark")
        return
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    settings = {"spark.executor.memory": "512m", "spark.executor.defaultJavaOptions": QUICK}
    try:
        session = open_session("cases", {"spark.master": cluster.url, **settings})
        yield session
        session.stop()
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def settings(servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineSettings]:
    registry = SchemaRegistry(servers)
    access, directory = ClusterAccess.of(servers), tmp_path_factory.mktemp("sql")
    yield EngineSettings(access, directory, name="cases", registry=Registry(registry.url))
    registry.close()


@pytest.mark.parametrize("case", list(_cases()))
def test_a_case_holds(settings: EngineSettings, session, case: Case) -> None:
    run_case(session, settings, case)
