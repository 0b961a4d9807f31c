"""The broker under test: Moldau, or any running cluster (`--against HOST:PORT`), with the same assertions."""

from __future__ import annotations

import itertools
import logging
import os
import zlib
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.clients import ALL_CLIENTS, CLIENTS, FOREIGN_CLIENTS, Client, login


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--against", default="moldau", help="moldau (default), or HOST:PORT of a running cluster")
    parser.addoption("--secured", action="store_true", help="clients log in, with ACLs; --against: moldau or apache")
    parser.addoption("--report", help="add what each client did to this JSON file (see compatibility.py)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--report"):
        from tests.conformance.report import Report

        config.pluginmanager.register(Report(config.getoption("--report")), "conformance-report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --secured: tests of every client, and of denied rights."""
    is_secured = config.getoption("--secured")
    kept = [
        item
        for item in items
        if ("client" in getattr(item, "fixturenames", ()) if is_secured else not item.get_closest_marker("secured"))
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    against = request.config.getoption("--against")
    if request.config.getoption("--secured"):
        from tests.conformance.secured import secured_cluster

        with secured_cluster(against) as servers:
            yield servers
        return
    if against != "moldau":
        yield against
        return
    from moldau.testing import Cluster

    with Cluster() as cluster:
        report = request.config.pluginmanager.get_plugin("conformance-report")
        if report is not None:
            report.observe(cluster)
        yield cluster.bootstrap_servers


EVERY_CLIENT = [*CLIENTS, *(pytest.param(name, marks=pytest.mark.foreign) for name in FOREIGN_CLIENTS)]


@pytest.fixture(params=EVERY_CLIENT)
def client(request: pytest.FixtureRequest, bootstrap_servers: str) -> Client:
    kind = ALL_CLIENTS[request.param]
    reason = kind.missing()
    if request.config.getoption("--secured") and request.config.getoption("--against") == "apache":
        reason = reason or kind.refused_login()
    if reason:
        pytest.skip(reason)
    return kind(bootstrap_servers)


@pytest.fixture(autouse=True)
def log_levels_as_before() -> Iterator[None]:
    """The broker runs in this process: a level that a request sets must not hide log lines of later tests."""
    ours = logging.getLogger("moldau")
    before = ours.level
    yield
    ours.setLevel(before)


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names that no other test, and no other run against the same cluster, has used."""
    counter = itertools.count()
    return lambda what: f"{what}-{os.getpid()}-{zlib.crc32(request.node.nodeid.encode())}-{next(counter)}"


@pytest.fixture
def new_topic(bootstrap_servers: str, new_name: Callable[[str], str]) -> Callable[..., str]:
    """Creates a topic: `new_topic(partitions=2)` gives its name."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "client.id": "fixture", **login.librdkafka()})

    def create(partitions: int = 1, **config: str) -> str:
        name = new_name("topic")
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            future.result(timeout=30)
        return name

    return create
