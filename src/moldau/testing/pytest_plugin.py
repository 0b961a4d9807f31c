"""The pytest plugin. It imports nothing of Moldau until a test requests one of its fixtures.

After each test that uses the shared cluster, also through another fixture, the plugin ends faults and restarts or
resumes the broker. An InvariantError of the broker fails the test with its trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster

MARKER = "moldau"
MAX_TOPIC_PREFIX = 200
"""Characters of the test's name in the topic's name: Kafka allows 249 in all."""

_shared: pytest.StashKey[Cluster] = pytest.StashKey()


@pytest.fixture(scope="session")
def moldau_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real broker in this process, in memory, shared by the session. Use separate topics in each test."""
    from moldau.testing.cluster import Cluster

    with Cluster() as cluster:
        request.config.stash[_shared] = cluster
        try:
            yield cluster
        finally:
            del request.config.stash[_shared]


@pytest.fixture
def moldau_own_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A broker in memory for this test alone. Takes some 3 ms once the first has started. The test's marker `moldau`
    has the arguments for `Cluster`."""
    from moldau.testing.cluster import Cluster

    with Cluster(**_marked(request.node)) as cluster:
        yield cluster


def _marked(item: pytest.Item) -> dict[str, Any]:
    """The keywords of the `moldau` markers. A marker of the test overrides one of its module. Raises UsageError."""
    found: dict[str, Any] = {}
    for marker in item.iter_markers(MARKER):
        if marker.args:
            raise pytest.UsageError(
                f"the marker {MARKER} has keywords only, those of Cluster: security='sasl_ssl', ..."
            )
        found = {**marker.kwargs, **found}
    return found


@pytest.fixture
def moldau_topic(request: pytest.FixtureRequest, moldau_cluster: Cluster) -> Iterator[str]:
    """The name of a topic for this test alone on `moldau_cluster`. It is created with one partition, and deleted after
    the test."""
    from moldau.errors import MoldauError

    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    prefix = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{worker}{'-' if worker else ''}{request.node.name}")
    name = moldau_cluster.topic(prefix[:MAX_TOPIC_PREFIX].strip("-."))
    yield name
    if moldau_cluster.is_running:
        try:
            moldau_cluster.delete_topic(name)
        except MoldauError:
            return  # the test deleted it, or the broker is paused: the plugin resumes it


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker with pytest."""
    config.addinivalue_line(
        "markers", f"{MARKER}(**keywords): what `moldau_own_cluster` is made with, as moldau.testing.Cluster takes it"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rejects a marker that has no effect on its test. A marker of a module may apply to only some of its tests."""
    for item in items:
        is_marked = any(marker.name == MARKER for marker in item.own_markers)
        if is_marked and "moldau_own_cluster" not in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid}: the marker {MARKER} needs the fixture moldau_own_cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Repairs the shared cluster for the next test."""
    result = yield
    cluster = item.config.stash.get(_shared, None)
    if cluster is not None and "moldau_cluster" in getattr(item, "fixturenames", ()):
        _set_right(cluster)
    return result


def _set_right(cluster: Cluster) -> None:
    """Raises the error with which the broker has stopped by itself. The next test gets a running broker
    nevertheless."""
    if cluster.has_faults:
        cluster.faults.clear()
        cluster.faults.forget()
    cluster.resume()
    try:
        cluster.check()
    finally:
        if not cluster.is_running:
            cluster.revive()
