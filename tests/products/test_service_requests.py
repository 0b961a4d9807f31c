"""Requests in many pieces: a service reads exactly what was sent, plain and over TLS."""

from __future__ import annotations

import hashlib
import http.client
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from moldau.products.service.admission import this_machine
from moldau.products.service.people import Role
from moldau.products.service.routes import ServedRoute
from moldau.products.service.scrubbed import PIECE_BYTES
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread
from moldau.transport.service_tls import ServiceTls
from tests.support.certificates import authority

WAIT_S = 60


async def digest(request: Request) -> Response:
    return PlainTextResponse(hashlib.sha256(await request.body()).hexdigest())


async def not_found(*_: object) -> Response:
    return PlainTextResponse("no such page", 404)


@pytest.fixture(params=["plain", "TLS"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[http.client.HTTPConnection]:
    tls, context = None, None
    if request.param == "TLS":
        path = authority().issue("CN=service").write(tmp_path, "server")
        tls = ServiceTls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
        context = ssl.create_default_context(cadata=authority().pem)
    service = Service("digest", this_machine)
    app = service.app([ServedRoute("/", digest, needs=Role.VIEWER, methods=["POST"])], not_found)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with served_in_thread(service, app, listening, tls):
            if context is None:
                found = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            else:
                found = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=context)
            with closing(found):
                yield found


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 200, PIECE_BYTES, PIECE_BYTES + 1, 20 * PIECE_BYTES + 7])
def test_a_body_of_any_size_comes_as_it_was_sent(connection: http.client.HTTPConnection, size: int) -> None:
    for number in range(3):  # on one connection
        body = random.Random(number).randbytes(size)
        connection.request("POST", "/", body)
        answer = connection.getresponse()
        assert (answer.status, answer.read().decode()) == (200, hashlib.sha256(body).hexdigest())


def test_requests_that_come_in_single_bytes_and_two_at_once_are_answered(
    connection: http.client.HTTPConnection,
) -> None:
    connection.connect()
    one = f"POST / HTTP/1.1\r\nhost: 127.0.0.1:{connection.port}\r\ncontent-length: 2\r\n\r\nab".encode()
    for byte in one:
        connection.sock.sendall(bytes([byte]))
    connection.sock.sendall(2 * one)
    expected, received = hashlib.sha256(b"ab").hexdigest().encode(), b""
    while received.count(expected) < 3:
        piece = connection.sock.recv(1 << 16)
        assert piece, received
        received += piece
