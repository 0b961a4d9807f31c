"""Connections to PostgreSQL through TCP, which a relay passes to the server's socket in a directory."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from moldau.products.pipelines.databases.postgresql import connected, execute
from tests.support.postgresql import PostgresqlServer

WAIT_S = 60.0


def _copy(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(65_536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


@pytest.fixture
def address(postgresql: PostgresqlServer) -> Iterator[str]:
    """The address of a relay on 127.0.0.1, for one connection."""
    parts = urlsplit(postgresql.url)
    (directory,) = parse_qs(parts.query)["host"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)

        def serve() -> None:
            client, _ = listening.accept()
            with client, socket.socket(socket.AF_UNIX) as server:
                server.connect(f"{directory}/.s.PGSQL.5432")
                answers = threading.Thread(target=_copy, args=(server, client), daemon=True)
                answers.start()
                _copy(client, server)
                answers.join(WAIT_S)

        door = threading.Thread(target=serve, daemon=True)
        door.start()
        user = re.sub(r":$", "", parts.netloc.rpartition("@")[0])
        yield f"postgresql://{user}@127.0.0.1:{listening.getsockname()[1]}{parts.path}?sslmode=disable&gssencmode=disable"
        door.join(WAIT_S)


@pytest.mark.slow
@pytest.mark.parametrize(("said", "expected"), [("", (30, 10, 3, 60_000)), ("&keepalives_idle=5", (5, 10, 3, 60_000))])
def test_a_server_that_is_gone_without_a_word_is_noticed(address: str, said: str, expected: tuple[int, ...]) -> None:
    """The kernel alone would check after two hours. A value in the address has priority."""
    options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
    with connected(f"{address}{said}", "it cannot be read") as connection:
        assert execute(connection, "select 1").fetchone() == (1,)
        with socket.fromfd(connection.pgconn.socket, socket.AF_INET, socket.SOCK_STREAM) as mine:
            assert mine.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert tuple(mine.getsockopt(socket.IPPROTO_TCP, option) for option in options) == expected
