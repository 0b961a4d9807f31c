"""One cluster for the tests of a module; each test finds it without faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing import Cluster


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.faults.clear()
    shared.faults.forget()
