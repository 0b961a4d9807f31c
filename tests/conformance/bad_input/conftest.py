"""A canary beside every test, and connections that say exactly what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.canary import Canary
from tests.support.wire import RawConnection


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
def is_moldau(request: pytest.FixtureRequest) -> bool:
    """Where the table says that Moldau does better, Apache Kafka's own answer is another one."""
    return request.config.getoption("--against") == "moldau"


@pytest.fixture(scope="module", autouse=True)
def canary(bootstrap_servers: str) -> Iterator[Canary]:
    watched = Canary(bootstrap_servers)
    yield watched
    watched.finish()
