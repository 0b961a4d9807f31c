"""Fixtures of tests of connectors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.database_tables import Tables
from tests.support.gate import CONNECTORS
from tests.support.postgresql import PostgresqlServer


@pytest.fixture
def own_module() -> Iterator[None]:
    """The folder of a user's own connectors is on the path."""
    sys.path.insert(0, str(CONNECTORS))
    yield
    sys.path.remove(str(CONNECTORS))


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    if request.param == "sqlite":
        return Tables.of_sqlite(tmp_path / "shop.db")
    return Tables.of_postgresql(request.getfixturevalue("postgresql").url)
