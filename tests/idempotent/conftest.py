"""A broker in memory, a PostgreSQL server for the session, and a database of each kind for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from moldau.testing import Cluster
from tests.idempotent.services import Database, Service
from tests.support.postgresql import PostgresqlServer


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield Database(tmp_path / "shop.db")
        return
    url = request.getfixturevalue("postgresql").url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    yield Database(url)


@pytest.fixture
def start(cluster: Cluster, database: Database) -> Iterator[Callable[..., Service]]:
    """Starts a service; all of them leave at the end."""
    services: list[Service] = []

    def make(client: str, *topics: str, **settings: Any) -> Service:
        services.append(Service(client, cluster.bootstrap_servers, database, list(topics), **settings))
        return services[-1]

    yield make
    for service in services:
        service.leave()
