"""A canary next to every test, and connections that send exactly the given bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.canary import Canary
from tests.support.wire import RawConnection
from tests.support.wire_log_admin import wait_for_leader


@pytest.fixture
def connect(bootstrap_servers: str) -> Iterator[Callable[[], RawConnection]]:
    opened: list[RawConnection] = []

    def open_connection() -> RawConnection:
        opened.append(RawConnection(bootstrap_servers))
        return opened[-1]

    yield open_connection
    for connection in opened:
        connection.socket.close()


@pytest.fixture
def raw(connect: Callable[[], RawConnection]) -> RawConnection:
    return connect()


@pytest.fixture
def new_topic(new_topic: Callable[..., str], raw: RawConnection) -> Callable[..., str]:
    """As the other fixture, but waits for the topic's leaders: with Apache Kafka they come a moment later."""

    def create(partitions: int = 1, **config: str) -> str:
        name = new_topic(partitions, **config)
        for index in range(partitions):
            wait_for_leader(raw, name, index)
        return name

    return create


@pytest.fixture
def is_moldau(request: pytest.FixtureRequest) -> bool:
    """Whether it is Moldau: in some rows of the table Moldau does better than Apache Kafka, whose answer differs."""
    return request.config.getoption("--against") == "moldau"


@pytest.fixture(scope="module", autouse=True)
def canary(bootstrap_servers: str) -> Iterator[Canary]:
    watched = Canary(bootstrap_servers)
    yield watched
    watched.finish()
