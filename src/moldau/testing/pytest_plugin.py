"""The pytest plugin. It imports nothing of Moldau until a test asks for one of its fixtures.

After each test that uses the shared cluster, also through another fixture: nothing goes wrong any more, the broker runs
again if the test killed or paused it, and a rule that the broker itself has broken fails the test with the trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster

MAX_TOPIC_PREFIX = 200
"""Characters of a test's name in its topic's: Kafka allows 249 in all."""

_shared: pytest.StashKey[Cluster] = pytest.StashKey()


@pytest.fixture(scope="session")
def moldau_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real broker in this process, in memory, shared by the session: give each test topics of its own."""
    from moldau.testing.cluster import Cluster

    with Cluster() as cluster:
        request.config.stash[_shared] = cluster
        try:
            yield cluster
        finally:
            del request.config.stash[_shared]


@pytest.fixture
def moldau_own_cluster() -> Iterator[Cluster]:
    """A broker that this test has to itself, in memory: some 3 ms once the first has started."""
    from moldau.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def moldau_topic(request: pytest.FixtureRequest, moldau_cluster: Cluster) -> Iterator[str]:
    """The name of a topic of this test's own on `moldau_cluster`: created, with one partition, and gone after it."""
    from moldau.errors import MoldauError

    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    prefix = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{worker}{'-' if worker else ''}{request.node.name}")
    name = moldau_cluster.topic(prefix[:MAX_TOPIC_PREFIX].strip("-."))
    yield name
    if moldau_cluster.is_running:
        try:
            moldau_cluster.delete_topic(name)
        except MoldauError:
            return  # the test deleted it, or the broker is paused: the plugin sees to it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Sets the shared cluster right for the next test."""
    result = yield
    cluster = item.config.stash.get(_shared, None)
    if cluster is not None and "moldau_cluster" in getattr(item, "fixturenames", ()):
        _set_right(cluster)
    return result


def _set_right(cluster: Cluster) -> None:
    """Raises what the broker has stopped with by itself; the next test has a running broker nevertheless."""
    if cluster.has_faults:
        cluster.faults.clear()
        cluster.faults.forget()
    cluster.resume()
    try:
        cluster.check()
    finally:
        if not cluster.is_running:
            cluster.revive()
