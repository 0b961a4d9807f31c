"""The pytest plugin: one fixture. It imports nothing of Moldau until a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster


@pytest.fixture(scope="session")
def moldau_cluster() -> Iterator[Cluster]:
    """A real broker in this process, in memory, shared by the session: give each test topics of its own."""
    from moldau.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
